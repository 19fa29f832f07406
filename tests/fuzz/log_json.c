/* log_json.c: any bytes as two lines, in each dialect of JSON. What the first line taught about names must not harm the
 * second. An input is the first line up to its first newline, then the second. */
#include "log_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = { "json", "caddy", "envoy", "traefik" };
	static struct weir__log_format *formats[4];
	const uint8_t *const end = size ? memchr(data, '\n', size) : NULL;
	const size_t length = end ? (size_t)(end - data) : size;
	const struct weir__slice none = { "", 0 };
	struct weir_message why;

	for (size_t i = 0; i < 4; i++) {
		if (formats[i] == NULL &&
		    weir__log_format_new(log_options(), names[i], none, &formats[i], &why) != WEIR_OK)
			abort();
		log_parse(formats[i], data, length);
		if (end)
			log_parse(formats[i], end + 1, size - length - 1);
	}
	return 0;
}
