/* percent.h: percent-decoding (%XX) of URLs. */
#ifndef WEIR_CORE_PERCENT_H
#define WEIR_CORE_PERCENT_H

#include <stddef.h>

/* Writes the decoded text and a NUL to ret_word. Returns NULL on success, else what is wrong; then *ret_at is the
 * position in the text. */
const char *weir__percent_undo(const char *text, size_t length, char *ret_word, size_t size, size_t *ret_at);

/* The message for a text that does not fit. A caller that knows the size can compare with it and say more. */
extern const char weir__percent_too_long[];

#endif
