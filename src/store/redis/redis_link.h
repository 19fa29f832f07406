/* redis_link.h: one connection of a client, as far as it does not concern others: bytes out and in, commands in flight,
 * and what is said when it is new. Pure, but for memory, which is bounded. */
#ifndef WEIR_STORE_REDIS_REDIS_LINK_H
#define WEIR_STORE_REDIS_REDIS_LINK_H

#include "store/redis/redis_client.h"

enum {
	WEIR__REDIS_DEPTH = 2, /* calls in flight: Redis has the next one at hand, and the others gather */
	WEIR__REDIS_FLIGHTS_MAX = 8,
	WEIR__REDIS_TOKENS_MAX = 256,
	WEIR__REDIS_OUTPUT_MAX = 1 << 20,
	WEIR__REDIS_BULK_MAX = 1 << 16, /* of a reply that is not to a query; those of the script have 16 KiB at most */
};

/* In the order of a greeting, as far as they are of one. */
enum weir__redis_command {
	WEIR__REDIS_HELLO,
	WEIR__REDIS_AUTH,
	WEIR__REDIS_SET_NAME,
	WEIR__REDIS_SELECT,
	WEIR__REDIS_ROLE,
	WEIR__REDIS_LOAD,
	WEIR__REDIS_SUBSCRIBE, /* to the link's channel */
	WEIR__REDIS_GREETED,   /* none: the greeting is over */
	WEIR__REDIS_CALL,
	WEIR__REDIS_BEAT,
	WEIR__REDIS_ASK, /* to a sentinel: where the primary is */
	WEIR__REDIS_QUERY,
};

/* Jobs that travel together. The requests are a copy: those of jobs that are done become forgotten ones. */
struct weir__redis_batch {
	bool is_used;
	uint32_t n_entries, n_requests;
	int32_t entries[WEIR__REDIS_CALL_CLAIMS_MAX];
	struct weir__redis_request requests[WEIR__REDIS_CALL_CLAIMS_MAX];
};

/* A command whose answer is still to come. */
struct weir__redis_flight {
	enum weir__redis_command command;
	weir_ns sent_at;
	struct weir__redis_batch *batch; /* of a call */
};

enum weir__redis_link_state {
	WEIR__REDIS_IDLE, /* until `at` */
	WEIR__REDIS_OPENING,
	WEIR__REDIS_HANDSHAKE,
	WEIR__REDIS_READY,
};

struct weir__redis_link {
	bool is_sentinel;
	bool is_for_queries; /* no script is loaded, and without sentinels a replica is as good as the primary */
	const char *channel; /* to subscribe to; NULL: none */
	size_t bulk_max;     /* of a reply. What is kept of one that is not whole is at most twice that */
	bool is_off;         /* not wanted: it stays idle */
	enum weir__redis_link_state state;
	weir_ns at; /* IDLE: when to open it, WEIR_NEVER: when there is a place. OPENING: when to give up */
	bool wants_open, wants_close; /* wishes that were not taken yet */
	bool is_leaving;              /* closed as soon as nothing is in flight */
	bool wants_script;            /* it is to be loaded before the next call */
	uint32_t failures;            /* in a row, without an answer that was of use */
	weir_ns attempt_at, answered_at;
	struct weir__redis_place place;
	int protocol;

	char *output; /* of which the first output_at bytes are sent */
	size_t output_size, output_at, output_length;
	char *input; /* of an answer that is not whole */
	size_t input_size, input_length;
	struct weir__resp_reply reply;
	struct weir__resp_token tokens[WEIR__REDIS_TOKENS_MAX];

	struct weir__redis_flight flights[WEIR__REDIS_FLIGHTS_MAX]; /* a ring */
	uint32_t first_flight, n_flights;
	struct weir__redis_batch batches[WEIR__REDIS_DEPTH];
};

void weir__redis_link_fini(struct weir__redis_link *link);

/* A connection that is new: nothing is in flight, or to be sent or read. */
void weir__redis_link_reset(struct weir__redis_link *link);

/* --- out --------------------------------------------------------------------------------------------------------- */

/* Makes room for a command of up to `size` bytes, which goes to ret_writer. False: there is none. */
bool weir__redis_link_begin(struct weir__redis_link *link, size_t size, struct weir__resp_writer *ret_writer);

/* What was written is to be sent, and answered. */
void weir__redis_link_end(struct weir__redis_link *link, const struct weir__resp_writer *writer,
			  enum weir__redis_command command, struct weir__redis_batch *batch, weir_ns now);

/* The same for a command of texts. False: there is no room. */
bool weir__redis_link_say(struct weir__redis_link *link, enum weir__redis_command command,
			  const struct weir__resp_slice *words, size_t n, weir_ns now);

bool weir__redis_link_has(const struct weir__redis_link *link, enum weir__redis_command command);

/* The command that the next answer is to; false: none. */
bool weir__redis_link_answered(struct weir__redis_link *link, weir_ns now, struct weir__redis_flight *ret_flight);

/* When the link is given up if no answer comes until then. */
weir_ns weir__redis_link_stalls_at(const struct weir__redis_link *link, weir_ns patience);

/* --- in ---------------------------------------------------------------------------------------------------------- */

/* Adds what came to what is kept. ret_bytes is all that is not read yet: what came itself if nothing was kept. False: that
 * is too much. */
bool weir__redis_link_gather(struct weir__redis_link *link, struct weir__resp_slice came,
			     struct weir__resp_slice *ret_bytes);

/* Keeps what is left of those bytes. False: that is too much. */
bool weir__redis_link_keep(struct weir__redis_link *link, struct weir__resp_slice rest);

/* --- the greeting ------------------------------------------------------------------------------------------------ */

/* Says what comes behind the command `after` when a connection is new; returns it. */
enum weir__redis_command weir__redis_link_greet(struct weir__redis_link *link, const struct weir__redis_url *url,
						int after, weir_ns now);

/* Is the answer such that the greeting goes on? Else why not, in words. */
bool weir__redis_link_greeted(struct weir__redis_link *link, enum weir__redis_command command,
			      const struct weir__resp_token *tokens, uint32_t n, char *ret_why, size_t size);

/* An error of Redis as it may be shown: to commands that hold the password the code alone, since some errors repeat the
 * command. Returns its length; size is at least 1. */
size_t weir__redis_link_show_error(enum weir__redis_command command, struct weir__resp_slice error, char *ret_text,
				   size_t size);

/* Whether this is how an error of Redis begins. */
bool weir__redis_is_error(const struct weir__resp_token *token, const char *code);

#endif
