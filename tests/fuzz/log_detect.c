/* log_detect.c: any bytes as the beginning of a log whose format is to be detected. */
#include "log_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *const bytes = malloc(size ? size : 1);

	if (bytes == NULL)
		abort();
	if (size > 0)
		memcpy(bytes, data, size);
	(void)weir__log_format_detect(log_options(), (struct weir__slice){ bytes, size });
	free(bytes);
	return 0;
}
