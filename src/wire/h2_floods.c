/* h2_floods.c: budgets of frames, and a scanner of frame heads. */
#include "wire/h2_floods.h"

#include <string.h>

static const uint64_t unit = 1000000000;

static const struct {
	uint64_t burst, second, response;
	const char *word;
} budgets[WEIR__H2_BUDGETS] = {
#define BUDGET_ROW(name, burst, second, response, words) { (burst), (second), (response), (words) },
	WEIR__H2_FLOODS(BUDGET_ROW)
#undef BUDGET_ROW
};

enum { DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION };
enum { IS_ACK = 1, IS_PADDED = 8 };
enum { SMALL = 64 };     /* bytes: the head of a shorter frame costs more than its content */
enum { LONG_OLD = 256 }; /* bytes of HEADERS that begin no stream */

const char *weir__h2_flood_word(enum weir__h2_flood flood)
{
	return flood < WEIR__H2_BUDGETS ? budgets[flood].word : flood == WEIR__H2_FLOOD_BLOCK ? "header_block" : "none";
}

void weir__h2_floods_init(struct weir__h2_floods *floods, weir_ns now)
{
	*floods = (struct weir__h2_floods){ .since = now, .to_skip = WEIR__H2_PREFACE, .flood = WEIR__H2_FLOOD_NONE };
	for (size_t i = 0; i < WEIR__H2_BUDGETS; i++)
		floods->left[i] = budgets[i].burst * unit;
}

static void add(struct weir__h2_floods *floods, size_t i, uint64_t units)
{
	const uint64_t most = budgets[i].burst * unit;

	floods->left[i] = units > most - floods->left[i] ? most : floods->left[i] + units;
}

static void refill(struct weir__h2_floods *floods, weir_ns now)
{
	const uint64_t passed = now > floods->since ? now - floods->since : 0;

	for (size_t i = 0; i < WEIR__H2_BUDGETS && passed > 0; i++) {
		uint64_t units;

		add(floods, i,
		    __builtin_mul_overflow(passed, budgets[i].second, &units) ? budgets[i].burst * unit : units);
	}
	if (passed > 0)
		floods->since = now;
}

void weir__h2_floods_responded(struct weir__h2_floods *floods)
{
	for (size_t i = 0; i < WEIR__H2_BUDGETS; i++)
		add(floods, i, budgets[i].response * unit);
}

void weir__h2_floods_sent(struct weir__h2_floods *floods, size_t n)
{
	add(floods, WEIR__H2_FLOOD_OTHERS, n * (unit / WEIR__H2_SENT_PER_FRAME));
}

static bool fail(struct weir__h2_floods *floods, enum weir__h2_flood flood)
{
	if (floods->flood == WEIR__H2_FLOOD_NONE)
		floods->flood = flood;
	return false;
}

bool weir__h2_floods_count(struct weir__h2_floods *floods, enum weir__h2_flood flood)
{
	if (floods->flood != WEIR__H2_FLOOD_NONE)
		return false;
	if (floods->left[flood] < unit)
		return fail(floods, flood);
	floods->left[flood] -= unit;
	return true;
}

bool weir__h2_floods_fail_block(struct weir__h2_floods *floods)
{
	return fail(floods, WEIR__H2_FLOOD_BLOCK);
}

/* No other frame comes within a header block: nghttp2 checks that. */
static bool add_to_block(struct weir__h2_floods *floods, uint32_t length)
{
	floods->block += length;
	return (floods->block <= WEIR__H2_BLOCK_MAX && floods->pieces <= WEIR__H2_BLOCK_PIECES) ||
	       fail(floods, WEIR__H2_FLOOD_BLOCK);
}

/* Whether HEADERS begin a stream. Otherwise they are trailers, or their stream has ended, and nghttp2 decodes and
 * ignores them. */
static bool is_new(struct weir__h2_floods *floods)
{
	const unsigned char *const at = floods->head + 5;
	const uint32_t stream = (uint32_t)(at[0] & 0x7f) << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
	const bool is = stream > floods->newest;

	if (is)
		floods->newest = stream;
	return is;
}

static bool count_old(struct weir__h2_floods *floods, uint32_t length)
{
	return !floods->is_old ||
	       weir__h2_floods_count(floods, length < LONG_OLD ? WEIR__H2_FLOOD_OTHERS : WEIR__H2_FLOOD_LONG_HEADS);
}

static bool begin_frame(struct weir__h2_floods *floods)
{
	const unsigned char *const head = floods->head;
	const uint32_t length = (uint32_t)head[0] << 16 | (uint32_t)head[1] << 8 | head[2];
	const uint8_t type = head[3], flags = head[4];

	floods->to_skip = length;
	switch (type) {
	case DATA:
		return (length >= SMALL && !(flags & IS_PADDED)) ||
		       weir__h2_floods_count(floods, WEIR__H2_FLOOD_OTHERS);
	case HEADERS:
		floods->block = floods->pieces = 0;
		floods->is_old = !is_new(floods);
		return add_to_block(floods, length) && count_old(floods, length);
	case CONTINUATION:
		floods->pieces++;
		return add_to_block(floods, length) && count_old(floods, length);
	case RST_STREAM:
		return weir__h2_floods_count(floods, WEIR__H2_FLOOD_RESETS);
	case SETTINGS:
		return weir__h2_floods_count(floods, WEIR__H2_FLOOD_SETTINGS);
	case PING: /* an ACK needs no response */
		return weir__h2_floods_count(floods, flags & IS_ACK ? WEIR__H2_FLOOD_OTHERS : WEIR__H2_FLOOD_PINGS);
	default:
		return weir__h2_floods_count(floods, WEIR__H2_FLOOD_OTHERS);
	}
}

bool weir__h2_floods_read(struct weir__h2_floods *floods, const void *bytes, size_t n, weir_ns now)
{
	const char *at = bytes;

	refill(floods, now);
	while (floods->flood == WEIR__H2_FLOOD_NONE && n > 0) {
		const size_t wanted = floods->to_skip > 0 ? floods->to_skip :
							    (size_t)WEIR__H2_FRAME_HEAD - floods->head_length;
		const size_t taken = wanted < n ? wanted : n;

		if (floods->to_skip > 0) {
			floods->to_skip -= (uint32_t)taken;
		} else {
			memcpy(floods->head + floods->head_length, at, taken);
			floods->head_length = (uint8_t)(floods->head_length + taken);
			if (floods->head_length == WEIR__H2_FRAME_HEAD) {
				floods->head_length = 0;
				(void)begin_frame(floods);
			}
		}
		at += taken;
		n -= taken;
	}
	return floods->flood == WEIR__H2_FLOOD_NONE;
}
