/* trace.c: any bytes as a traceparent, and in a log line. An accepted traceparent is written back unchanged. A log line
 * is one line without control characters, and JSON if that is the format. */
#include "observe/trace.h"

#include <jansson.h>

#include "observe/log.h"
#include "require.h"

static void check_parent(const char *text, size_t size)
{
	struct weir__trace_parent parent, again;
	char trace[2 * WEIR__TRACE_ID + 1], span[2 * WEIR__SPAN_ID + 1], whole[WEIR__TRACEPARENT + 1];

	if (!weir__traceparent_read(text, size, &parent))
		return;
	weir__trace_write_hex(parent.trace, WEIR__TRACE_ID, trace);
	weir__trace_write_hex(parent.span, WEIR__SPAN_ID, span);
	(void)snprintf(whole, sizeof(whole), "00-%s-%s-%.2s", trace, span, text + WEIR__TRACEPARENT - 2);
	require(memcmp(whole + 2, text + 2, WEIR__TRACEPARENT - 2) == 0, "it says another thing");
	require(weir__traceparent_read(whole, WEIR__TRACEPARENT, &again) && again.is_sampled == parent.is_sampled,
		"it cannot be read again");
}

static void check_line(const uint8_t *data, size_t size, bool is_json)
{
	static FILE *nowhere;
	struct weir__log_line line;
	const char *const printed = line.bytes;
	size_t length;
	json_t *json;

	if (nowhere == NULL)
		nowhere = fopen("/dev/null", "w");
	require(nowhere != NULL, "/dev/null cannot be opened");
	weir__log_begin(&line, is_json, WEIR__LOG_INFO, "rejected");
	weir__log_text(&line, "key", data, size);
	weir__log_text(&line, "path", data, size);
	weir__log_number(&line, "n", size);
	weir__log_print(&line, nowhere);
	length = line.length;
	require(length <= WEIR__LOG_LINE && printed[length - 1] == '\n', "it does not end");
	for (size_t i = 0; i + 1 < length; i++)
		require((unsigned char)printed[i] >= ' ' && printed[i] != 0x7f, "there is a control character in it");
	if (!is_json)
		return;
	json = json_loadb(printed, length, JSON_ALLOW_NUL, NULL);
	require(json != NULL, "the line is not JSON");
	json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *const text = malloc(size + 1); /* so that a sanitizer sees a read beyond it */

	if (text == NULL)
		abort();
	memcpy(text, data, size);
	check_parent(text, size);
	check_line((const uint8_t *)text, size, false);
	check_line((const uint8_t *)text, size, true);
	free(text);
	return 0;
}
