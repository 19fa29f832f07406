/* road.c: calls weir_table_allow on keys that are in the table. bench/road.py counts its instructions.
 *
 *     road --count N
 *
 * bench/road.py compiles this file against the headers and the library of each of two trees. So it uses little of the
 * public API, and nothing from src/. */
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/table.h>

enum { KEYS = 1000, KEY_LENGTH = 16, KEY_ROOM = 32 };

int main(int argc, char **argv)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(10 * KEYS, 0) };
	const struct weir_table_limit *limit;
	struct weir_table *table;
	struct weir_message why;
	char keys[KEYS][KEY_ROOM];

	if (argc != 3 || strcmp(argv[1], "--count") != 0)
		errx(2, "usage: road --count N");
	if (weir_table_new(&options, &table, &why) != WEIR_OK ||
	    weir_table_add_limit_text(table, "each", "1/3min burst 3000000", &limit, &why) != WEIR_OK)
		errx(1, "%s", why.text);
	for (size_t i = 0; i < KEYS; i++)
		(void)snprintf(keys[i], KEY_ROOM, "key:%012zu", i);
	for (uint64_t n = strtoull(argv[2], NULL, 10), i = 0; i < n; i++)
		if (!weir_table_allow(table, limit, keys[i % KEYS], KEY_LENGTH, weir_table_now(table), 1))
			errx(1, "denied request %ju: the limit was meant to allow all of them", (uintmax_t)i);
	weir_table_free(table);
}
