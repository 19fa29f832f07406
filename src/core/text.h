/* text.h: puts short texts together without stdio; what does not fit is cut. */
#ifndef WEIR_CORE_TEXT_H
#define WEIR_CORE_TEXT_H

#include <weir/types.h>

struct weir__text {
	char *start;
	size_t length;
	size_t size; /* with the NUL that always ends it */
};

void weir__text_add(struct weir__text *text, const char *words);
void weir__text_add_number(struct weir__text *text, uint64_t number);

/* At most 40 bytes of what a person wrote, in quotes, with control characters as '?'. */
void weir__text_add_quoted(struct weir__text *text, const char *bytes, size_t length);

/* Begins the message of a refusal; ret_message may be NULL, then nothing is kept. */
struct weir__text weir__text_of_message(struct weir_message *ret_message, size_t at);

#endif
