/* policy_text.h: the text of the policy in force, for whoever asks. Written by one thread, read by others. */
#ifndef WEIR_POLICY_SOURCE_POLICY_TEXT_H
#define WEIR_POLICY_SOURCE_POLICY_TEXT_H

#include "policy/source/policy_source.h"

enum { WEIR__POLICY_TEXT_MOST = 128 * 1024 /* bytes of all files together; what is longer is not kept */ };

struct weir__policy_text;

/* What there is to see, as long as the one who is told looks at it. */
struct weir__policy_view {
	uint64_t version;   /* the same for the same text, as far as 64 bits of a hash tell */
	bool is_put;        /* it came with a request */
	const char *hidden; /* why there is no text; NULL: there is */
	const struct weir__policy_part *parts;
	size_t n;
};

struct weir__policy_text *weir__policy_text_new(void);        /* NULL: no memory */
void weir__policy_text_free(struct weir__policy_text *shown); /* NULL is allowed */

/* Copies it. `hidden` is why its text may not be kept, or NULL. */
void weir__policy_text_set(struct weir__policy_text *shown, const struct weir__policy_version *version, uint64_t hash,
			   bool is_put, const char *hidden);

void weir__policy_text_look(struct weir__policy_text *shown,
			    void (*look)(void *context, const struct weir__policy_view *view), void *context);

#endif
