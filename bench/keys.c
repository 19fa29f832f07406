/* keys.c: see keys.h. */
#include "keys.h"

#include <err.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ZIPF_EXPONENT 0.99
#define SEED UINT64_C(0x9e3779b97f4a7c15)

double keys_resident_bytes(void)
{
	FILE *const file = fopen("/proc/self/statm", "r");
	unsigned long pages;

	if (!file || fscanf(file, "%*u %lu", &pages) != 1)
		errx(1, "cannot read /proc/self/statm");
	fclose(file);
	return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

struct keys_order keys_order_of(size_t thread, const uint32_t *drawn)
{
	struct keys_order order = { .state = SEED * (2 * thread + 1), .drawn = drawn };

	order.next = keys_below(&order.state, KEYS_DRAWN);
	return order;
}

/* Scatters popular keys: the factor is coprime to powers of ten, so each rank gets its own number. */
static uint32_t number_of(uint64_t rank, uint32_t keys)
{
	return (uint32_t)(rank * UINT64_C(2654435761) % keys);
}

/* Divides the sum of the weights into KEYS_DRAWN equal parts, draws one key from each part, and shuffles them. */
const uint32_t *keys_draw_zipf(uint32_t keys)
{
	uint32_t *const drawn = malloc(KEYS_DRAWN * sizeof(*drawn));
	double sum = 0, reached;
	uint64_t state = SEED, rank = 0;

	if (!drawn)
		err(1, "numbers of keys");
	for (uint32_t i = 1; i <= keys; i++)
		sum += pow(i, -ZIPF_EXPONENT);
	reached = 1;
	for (size_t i = 0; i < KEYS_DRAWN; i++) {
		const double part = ((double)i + (double)keys_below(&state, 1 << 20) / (1 << 20)) / KEYS_DRAWN;

		while (reached < part * sum && rank + 1 < keys) {
			rank++;
			reached += pow((double)(rank + 1), -ZIPF_EXPONENT);
		}
		drawn[i] = number_of(rank, keys);
	}
	for (uint32_t i = KEYS_DRAWN - 1; i > 0; i--) {
		const uint32_t other = keys_below(&state, i + 1), number = drawn[i];

		drawn[i] = drawn[other];
		drawn[other] = number;
	}
	return drawn;
}
