/* redis_refusal.h: what an error of Redis means to a client. Pure. */
#ifndef WEIR_STORE_REDIS_REDIS_REFUSAL_H
#define WEIR_STORE_REDIS_REDIS_REFUSAL_H

#include "wire/resp.h"

struct weir__redis_refusal {
	const char *code;
	bool is_certain; /* refused before anything was done. Else it may have been */
	bool is_down;    /* whatever is asked next is refused, too */
	bool leaves;     /* another connection may be better: to another server, or as another user */
	const char *words;
};

/* Never NULL: what is not known is not certain. */
const struct weir__redis_refusal *weir__redis_refusal_of(struct weir__resp_slice error);

#endif
