/* redis_answers.c: replies of a server with our codec, for resp_redis_test.py to compare with Redis.
 *
 * Reads cases from standard input: flags (1 byte, bit 0: before AUTH), the length of the pieces and the length of the
 * input (4 bytes each, little-endian), the input. For each case, writes the length of the replies (4 bytes) and the
 * replies: an array of the arguments for EVAL "return ARGV" 0 ..., the argument for ECHO, -other for anything else. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "wire/resp.h"

enum { ARGUMENTS_MAX = 1 << 20, SIZE_MOST = 1 << 22 };

static struct weir__resp_slice arguments[ARGUMENTS_MAX];
static char input[SIZE_MOST], output[2 * SIZE_MOST];

static bool is(struct weir__resp_slice slice, const char *word)
{
	return slice.length == strlen(word) && strncasecmp(slice.bytes, word, slice.length) == 0;
}

static void answer(struct weir__resp_writer *writer, const struct weir__resp_request *request)
{
	if (!request->is_unauthenticated && request->n == 2 && is(request->arguments[0], "echo")) {
		weir__resp_write_bulk(writer, request->arguments[1].bytes, request->arguments[1].length);
	} else if (!request->is_unauthenticated && request->n >= 3 && is(request->arguments[0], "eval") &&
		   is(request->arguments[1], "return ARGV") && is(request->arguments[2], "0")) {
		weir__resp_write_array(writer, request->n - 3);
		for (uint32_t i = 3; i < request->n; i++)
			weir__resp_write_bulk(writer, request->arguments[i].bytes, request->arguments[i].length);
	} else {
		weir__resp_write_error(writer, "other", 5);
	}
}

static size_t play(bool is_unauthenticated, size_t piece, size_t size)
{
	struct weir__resp_request request = { .arguments = arguments,
					      .arguments_max = ARGUMENTS_MAX,
					      .line_max = WEIR__RESP_LINE_MAX,
					      .bulk_max = 512 << 20,
					      .is_unauthenticated = is_unauthenticated };
	struct weir__resp_writer writer = { output, sizeof(output), 0, 2, false };
	enum weir__resp_status status = WEIR__RESP_MORE;
	size_t at = 0, used;

	weir__resp_request_init(&request);
	for (size_t come = 0; come < size && status != WEIR__RESP_BAD;) {
		come = size - come < piece ? size : come + piece;
		do {
			status = weir__resp_request_read(&request, input + at, come - at, &used);
			at += used;
			if (status == WEIR__RESP_COMPLETE)
				answer(&writer, &request);
		} while (status == WEIR__RESP_COMPLETE);
	}
	if (status == WEIR__RESP_BAD)
		weir__resp_write_protocol_error(&writer, &request);
	return writer.length;
}

int main(void)
{
	unsigned char head[9];

	while (fread(head, sizeof(head), 1, stdin) == 1) {
		uint32_t piece, size, length;

		memcpy(&piece, head + 1, 4);
		memcpy(&size, head + 5, 4);
		if (size > SIZE_MOST || fread(input, 1, size, stdin) != size)
			return 1;
		length = (uint32_t)play(head[0] & 1, piece, size);
		if (length > sizeof(output))
			return 1;
		fwrite(&length, 4, 1, stdout);
		fwrite(output, 1, length, stdout);
		fflush(stdout);
	}
	return 0;
}
