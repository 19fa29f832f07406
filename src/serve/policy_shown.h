/* policy_shown.h: the text of the policy in force, for whoever asks. Written by one thread, read by others. */
#ifndef WEIR_SERVE_POLICY_SHOWN_H
#define WEIR_SERVE_POLICY_SHOWN_H

#include "serve/policy_source.h"

enum { WEIR__POLICY_SHOWN_MOST = 128 * 1024 /* bytes of all files together; what is longer is not kept */ };

struct weir__policy_shown;

/* What there is to see, as long as the one who is told looks at it. */
struct weir__policy_view {
	uint64_t version;   /* the same for the same text, as far as 64 bits of a hash tell */
	bool is_put;        /* it came with a request */
	const char *hidden; /* why there is no text; NULL: there is */
	const struct weir__policy_part *parts;
	size_t n;
};

struct weir__policy_shown *weir__policy_shown_new(void);        /* NULL: no memory */
void weir__policy_shown_free(struct weir__policy_shown *shown); /* NULL is allowed */

/* Copies it. `hidden` is why its text may not be kept, or NULL. */
void weir__policy_shown_set(struct weir__policy_shown *shown, const struct weir__policy_version *version, uint64_t hash,
			    bool is_put, const char *hidden);

void weir__policy_shown_look(struct weir__policy_shown *shown,
			     void (*look)(void *context, const struct weir__policy_view *view), void *context);

#endif
