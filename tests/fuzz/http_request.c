/* http_request.c: any bytes as HTTP requests. Any split into pieces gives the same requests or the same error. A
 * request written back with canonical line ends and lengths reads the same.
 *
 * The first byte of an input selects the pieces. */
#include <strings.h>

#include "http_transcript.h"
#include "require.h"

enum { INPUT_MOST = 1 << 14 };

static struct http_transcript whole, other, again;

static bool is_within(struct weir__http_slice slice, const char *bytes, size_t n)
{
	return slice.bytes >= bytes && slice.length <= n && slice.bytes + slice.length <= bytes + n;
}

/* Writes the first request again, with a Content-Length instead of the headers that gave the length of its body. */
static size_t rewrite(const struct weir__http_request *request, char *to, size_t room)
{
	const struct weir__http_reader *const reader = request->reader;
	size_t n = (size_t)snprintf(to, room, "%s %.*s HTTP/1.%u\r\n", llhttp_method_name(request->method),
				    (int)reader->target.length, request->bytes + reader->target.at,
				    reader->parser.http_minor);

	for (uint32_t i = 0; i < reader->n; i++) {
		const struct weir__http_header *const header = &reader->headers[i];
		const char *const name = request->bytes + header->name.at;

		if ((header->name.length == 14 && strncasecmp(name, "content-length", 14) == 0) ||
		    (header->name.length == 17 && strncasecmp(name, "transfer-encoding", 17) == 0))
			continue;
		n += (size_t)snprintf(to + n, room - n, "%.*s: %.*s\r\n", (int)header->name.length, name,
				      (int)header->value.length, request->bytes + header->value.at);
	}
	n += (size_t)snprintf(to + n, room - n, "Content-Length: %zu\r\n\r\n", request->body.length);
	memcpy(to + n, request->body.bytes, request->body.length);
	return n + request->body.length;
}

static void check_first(const uint8_t *data, size_t size)
{
	static char written[4 * INPUT_MOST];
	static struct weir__http_reader reader, second;
	struct weir__http_request request, same;
	struct weir__http_slice value;
	char *const bytes = malloc(size);
	size_t used = 0, length;

	memcpy(bytes, data, size);
	weir__http_init(&reader);
	if (weir__http_read(&reader, bytes, size, &used, &request) == WEIR__HTTP_COMPLETE) {
		require(used > 0 && used <= size, "what is used is not there");
		require(is_within(request.path, bytes, size) && is_within(request.query, bytes, size) &&
				is_within(request.body, bytes, size),
			"a part is not where the request is");
		require(weir__http_find(&request, "host", &value) || reader.parser.http_minor == 0, "no Host header");
		length = rewrite(&request, written, sizeof(written));
		weir__http_init(&second);
		if (reader.n < WEIR__HTTP_HEADERS_MAX && length <= WEIR__HTTP_HEAD_MAX) {
			require(weir__http_read(&second, written, length, &used, &same) == WEIR__HTTP_COMPLETE,
				"written again it is refused");
			require(used == length && same.body.length == request.body.length &&
					memcmp(same.body.bytes, request.body.bytes, request.body.length) == 0 &&
					same.path.length == request.path.length && same.method == request.method,
				"written again it is something else");
		}
		(void)weir__http_decode(&request.query);
		(void)weir__http_decode_path(&request.path);
	}
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t each;

	if (size < 2 || size > INPUT_MOST)
		return 0;
	each = data[0] + 1U;
	data++;
	size--;
	http_transcribe(&whole, (const char *)data, size, at_once);
	http_transcribe(&other, (const char *)data, size, (struct pieces){ each, each });
	require_same(whole.text, other.text, "in pieces it is something else");
	http_transcribe(&again, (const char *)data, size, (struct pieces){ each, SIZE_MAX });
	require_same(whole.text, again.text, "in two pieces it is something else");
	check_first(data, size);
	return 0;
}
