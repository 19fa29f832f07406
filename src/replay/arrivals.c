/* arrivals.c: an array. When it reaches the budget, half of the keys are dropped. It is sorted by counting. */
#include "replay/arrivals.h"

#include <stdlib.h>
#include <string.h>

/* While rows are grouped, there are two copies of them. */
enum { ROW_BYTES = 2 * sizeof(struct weir__arrival), ROWS_LEAST = 4096 };

void weir__arrivals_init(struct weir__arrivals *arrivals, struct weir__hash_secret secret, size_t bytes_most)
{
	memset(arrivals, 0, sizeof(*arrivals));
	arrivals->keys.secret = secret;
	arrivals->bytes_most = bytes_most;
}

static bool is_over(const struct weir__arrivals *arrivals, size_t rows)
{
	return rows * ROW_BYTES + weir__key_index_bytes(&arrivals->keys) > arrivals->bytes_most;
}

static int halve(struct weir__arrivals *arrivals)
{
	uint32_t *const numbers = malloc((arrivals->keys.n + (size_t)1) * sizeof(*numbers));
	size_t n = 0;

	if (numbers == NULL || !weir__key_index_halve(&arrivals->keys, numbers)) {
		free(numbers);
		return WEIR_ERR_SYSTEM;
	}
	for (size_t i = 0; i < arrivals->n; i++) {
		const uint32_t number = numbers[arrivals->rows[i].key];

		if (number != WEIR__KEY_INDEX_NONE) {
			arrivals->rows[n] = arrivals->rows[i];
			arrivals->rows[n++].key = number;
		}
	}
	arrivals->n = n;
	free(numbers);
	return WEIR_OK;
}

static int make_room(struct weir__arrivals *arrivals)
{
	const size_t size = arrivals->size ? 2 * arrivals->size : ROWS_LEAST;
	struct weir__arrival *rows;

	/* Halves again if few rows became free: each time reads all rows, so it must not happen often. */
	while (is_over(arrivals, arrivals->n + arrivals->n / 8 + 1)) {
		const int error = arrivals->keys.n < 2 || arrivals->keys.shift == WEIR__KEY_INDEX_SHIFT_MAX ?
					  WEIR_ERR_FULL :
					  halve(arrivals);

		if (error != WEIR_OK)
			return error;
	}
	if (arrivals->n < arrivals->size)
		return WEIR_OK;
	rows = realloc(arrivals->rows, size * sizeof(*rows));
	if (rows == NULL)
		return WEIR_ERR_SYSTEM;
	arrivals->rows = rows;
	arrivals->size = size;
	return WEIR_OK;
}

int weir__arrivals_add(struct weir__arrivals *arrivals, const void *key, size_t length, weir_ns at, uint32_t cost)
{
	bool failed = false;
	uint32_t number = weir__key_index_number(&arrivals->keys, key, length, &failed);
	const unsigned shift = arrivals->keys.shift;

	if (failed)
		return WEIR_ERR_SYSTEM;
	if (number == WEIR__KEY_INDEX_NONE)
		return WEIR_OK;
	if (arrivals->n == arrivals->size || is_over(arrivals, arrivals->n + 1)) {
		const int error = make_room(arrivals);

		if (error != WEIR_OK)
			return error;
		if (arrivals->keys.shift != shift) /* the key may have been dropped, or have a new number */
			return weir__arrivals_add(arrivals, key, length, at, cost);
	}
	arrivals->rows[arrivals->n++] = (struct weir__arrival){ at, cost, number };
	return WEIR_OK;
}

bool weir__arrivals_group(struct weir__arrivals *arrivals)
{
	const size_t n_keys = arrivals->keys.n;
	size_t *const starts = calloc(n_keys + 2, sizeof(*starts));
	struct weir__arrival *const rows = malloc((arrivals->n + 1) * sizeof(*rows));

	if (starts == NULL || rows == NULL) {
		free(starts);
		free(rows);
		return false;
	}
	/* starts[key + 2] first counts rows. Then starts[key + 1] is the place for the next row of the key, finally its
	 * end. */
	for (size_t i = 0; i < arrivals->n; i++)
		starts[arrivals->rows[i].key + 2]++;
	for (size_t key = 1; key < n_keys; key++)
		starts[key + 1] += starts[key];
	for (size_t i = 0; i < arrivals->n; i++)
		rows[starts[arrivals->rows[i].key + 1]++] = arrivals->rows[i];
	free(arrivals->rows);
	arrivals->rows = rows;
	arrivals->starts = starts;
	return true;
}

void weir__arrivals_fini(struct weir__arrivals *arrivals)
{
	weir__key_index_fini(&arrivals->keys);
	free(arrivals->rows);
	free(arrivals->starts);
	memset(arrivals, 0, sizeof(*arrivals));
}
