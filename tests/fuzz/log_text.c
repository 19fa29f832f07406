/* log_text.c: any bytes as a format string and as a line. An input is the format string up to its first NUL, then the
 * line. Without a NUL it is a line in the formats that have a name. */
#include "log_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = { "combined_timed", "apache", "vhost_combined", "common" };
	static struct weir__log_format *formats[4];
	const uint8_t *const end = size ? memchr(data, '\0', size) : NULL;
	const struct weir__slice none = { "", 0 };
	struct weir__log_format *format;
	struct weir_message why;

	for (size_t i = 0; end == NULL && i < 4; i++) {
		if (formats[i] == NULL &&
		    weir__log_format_new(log_options(), names[i], none, &formats[i], &why) != WEIR_OK)
			abort();
		log_parse(formats[i], data, size);
	}
	if (end == NULL || weir__log_format_new(log_options(), (const char *)data, none, &format, &why) != WEIR_OK)
		return 0;
	log_parse(format, end + 1, size - (size_t)(end + 1 - data));
	weir__log_format_free(format);
	return 0;
}
