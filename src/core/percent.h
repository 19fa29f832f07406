/* percent.h: %XX undone, as URLs have it. */
#ifndef WEIR_CORE_PERCENT_H
#define WEIR_CORE_PERCENT_H

#include <stddef.h>

/* Writes what is meant, with a NUL behind it. NULL: it is done. Else what is wrong, and *ret_at is where. */
const char *weir__percent_undo(const char *text, size_t length, char *ret_word, size_t size, size_t *ret_at);

/* What is wrong with a word that does not fit; whoever knows the size can say more. */
extern const char weir__percent_too_long[];

#endif
