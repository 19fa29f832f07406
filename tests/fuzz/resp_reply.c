/* resp_reply.c: any bytes as RESP replies. Any split into pieces gives the same replies, and the counts in tokens are
 * right.
 *
 * The first byte of an input selects: bits 0 to 2 the limits, the others the pieces. */
#include "require.h"
#include "transcript.h"

enum { TOKENS_MAX = 1024, BULK_MAX = 20000 };

static const struct {
	uint32_t tokens_max, depth_max, line_max;
	int64_t bulk_max;
} limits[] = {
	{ TOKENS_MAX, WEIR__RESP_DEPTH_MOST, WEIR__RESP_LINE_MAX, BULK_MAX },
	{ 10, 3, 30, 20 },
	{ 100, UINT32_MAX, 20, 1000 },
	{ 1, 0, 0, 0 },
	{ TOKENS_MAX, 2, 1000, BULK_MAX },
	{ 0, 1, 10, 10 },
	{ 50, 16, 1, 1 },
	{ 6, 1, 100, 100 },
};

static struct weir__resp_token tokens[TOKENS_MAX];
static struct transcript whole, other;

/* Checks that a token's `span` covers its elements and theirs. Returns the index behind them. */
static uint32_t walk(const struct weir__resp_reply *reply, uint32_t at, unsigned depth)
{
	const struct weir__resp_token *token = &reply->tokens[at];
	const uint32_t end = at + token->span;

	require(depth <= (uint64_t)reply->depth_max + 1 && at < reply->n && end <= reply->n,
		"a token is not in its reply");
	at++;
	if (token->type >= WEIR__RESP_ARRAY)
		for (int64_t i = 0; i < token->number; i++) {
			while (reply->tokens[at].type == WEIR__RESP_ATTRIBUTE)
				at = walk(reply, at, depth + 1);
			at = walk(reply, at, depth + 1);
		}
	require(at == end, "a span is wrong");
	return end;
}

static void walk_all(struct weir__resp_reply *reply, const uint8_t *data, size_t size)
{
	size_t at = 0, used;

	weir__resp_reply_init(reply);
	while (weir__resp_reply_read(reply, (const char *)data + at, size - at, &used) == WEIR__RESP_COMPLETE) {
		uint32_t token = 0;

		require(used > 0 && used <= size - at, "what is used is not there");
		while (reply->tokens[token].type == WEIR__RESP_ATTRIBUTE)
			token = walk(reply, token, 0);
		require(walk(reply, token, 0) == reply->n, "a reply is not one value");
		at += used;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct weir__resp_reply reply = { .tokens = tokens };
	size_t each;

	if (size == 0 || size > 1 << 13)
		return 0;
	each = (data[0] >> 3) + 1U;
	reply.tokens_max = limits[data[0] & 7].tokens_max;
	reply.depth_max = limits[data[0] & 7].depth_max;
	reply.line_max = limits[data[0] & 7].line_max;
	reply.bulk_max = limits[data[0] & 7].bulk_max;
	data++;
	size--;
	transcript_replies(&whole, &reply, data, size, at_once);
	transcript_replies(&other, &reply, data, size, (struct pieces){ each, each });
	require_same(whole.text, other.text, "in pieces it is something else");
	walk_all(&reply, data, size);
	return 0;
}
