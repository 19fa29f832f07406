/* nearest.h: finds the known word that a misspelt one probably means, for "did you mean" messages. */
#ifndef WEIR_CORE_NEAREST_H
#define WEIR_CORE_NEAREST_H

#include <stddef.h>

struct weir__nearest {
	const char *word;
	size_t length;
	const char *best; /* the closest name offered so far; NULL: none is close */
	size_t score;     /* of best; lower is closer */
	size_t same;      /* letters at the beginning that best shares with the word */
};

/* Borrows the word. */
struct weir__nearest weir__nearest_of(const char *word, size_t length);

/* Compares the word with a known name. A name is close if it differs by one edit, or by two edits with the same first
 * letter, or if one is the beginning of the other. An edit adds, drops or changes a letter, or swaps two neighbours.
 * Among equally close names the one that begins most like the word is the best, then the first. */
void weir__nearest_offer(struct weir__nearest *nearest, const char *name);

#endif
