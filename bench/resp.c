/* resp.c: measures reading a CL.THROTTLE request, writing its reply, and reading the reply.
 *
 *     resp request|write|reply [--count N]
 *
 * Prints {"ns": time of one}. The buffer has PIPELINE requests or replies, as on a busy connection. */
#include "wire/resp.h"

#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PIPELINE = 100, ARGUMENTS = 16, TOKENS = 16, REPLY_NUMBERS = 5 };

static char bytes[PIPELINE * 128];
static size_t size;
static int64_t numbers[PIPELINE][REPLY_NUMBERS];

static void make_requests(void)
{
	for (int i = 0; i < PIPELINE; i++)
		size += (size_t)sprintf(
			bytes + size,
			"*6\r\n$11\r\nCL.THROTTLE\r\n$8\r\nuser%04d\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n"
			"$1\r\n1\r\n",
			i);
}

static void make_numbers(void)
{
	for (int i = 0; i < PIPELINE; i++)
		memcpy(numbers[i], (int64_t[]){ i % 2, 16, i % 16, i % 2 ? 3 : -1, i }, sizeof(numbers[i]));
}

static void write_replies(void)
{
	struct weir__resp_writer writer = { bytes, sizeof(bytes), 0, 2, false };

	for (int i = 0; i < PIPELINE; i++)
		if (!weir__resp_write_integers(&writer, numbers[i], REPLY_NUMBERS))
			errx(1, "no room");
	size = writer.length;
}

static void read_requests(void)
{
	struct weir__resp_slice arguments[ARGUMENTS];
	struct weir__resp_request request = {
		.arguments = arguments, .arguments_max = ARGUMENTS, .line_max = WEIR__RESP_LINE_MAX, .bulk_max = 1 << 20
	};
	size_t used;

	weir__resp_request_init(&request);
	for (size_t at = 0; at < size; at += used)
		if (weir__resp_request_read(&request, bytes + at, size - at, &used) != WEIR__RESP_COMPLETE ||
		    request.n != 6)
			errx(1, "not a request");
}

static void read_replies(void)
{
	struct weir__resp_token tokens[TOKENS];
	struct weir__resp_reply reply = { .tokens = tokens,
					  .tokens_max = TOKENS,
					  .depth_max = 2,
					  .line_max = WEIR__RESP_LINE_MAX,
					  .bulk_max = 1 << 20 };
	size_t used;

	weir__resp_reply_init(&reply);
	for (size_t at = 0; at < size; at += used)
		if (weir__resp_reply_read(&reply, bytes + at, size - at, &used) != WEIR__RESP_COMPLETE ||
		    reply.n != 1 + REPLY_NUMBERS)
			errx(1, "not a reply");
}

static double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	const long count = argc > 3 ? atol(argv[3]) : 20000000;
	void (*run)(void) = strcmp(what, "request") == 0 ? read_requests :
			    strcmp(what, "write") == 0   ? write_replies :
			    strcmp(what, "reply") == 0   ? read_replies :
							   NULL;
	double start;

	if (run == NULL || count < PIPELINE)
		errx(2, "usage: resp request|write|reply [--count N]");
	make_numbers();
	if (run == read_requests)
		make_requests();
	else
		write_replies();
	start = now();
	for (long i = 0; i < count / PIPELINE; i++)
		run();
	printf("{\"ns\": %.2f}\n", (now() - start) / (double)(count / PIPELINE * PIPELINE));
	return 0;
}
