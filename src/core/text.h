/* text.h: builds short texts without stdio. Text that does not fit is cut. */
#ifndef WEIR_CORE_TEXT_H
#define WEIR_CORE_TEXT_H

#include <weir/types.h>

struct weir__text {
	char *start;
	size_t length;
	size_t size; /* including the NUL that always ends the text */
};

void weir__text_add(struct weir__text *text, const char *words);
void weir__text_add_number(struct weir__text *text, uint64_t number);

/* Adds at most 40 bytes of user input, in quotes, with control characters as '?'. */
void weir__text_add_quoted(struct weir__text *text, const char *bytes, size_t length);

/* Begins an error message. ret_message may be NULL. Then the text is dropped. */
struct weir__text weir__text_of_message(struct weir_message *ret_message, size_t at);

#endif
