/* nearest.c: edit distance between a word and known names. */
#include "core/nearest.h"

#include <stdbool.h>

/* Scores: two per edit, one more if the first letter differs. A word that is the beginning of another has a fixed
 * score. */
enum { LENGTH_MAX = 32, PER_EDIT = 2, CLOSE_MAX = 2 * PER_EDIT, BEGINNING = CLOSE_MAX - 1, BEGINNING_MIN = 2 };

struct weir__nearest weir__nearest_of(const char *word, size_t length)
{
	return (struct weir__nearest){ word, length, NULL, CLOSE_MAX + 1, 0 };
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Edits that turn a[0..n) into b[0..m), both at most LENGTH_MAX long. A swap of two letters that are no longer
 * neighbours in the original counts as two edits. */
static size_t edits(const char *a, size_t n, const char *b, size_t m)
{
	size_t rows[3][LENGTH_MAX + 1];

	for (size_t j = 0; j <= m; j++)
		rows[0][j] = j;
	for (size_t i = 1; i <= n; i++) {
		size_t *const row = rows[i % 3], *const above = rows[(i + 2) % 3], *const two_above = rows[(i + 1) % 3];

		row[0] = i;
		for (size_t j = 1; j <= m; j++) {
			const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];

			row[j] = least(above[j - 1] + (a[i - 1] != b[j - 1]), least(above[j], row[j - 1]) + 1);
			if (is_swap)
				row[j] = least(row[j], two_above[j - 2] + 1);
		}
	}
	return rows[n % 3][m];
}

void weir__nearest_offer(struct weir__nearest *nearest, const char *name)
{
	size_t same = 0, length = 0, score, n;

	while (name[length] != '\0')
		length++;
	if (nearest->length > LENGTH_MAX || length > LENGTH_MAX)
		return;
	while (same < nearest->length && same < length && nearest->word[same] == name[same])
		same++;
	n = edits(nearest->word, nearest->length, name, length);
	score = PER_EDIT * n + (same == 0);
	if (same >= BEGINNING_MIN && same == nearest->length)
		score = least(score, BEGINNING);
	if (same >= BEGINNING_MIN && same == length)
		score = least(score, BEGINNING + 1);
	if (n > least(nearest->length, length) && same < BEGINNING_MIN) /* nothing of it is left */
		return;
	if (score < nearest->score || (score == nearest->score && nearest->best && same > nearest->same)) {
		nearest->best = name;
		nearest->score = score;
		nearest->same = same;
	}
}
