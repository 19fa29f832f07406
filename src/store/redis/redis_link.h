/* redis_link.h: one connection of a client on its own: bytes out and in, commands in flight, and the handshake. Pure
 * except for memory, which is bounded. */
#ifndef WEIR_STORE_REDIS_REDIS_LINK_H
#define WEIR_STORE_REDIS_REDIS_LINK_H

#include "store/redis/redis_client.h"

enum {
	/* Calls in flight on a link. With 2, Redis always has the next call at hand, while further jobs gather. */
	WEIR__REDIS_DEPTH = 2,
	WEIR__REDIS_FLIGHTS_MAX = 8,
	WEIR__REDIS_TOKENS_MAX = 256,
	WEIR__REDIS_OUTPUT_MAX = 1 << 20,
	/* Bytes of a reply, except to a query. Replies of the script have at most 16 KiB. */
	WEIR__REDIS_BULK_MAX = 1 << 16,
};

/* The first ones, up to GREETED, in the order of the handshake. */
enum weir__redis_command {
	WEIR__REDIS_HELLO,
	WEIR__REDIS_AUTH,
	WEIR__REDIS_SET_NAME,
	WEIR__REDIS_SELECT,
	WEIR__REDIS_ROLE,
	WEIR__REDIS_LOAD,
	WEIR__REDIS_SUBSCRIBE, /* to the link's channel */
	WEIR__REDIS_GREETED,   /* not a command: the handshake is over */
	WEIR__REDIS_CALL,
	WEIR__REDIS_BEAT,
	WEIR__REDIS_ASK, /* to a sentinel: the address of the primary */
	WEIR__REDIS_QUERY,
};

/* Jobs sent in one call. The requests are a copy: those of jobs that are over their budget become FORGOTTEN. */
struct weir__redis_batch {
	bool is_used;
	uint32_t n_entries, n_requests;
	int32_t entries[WEIR__REDIS_CALL_CLAIMS_MAX];
	struct weir__redis_request requests[WEIR__REDIS_CALL_CLAIMS_MAX];
};

/* A command that waits for its reply. */
struct weir__redis_flight {
	enum weir__redis_command command;
	weir_ns sent_at;
	struct weir__redis_batch *batch; /* for CALL */
};

enum weir__redis_link_state {
	WEIR__REDIS_IDLE, /* until `at` */
	WEIR__REDIS_OPENING,
	WEIR__REDIS_HANDSHAKE,
	WEIR__REDIS_READY,
};

struct weir__redis_link {
	bool is_sentinel;
	bool is_for_queries; /* no script is loaded; without sentinels a replica will do */
	const char *channel; /* to subscribe to; NULL: none */
	size_t bulk_max;     /* bytes of a reply; an incomplete one may take twice that in the buffer */
	bool is_off;         /* turned off: it stays idle */
	enum weir__redis_link_state state;
	weir_ns at;                   /* IDLE: when to open it. OPENING: when to give up */
	bool wants_open, wants_close; /* wishes that the driver has not taken yet */
	bool is_leaving;              /* to be closed as soon as nothing is in flight */
	bool wants_script;            /* load the script before the next call */
	uint32_t failures;            /* in a row, without a useful reply in between */
	weir_ns attempt_at, answered_at;
	struct weir__redis_place place;
	int protocol;

	char *output; /* the first output_at bytes are sent */
	size_t output_size, output_at, output_length;
	char *input; /* an incomplete reply */
	size_t input_size, input_length;
	struct weir__resp_reply reply;
	struct weir__resp_token tokens[WEIR__REDIS_TOKENS_MAX];

	struct weir__redis_flight flights[WEIR__REDIS_FLIGHTS_MAX]; /* ring buffer */
	uint32_t first_flight, n_flights;
	struct weir__redis_batch batches[WEIR__REDIS_DEPTH];
};

void weir__redis_link_fini(struct weir__redis_link *link);

/* Prepares for a new connection: nothing is in flight, to be sent or to be read. */
void weir__redis_link_reset(struct weir__redis_link *link);

/* --- out --------------------------------------------------------------------------------------------------------- */

/* Makes room for a command of up to `size` bytes, to be written with ret_writer. Returns false if it does not fit. */
bool weir__redis_link_begin(struct weir__redis_link *link, size_t size, struct weir__resp_writer *ret_writer);

/* Queues what was written, as a command that will get a reply. */
void weir__redis_link_end(struct weir__redis_link *link, const struct weir__resp_writer *writer,
			  enum weir__redis_command command, struct weir__redis_batch *batch, weir_ns now);

/* The same for a command given as words. Returns false if it does not fit. */
bool weir__redis_link_say(struct weir__redis_link *link, enum weir__redis_command command,
			  const struct weir__resp_slice *words, size_t n, weir_ns now);

bool weir__redis_link_has(const struct weir__redis_link *link, enum weir__redis_command command);

/* Removes the oldest command in flight, to which the next reply belongs. Returns false if nothing is in flight. */
bool weir__redis_link_answered(struct weir__redis_link *link, weir_ns now, struct weir__redis_flight *ret_flight);

/* When to give up the link if no reply comes. WEIR_NEVER: nothing is in flight. */
weir_ns weir__redis_link_stalls_at(const struct weir__redis_link *link, weir_ns patience);

/* --- in ---------------------------------------------------------------------------------------------------------- */

/* Appends received bytes to what is buffered. ret_bytes is all unread bytes: `came` itself if nothing was buffered.
 * Returns false if memory runs out. */
bool weir__redis_link_gather(struct weir__redis_link *link, struct weir__resp_slice came,
			     struct weir__resp_slice *ret_bytes);

/* Buffers the unread rest of those bytes. Returns false if it is too large, or memory runs out. */
bool weir__redis_link_keep(struct weir__redis_link *link, struct weir__resp_slice rest);

/* --- the handshake ----------------------------------------------------------------------------------------------- */

/* Sends the command of the handshake that follows `after` (-1: the first one), and returns it. Returns
 * WEIR__REDIS_GREETED if the handshake is over. */
enum weir__redis_command weir__redis_link_greet(struct weir__redis_link *link, const struct weir__redis_url *url,
						int after, weir_ns now);

/* Returns whether the handshake goes on after this reply. If not, ret_why says why. */
bool weir__redis_link_greeted(struct weir__redis_link *link, enum weir__redis_command command,
			      const struct weir__resp_token *tokens, uint32_t n, char *ret_why, size_t size);

/* Copies an error of Redis for display. For commands that contain the password only the error code is copied, since
 * some errors repeat the command. Returns the length. size is at least 1. */
size_t weir__redis_link_show_error(enum weir__redis_command command, struct weir__resp_slice error, char *ret_text,
				   size_t size);

/* Whether the token is an error that begins with this code. */
bool weir__redis_is_error(const struct weir__resp_token *token, const char *code);

#endif
