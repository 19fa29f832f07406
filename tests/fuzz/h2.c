/* h2.c: any bytes as frames of HTTP/2 after the preface. However they are split, the session stays within its bounds, and
 * each request that it gives out can be served.
 *
 * The first byte of an input selects the pieces and what becomes of requests. */
#include <stdlib.h>

#include "require.h"
#include "wire/h2.h"

enum { INPUT_MOST = 1 << 14, ROOM = 64 * 1024, MEMORY_MOST = 8 * 1024 * 1024 };

static char out[ROOM];

static void closed(void *context, struct weir__h2_stream *stream)
{
	(void)context;
	require(stream->number > 0 && !stream->is_queued, "a stream that is not one closes");
}

static bool is_enough(void *context, struct weir__h2_stream *stream)
{
	(void)context;
	return stream->number % 8 == 5;
}

static void check_request(struct weir__h2_stream *stream)
{
	static struct weir__http_reader reader;
	struct weir__http_request request;
	const char *begin, *end;

	weir__h2_request(stream, &reader, &request);
	begin = stream->bytes;
	end = begin + stream->length;
	require(reader.n <= WEIR__HTTP_HEADERS_MAX, "too many headers");
	for (uint32_t i = 0; i < reader.n; i++)
		require(begin + reader.headers[i].value.at + reader.headers[i].value.length <= end,
			"a header is outside");
	require(request.path.bytes >= begin && request.path.bytes + request.path.length <= end, "the path is outside");
	require(request.query.bytes >= begin && request.query.bytes + request.query.length <= end,
		"the query is outside");
	require(request.body.bytes >= begin && request.body.bytes + request.body.length == end, "the body is outside");
	require(request.body.length <= WEIR__HTTP_BODY_MAX, "the body is too long");
}

static void serve(struct weir__h2 *session, unsigned how)
{
	static const struct weir__h2_field type = { "content-type", "application/grpc", 12, 16 };
	struct weir__h2_stream *stream;

	while ((stream = weir__h2_take(session)) != NULL) {
		check_request(stream);
		switch ((how + (unsigned)stream->number / 2) % 4) {
		case 0:
			(void)weir__h2_respond(stream, 204, NULL, 0, true);
			break;
		case 1:
			(void)weir__h2_respond(stream, 200, &type, 1, false);
			(void)weir__h2_append(stream, out, 1000);
			weir__h2_end(stream, 0, "words \xff");
			break;
		case 2:
			(void)weir__h2_respond(stream, 200, &type, 1, false); /* and no end */
			break;
		default:
			weir__h2_reset(stream, WEIR__H2_INTERNAL_ERROR);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct weir__h2_options options = { sizeof(struct weir__h2_stream), closed, is_enough, NULL };
	struct weir__h2_progress progress;
	struct weir__h2 *session;
	size_t each;
	bool is_open;

	if (size < 2 || size > INPUT_MOST)
		return 0;
	each = data[0] + 1U;
	session = weir__h2_new(&options, 1000000000);
	require(session != NULL, "no memory");
	is_open = weir__h2_read(session, WEIR__H2_PREFACE_BYTES, WEIR__H2_PREFACE, 1000000000);
	for (size_t at = 1; at < size && is_open; at += each) {
		const size_t n = each < size - at ? each : size - at;

		is_open = weir__h2_read(session, (const char *)data + at, n, 1000000000 + at);
		if (data[0] % 4 == 3 && at % 32 < each)
			weir__h2_ping(session);
		serve(session, data[0]);
		while (weir__h2_write(session, out, sizeof(out)) > 0)
			continue;
		require(weir__h2_bytes(session) < MEMORY_MOST, "the session takes too much memory");
	}
	weir__h2_look(session, &progress);
	weir__h2_go_away(session, 0);
	while (weir__h2_write(session, out, sizeof(out)) > 0)
		continue;
	weir__h2_free(session);
	return 0;
}
