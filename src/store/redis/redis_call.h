/* redis_call.h: requests to the script in Redis (decide.lua) as bytes, and its answers read.
 *
 * Pure: no sockets, no allocation, no clock. Many requests travel in one call, and are decided in order. What is
 * answered comes from a server that may be broken or not a Redis: any bytes are an answer or an error, never more. */
#ifndef WEIR_STORE_REDIS_REDIS_CALL_H
#define WEIR_STORE_REDIS_REDIS_CALL_H

#include "store/redis/redis_plan.h"
#include "wire/resp.h"

enum {
	WEIR__REDIS_CLAIMS_MAX = 16,       /* of a request */
	WEIR__REDIS_CALL_CLAIMS_MAX = 512, /* of all requests of a call */
	WEIR__REDIS_CALL_PLANS_MAX = 512,  /* different ones in a call: each claim may have its own */
	WEIR__REDIS_SHA1_LENGTH = 40,      /* in hexadecimal, as Redis says it */
};

/* The script, and its SHA-1 as EVALSHA takes it. Made at build time of src/store/redis/decide.lua and what that includes. */
struct weir__redis_script {
	const char *text;
	size_t length;
	const char *sha1;
};

extern const struct weir__redis_script weir__redis_script;

/* What is asked; the numbers are those of the script. */
enum weir__redis_operation {
	WEIR__REDIS_FORGOTTEN = 0, /* nobody waits for these n answers any more; no claims are left. Only to read */
	WEIR__REDIS_TAKE = 1,      /* several claims: all or nothing */
	WEIR__REDIS_UP_TO,
	WEIR__REDIS_PEEK,
	WEIR__REDIS_REFUND,
	WEIR__REDIS_RESET, /* the verdict is that of a new key; allowed: there was something to forget */
};

/* The key in Redis is PREFIX name:key. */
struct weir__redis_claim {
	const struct weir__redis_plan *plan;
	struct weir__resp_slice name; /* of the limit */
	struct weir__resp_slice key;
	uint64_t cost;
};

/* Only a take may have several claims. The same name and key twice is one claim with the costs added; both are answered
 * alike. */
struct weir__redis_request {
	enum weir__redis_operation operation;
	const struct weir__redis_claim *claims;
	size_t n; /* 1 to WEIR__REDIS_CLAIMS_MAX */
};

struct weir__redis_call {
	const char *sha1; /* of the script */
	struct weir__resp_slice prefix;
	const struct weir__redis_request *requests;
	size_t n;
	const weir_ns *test_now; /* NULL: Redis's clock. Else a time in whole microseconds; keys then do not expire */
};

/* Writes EVALSHA with all that the script needs. WEIR_ERR_ROOM: writer->length is the size that would do.
 * WEIR_ERR_LIMIT: no or too many claims, several that are no take, a key under two plans in one request, or a test_now
 * that cannot be. WEIR_ERR_FULL: too many claims or plans for one call. */
int weir__redis_call_write(const struct weir__redis_call *call, struct weir__resp_writer *writer);

enum weir__redis_answer {
	WEIR__REDIS_DECIDED,
	WEIR__REDIS_NOSCRIPT, /* nothing was done: load the script, and ask again */
	WEIR__REDIS_ERROR,    /* another error of Redis: error tells. Nothing was decided */
	WEIR__REDIS_STRANGE,  /* nothing that the script answers: whoever this is, it is not to be believed */
};

struct weir__redis_reply {
	enum weir__redis_answer answer;
	struct weir__resp_slice error; /* of ERROR: what Redis said, its code first */
	weir_ns now;                   /* of DECIDED: Redis's clock, or test_now */
	uint32_t anew; /* of DECIDED: values that were not the script's, or damaged; their keys began anew */
};

/* How many answers come to a request that can be asked: one for each of its keys. */
size_t weir__redis_call_answers(const struct weir__redis_request *request);

/* Reads the answer to a call, which is one reply of n tokens. Verdicts has room for all claims of all requests, in their
 * order, but those of forgotten ones; they mean something only if it is DECIDED. */
struct weir__redis_reply weir__redis_call_read(const struct weir__redis_call *call,
					       const struct weir__resp_token *tokens, uint32_t n,
					       struct weir_verdict *verdicts);

#endif
