/* h2_floods.h: counts the frames of an HTTP/2 client that cost the server more than the client, and bounds them.
 *
 * nghttp2 parses frames, but its version 1.52 has no bound for most of these. So this also reads the 9-byte head of
 * each frame, and skips the rest. Each kind of frame has a budget, which refills with time and with each response.
 * Pure: the clock is an argument. */
#ifndef WEIR_WIRE_H2_FLOODS_H
#define WEIR_WIRE_H2_FLOODS_H

#include <weir/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* name, burst, refill per second, refill per response, words for the log.
 * RESETS: streams that the client resets, or makes the server reset by an error on the stream.
 * PINGS: as in gRPC, a client may ping as often as it gets responses, else once a second.
 * LONG_HEADS: requests whose decoded fields exceed the limit for a head: 30 bytes can decode to 32 KB. And long HEADERS
 * that begin no stream.
 * OTHERS: frames with little or no effect on a request: PRIORITY, WINDOW_UPDATE, DATA that is short or padded, HEADERS
 * that begin no stream, ACKs of PING, unknown types. */
#define WEIR__H2_FLOODS(X)                                                                                             \
	X(RESETS, 1000, 33, 1, "resets")                                                                               \
	X(PINGS, 100, 1, 2, "pings")                                                                                   \
	X(SETTINGS, 32, 1, 0, "settings")                                                                              \
	X(LONG_HEADS, 5, 5, 0, "long_heads")                                                                           \
	X(OTHERS, 2000, 100, 8, "other_frames")

enum weir__h2_flood {
#define WEIR__H2_FLOOD_NAME(name, burst, second, response, words) WEIR__H2_FLOOD_##name,
	WEIR__H2_FLOODS(WEIR__H2_FLOOD_NAME)
#undef WEIR__H2_FLOOD_NAME
		WEIR__H2_BUDGETS,
	WEIR__H2_FLOOD_BLOCK = WEIR__H2_BUDGETS, /* a header block that is too long, or in too many pieces */
	WEIR__H2_FLOOD_NONE,
};

enum {
	WEIR__H2_FRAME_HEAD = 9,
	WEIR__H2_PREFACE = 24,
	WEIR__H2_BLOCK_MAX = 64 * 1024, /* bytes of a header block, compressed */
	WEIR__H2_BLOCK_PIECES = 8,      /* its CONTINUATION frames: bytes / 16384 are enough */
	WEIR__H2_SENT_PER_FRAME = 1024, /* bytes of bodies that refill OTHERS by one frame */
};

/* The preface with which an HTTP/2 connection begins. */
#define WEIR__H2_PREFACE_BYTES "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

struct weir__h2_floods {
	uint64_t left[WEIR__H2_BUDGETS]; /* frames, in 1/1000000000 */
	weir_ns since;
	uint32_t to_skip; /* bytes of the preface or of the current frame that have not arrived */
	uint32_t block, pieces;
	uint32_t newest; /* the stream that began last */
	bool is_old;     /* the current header block begins no stream */
	uint8_t head_length;
	unsigned char head[WEIR__H2_FRAME_HEAD];
	enum weir__h2_flood flood; /* the first budget that was exceeded */
};

void weir__h2_floods_init(struct weir__h2_floods *floods, weir_ns now);

/* Reads the next bytes of the client. Returns false once a budget is exceeded: see floods->flood. */
bool weir__h2_floods_read(struct weir__h2_floods *floods, const void *bytes, size_t n, weir_ns now);

/* Counts one frame. Returns false once its budget is exceeded. */
bool weir__h2_floods_count(struct weir__h2_floods *floods, enum weir__h2_flood flood);

/* Notes that a decoded header block is too long. Returns false. */
bool weir__h2_floods_fail_block(struct weir__h2_floods *floods);

/* Call it for each response that is complete. */
void weir__h2_floods_responded(struct weir__h2_floods *floods);

/* Call it with the number of bytes of bodies that were sent. For these, the client may send WINDOW_UPDATE for the
 * stream and for the connection. Go's client sends both for each 4 KiB. */
void weir__h2_floods_sent(struct weir__h2_floods *floods, size_t n);

/* The name of a budget, for log lines and metrics. */
const char *weir__h2_flood_word(enum weir__h2_flood flood);

#endif
