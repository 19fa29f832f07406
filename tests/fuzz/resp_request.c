/* resp_request.c: any bytes as RESP requests. Any split into pieces gives the same requests. A request written back as
 * a multibulk reads the same.
 *
 * The first byte of an input selects: bit 0 a client before AUTH, bits 1 and 2 the limits, the others the pieces. */
#include "require.h"
#include "transcript.h"

enum { ARGUMENTS_MAX = 1024, BULK_MAX = 20000 };

static const struct {
	uint32_t arguments_max, line_max;
	int64_t bulk_max;
} limits[] = { { ARGUMENTS_MAX, WEIR__RESP_LINE_MAX, BULK_MAX }, { 3, 20, 5 }, { 12, 8, 1000 }, { 1, 4, 0 } };

static struct weir__resp_slice arguments[ARGUMENTS_MAX];
static struct transcript whole, other;

/* Writes the requests as multibulks, without an invalid rest. */
static size_t rewrite(struct weir__resp_request *request, const uint8_t *data, size_t size, char *to, size_t room)
{
	struct weir__resp_writer writer = { to, room, 0, 2, false };
	char *bytes = malloc(size + 1);
	size_t at = 0, used;

	if (bytes == NULL)
		abort();
	if (size > 0)
		memcpy(bytes, data, size);
	weir__resp_request_init(request);
	while (weir__resp_request_read(request, bytes + at, size - at, &used) == WEIR__RESP_COMPLETE) {
		require(used > 0 && used <= size - at, "what is used is not there");
		require(request->n > 0 && request->n <= request->arguments_max, "too many arguments");
		weir__resp_write_array(&writer, request->n);
		for (uint32_t i = 0; i < request->n; i++) {
			const struct weir__resp_slice argument = request->arguments[i];

			require(argument.bytes >= bytes + at && argument.length <= used &&
					argument.bytes + argument.length <= bytes + at + used,
				"an argument is not where the request is");
			weir__resp_write_bulk(&writer, argument.bytes, argument.length);
		}
		at += used;
	}
	free(bytes);
	return writer.length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char written[1 << 20];
	struct weir__resp_request request = { .arguments = arguments };
	size_t length, each, good;

	if (size == 0 || size > 1 << 13)
		return 0;
	each = (data[0] >> 3) + 1U;
	request.is_unauthenticated = data[0] & 1;
	request.arguments_max = limits[data[0] >> 1 & 3].arguments_max;
	request.line_max = limits[data[0] >> 1 & 3].line_max;
	request.bulk_max = limits[data[0] >> 1 & 3].bulk_max;
	data++;
	size--;
	transcript_requests(&whole, &request, data, size, at_once);
	transcript_requests(&other, &request, data, size, (struct pieces){ each, each });
	require_same(whole.text, other.text, "in pieces it is something else");
	length = rewrite(&request, data, size, written, sizeof(written));
	if (length > sizeof(written))
		return 0;
	/* A multibulk may be longer than the line it was read from. */
	request = (struct weir__resp_request){ .arguments = arguments,
					       .arguments_max = ARGUMENTS_MAX,
					       .line_max = WEIR__RESP_LINE_MAX,
					       .bulk_max = BULK_MAX };
	transcript_requests(&other, &request, written, length, at_once);
	good = other.length - strlen("0 left");
	require_same(other.text + good, "0 left", "written again there is something left");
	whole.text[good] = other.text[good] = '\0';
	require_same(whole.text, other.text, "written again it is something else");
	return 0;
}
