/* policy_text.h: the text of the policy in force, for clients that request it. Written by one thread, read by
 * others. */
#ifndef WEIR_POLICY_SOURCE_POLICY_TEXT_H
#define WEIR_POLICY_SOURCE_POLICY_TEXT_H

#include "policy/source/policy_source.h"

enum { WEIR__POLICY_TEXT_MOST = 128 * 1024 /* bytes of all files together; longer texts are not kept */ };

struct weir__policy_text;

/* The current text. Valid only during the callback of weir__policy_text_look. */
struct weir__policy_view {
	uint64_t version;   /* 64-bit hash of the text */
	bool is_put;        /* the policy was uploaded by a request */
	const char *hidden; /* why the text is missing; NULL: it is here */
	const struct weir__policy_part *parts;
	size_t n;
};

struct weir__policy_text *weir__policy_text_new(void);              /* NULL: no memory */
void weir__policy_text_free(struct weir__policy_text *policy_text); /* NULL is allowed */

/* Copies the text. `hidden` is the reason why it may not be kept, or NULL. */
void weir__policy_text_set(struct weir__policy_text *policy_text, const struct weir__policy_version *version,
			   uint64_t hash, bool is_put, const char *hidden);

void weir__policy_text_look(struct weir__policy_text *policy_text,
			    void (*look)(void *context, const struct weir__policy_view *view), void *context);

#endif
