/* redis_call.h: encodes requests to the script in Redis (decide.lua), and decodes its replies.
 *
 * Pure: no sockets, no allocation, no clock. One call carries many requests, which are decided in order. A reply may
 * come from a broken server, or from something that is not Redis: any bytes decode to a reply or to an error. */
#ifndef WEIR_STORE_REDIS_REDIS_CALL_H
#define WEIR_STORE_REDIS_REDIS_CALL_H

#include "store/redis/redis_plan.h"
#include "wire/resp.h"

#define WEIR__REDIS_LEASE_MAX (UINT64_C(10) * 1000 * 1000 * 1000)

enum {
	WEIR__REDIS_CLAIMS_MAX = 16,       /* in a request */
	WEIR__REDIS_CALL_CLAIMS_MAX = 512, /* in all requests of a call */
	WEIR__REDIS_CALL_PLANS_MAX = 512,  /* different plans in a call: each claim may have its own */
	WEIR__REDIS_SHA1_LENGTH = 40,      /* in hexadecimal */
};

/* The script, and its SHA-1 for EVALSHA. Generated at build time from src/store/redis/decide.lua and the files it
 * includes. */
struct weir__redis_script {
	const char *text;
	size_t length;
	const char *sha1;
};

extern const struct weir__redis_script weir__redis_script;

/* The numbers are also in the script. */
enum weir__redis_operation {
	WEIR__REDIS_FORGOTTEN = 0, /* n verdicts to discard; no claims. Only for reading a reply */
	WEIR__REDIS_TAKE = 1,      /* several claims: all or nothing */
	WEIR__REDIS_UP_TO,
	WEIR__REDIS_PEEK,
	WEIR__REDIS_REFUND,
	WEIR__REDIS_RESET,  /* the verdict of a full key; allowed: the key had a state to forget */
	WEIR__REDIS_UNDO,   /* gives back up to `cost` units of one charge, as far as they still count: `granted` */
	WEIR__REDIS_DEPART, /* a take, denied if it would be delayed by more than max_delay; retry_after: that delay */
	WEIR__REDIS_CANCEL, /* gives back a departure, minus what later ones were built upon: `granted` */
	WEIR__REDIS_GRANT,  /* lends up to `cost` units: `granted`; `delay` is the time until the lease ends */
	WEIR__REDIS_RETURN, /* gives back up to `cost` units that were lent: `granted` */
	WEIR__REDIS_PUSH,   /* charges `cost` units even if less is left: `granted`; then as a peek at cost 0 */
};

/* The key in Redis is the prefix, then "name:key". */
struct weir__redis_claim {
	const struct weir__redis_plan *plan;
	struct weir__resp_slice name; /* of the limit */
	struct weir__resp_slice key;
	uint64_t cost;

	weir_ns max_delay; /* for DEPART; of several claims the least counts */
	/* For UNDO and CANCEL, the charge: decided_at of its job (redis_job.h), and how many units. For CANCEL also
	 * when the key was to be full after it: decided_at + reset_after. For PUSH, only charged_at. */
	weir_ns charged_at;
	uint64_t charged_cost;
	weir_ns charged_full_at;
	/* For GRANT: the duration, up to WEIR__REDIS_LEASE_MAX, and how many units may be lent at once. For RETURN: the
	 * end of the lease by Redis's clock, in microseconds. */
	weir_ns lease_duration;
	uint64_t lease_most;
	uint64_t lease_end_us;
	uint64_t
		reserved; /* for PUSH: units that count as used for later requests of the same call, and are not charged */
};

/* Only TAKE and DEPART may have several claims. Claims with the same name and key count as one claim with the sum of
 * their costs, and get the same verdict. */
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

/* Writes EVALSHA with all its arguments. WEIR_ERR_ROOM: writer->length is the size needed. WEIR_ERR_LIMIT: no claims or
 * too many, several claims in a request that is not a take, one key with two plans in a request, an invalid
 * duration of a lease, or an invalid test_now. WEIR_ERR_FULL: too many claims or plans for one call. */
int weir__redis_call_write(const struct weir__redis_call *call, struct weir__resp_writer *writer);

enum weir__redis_answer {
	WEIR__REDIS_DECIDED,
	WEIR__REDIS_NOSCRIPT, /* nothing was done: load the script and call again */
	WEIR__REDIS_ERROR,    /* a different error of Redis, in `error`. Nothing was decided */
	WEIR__REDIS_STRANGE,  /* not a reply of the script: do not trust this server */
};

struct weir__redis_reply {
	enum weir__redis_answer answer;
	struct weir__resp_slice error; /* ERROR: the text, which begins with the code */
	weir_ns now;                   /* DECIDED: Redis's clock, or test_now */
	uint32_t anew; /* DECIDED: values that were damaged or not the script's; their keys were reset */
};

/* How many verdicts the script returns for a request: one for each different key. 0: the request is invalid. */
size_t weir__redis_call_answers(const struct weir__redis_request *request);

/* Reads the reply to a call, given as the n tokens of one reply. Verdicts has room for all claims of all requests, in
 * order, except FORGOTTEN ones. They are valid only if `answer` is DECIDED. */
struct weir__redis_reply weir__redis_call_read(const struct weir__redis_call *call,
					       const struct weir__resp_token *tokens, uint32_t n,
					       struct weir_verdict *verdicts);

#endif
