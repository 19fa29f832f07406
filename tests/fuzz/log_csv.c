/* log_csv.c: any bytes as a header and a line of CSV. An input is the header up to its first newline, then the line. */
#include "log_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *const end = size ? memchr(data, '\n', size) : NULL;
	const size_t length = end ? (size_t)(end - data) : size;
	char *const header = malloc(length ? length : 1);
	struct weir__log_format *format;
	struct weir_message why;

	if (header == NULL)
		abort();
	if (length > 0)
		memcpy(header, data, length);
	if (weir__log_format_new(log_options(), "csv", (struct weir__slice){ header, length }, &format, &why) ==
	    WEIR_OK) {
		if (end)
			log_parse(format, end + 1, size - length - 1);
		weir__log_format_free(format);
	}
	free(header);
	return 0;
}
