/* redis_refusal.h: what an error reply of Redis means to a client. Pure. */
#ifndef WEIR_STORE_REDIS_REDIS_REFUSAL_H
#define WEIR_STORE_REDIS_REDIS_REFUSAL_H

#include "wire/resp.h"

struct weir__redis_refusal {
	const char *code;
	bool is_certain; /* Redis did nothing. False: it may have executed the call */
	bool is_down;    /* the next calls would get the same error */
	bool leaves;     /* reconnect: a different server or user may succeed */
	const char *words;
};

/* Never NULL. An unknown error is not certain. */
const struct weir__redis_refusal *weir__redis_refusal_of(struct weir__resp_slice error);

#endif
