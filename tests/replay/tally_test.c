/* Counts of keys, and the lists of the highest, against counting in an array. */
#include "replay/tally.h"

#include <stdlib.h>

#include "check.h"

enum { KEYS = 5000, EVENTS = 200000, TOP = 10 };

static uint64_t draw(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static int compare(const void *a_, const void *b_)
{
	const uint32_t *const a = a_, *const b = b_;

	return *a > *b ? -1 : *a < *b;
}

static void hashes_that_are_alike_are_counted(void)
{
	enum { ALIKE = 100000 };
	struct weir__tally tally;

	CHECK(weir__tally_init(&tally));
	for (uint64_t round = 0; round < 2; round++)
		for (uint64_t i = 1; i <= ALIKE; i++)
			CHECK(weir__tally_add(&tally, i << 32 | 7, i % 4 == 0) != NULL);
	CHECK_EQ(tally.n, ALIKE);
	CHECK_EQ(tally.with_denied, ALIKE / 4);
	CHECK_EQ(weir__tally_all(&tally, UINT64_C(8) << 32 | 7), 2);
	CHECK_EQ(weir__tally_denied(&tally, UINT64_C(8) << 32 | 7), 2);
	CHECK_EQ(weir__tally_all(&tally, UINT64_C(8) << 32 | 8), 0);
	weir__tally_fini(&tally);
}

static void counts_and_lists_are_exact(void)
{
	static uint32_t all[KEYS], denied[KEYS];
	static struct weir__top top = { .most = TOP };
	uint64_t state = 88172645463325252u, with_denied = 0, n = 0;
	struct weir__tally tally;

	CHECK(weir__tally_init(&tally));
	for (int i = 0; i < EVENTS; i++) {
		const uint64_t number = draw(&state);
		const uint32_t key = (uint32_t)(number % KEYS * (number >> 32 & 0xffff) >> 16); /* some more often */
		const uint64_t hash = weir__tally_hash(0, &key, sizeof(key));
		const bool is_denied = number >> 60 < 3;
		const struct weir__tally_entry *const entry = weir__tally_add(&tally, hash, is_denied);
		struct weir__top_row *row;
		bool is_new;

		n += all[key]++ == 0;
		with_denied += is_denied && denied[key]++ == 0;
		CHECK_EQ(entry->all, all[key]);
		CHECK_EQ(entry->denied, denied[key]);
		row = is_denied ? weir__top_offer(&top, hash, entry->denied, &is_new) : NULL;
		if (row && is_new)
			weir__top_set_text(row, (struct weir__slice){ (const char *)&key, sizeof(key) });
	}
	CHECK_EQ(tally.n, n);
	CHECK_EQ(tally.with_denied, with_denied);
	CHECK_EQ(tally.uncounted, 0);
	weir__top_sort(&top);
	for (size_t i = 0; i < TOP; i++) {
		uint32_t key;

		CHECK_EQ(top.rows[i].length, sizeof(key));
		memcpy(&key, top.rows[i].text, sizeof(key));
		CHECK_EQ(top.rows[i].number, denied[key]);
		CHECK_EQ(weir__tally_all(&tally, top.rows[i].hash), all[key]);
		CHECK_EQ(weir__tally_denied(&tally, top.rows[i].hash), denied[key]);
	}
	qsort(denied, KEYS, sizeof(denied[0]), compare);
	for (size_t i = 0; i < TOP; i++)
		CHECK_EQ(top.rows[i].number, denied[i]);
	weir__tally_fini(&tally);
}

static void long_texts_are_cut(void)
{
	static struct weir__top top = { .most = 1 };
	static char text[1000];
	struct weir__top_row *row;
	bool is_new;

	memset(text, 'x', sizeof(text));
	row = weir__top_offer(&top, 1, 1, &is_new);
	CHECK(row && is_new);
	weir__top_set_text(row, (struct weir__slice){ text, sizeof(text) });
	CHECK_EQ(row->length, sizeof(text));
	CHECK(weir__top_offer(&top, 2, 1, &is_new) == NULL);
	CHECK(weir__top_offer(&top, 2, 2, &is_new) == row && is_new);
}

static void an_empty_list_has_no_room(void)
{
	static struct weir__top top = { .most = 0 };
	bool is_new;

	CHECK(weir__top_offer(&top, 1, 1, &is_new) == NULL);
	weir__top_sort(&top);
}

TESTS(TEST(hashes_that_are_alike_are_counted), TEST(counts_and_lists_are_exact), TEST(long_texts_are_cut),
      TEST(an_empty_list_has_no_room))
