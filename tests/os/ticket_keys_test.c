/* ticket_keys_test.c: keys by their age, at times that the test chooses. */
#include "os/ticket_keys.h"

#include <string.h>

#include "check.h"

enum { T = WEIR__TICKET_PERIOD_S };
static const uint64_t start_s = 1700000000;

static bool is_same(const struct weir__ticket_key *a, const struct weir__ticket_key *b)
{
	return memcmp(a->name, b->name, sizeof(a->name)) == 0 && memcmp(a->cipher, b->cipher, sizeof(a->cipher)) == 0 &&
	       memcmp(a->mac, b->mac, sizeof(a->mac)) == 0;
}

static void keys_by_age(void)
{
	static const struct {
		const char *what;
		int64_t after_s;
		bool encrypts, decrypts, is_old;
	} rows[] = {
		{ "at once", 0, true, true, false },
		{ "in the last second of its period", T - 1, true, true, false },
		{ "a period later another key encrypts", T, false, true, true },
		{ "in the last second that it decrypts", 2 * T - 1, false, true, true },
		{ "two periods later", 2 * T, false, false, false },
		{ "a clock that was set back makes it unknown", -1, false, false, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir__ticket_keys *const keys = weir__ticket_keys_new();
		const uint64_t now = (uint64_t)((int64_t)start_s + rows[i].after_s);
		struct weir__ticket_key first, then, found;
		bool is_old = false, decrypts;

		CHECK(weir__ticket_keys_current(keys, start_s, &first));
		decrypts = weir__ticket_keys_find(keys, first.name, now, &found, &is_old);
		CHECK_EQ(decrypts, rows[i].decrypts);
		CHECK_EQ(is_old, rows[i].is_old);
		CHECK(!decrypts || is_same(&first, &found));
		CHECK(weir__ticket_keys_current(keys, now, &then));
		CHECK_EQ(is_same(&first, &then), rows[i].encrypts);
		if (check_failed)
			(void)fprintf(stderr, "# %s\n", rows[i].what);
		weir__ticket_keys_free(keys);
	}
}

static void only_two_are_kept(void)
{
	struct weir__ticket_keys *const keys = weir__ticket_keys_new();
	struct weir__ticket_key made[3], found;
	bool is_old;

	for (uint64_t i = 0; i < 3; i++)
		CHECK(weir__ticket_keys_current(keys, start_s + i * T, &made[i]));
	CHECK(!weir__ticket_keys_find(keys, made[0].name, start_s + 2 * T, &found, &is_old));
	CHECK(weir__ticket_keys_find(keys, made[1].name, start_s + 2 * T, &found, &is_old) && is_old);
	CHECK(weir__ticket_keys_find(keys, made[2].name, start_s + 2 * T, &found, &is_old) && !is_old);
	weir__ticket_keys_free(keys);
}

static void another_process_takes_them_over(void)
{
	struct weir__ticket_keys *const keys = weir__ticket_keys_new(), *const next = weir__ticket_keys_new();
	unsigned char bytes[WEIR__TICKET_KEYS_BYTES];
	struct weir__ticket_key first, second, found;
	bool is_old;

	CHECK(weir__ticket_keys_current(keys, start_s, &first));
	CHECK(weir__ticket_keys_current(keys, start_s + T, &second));
	weir__ticket_keys_write(keys, bytes);
	CHECK(!weir__ticket_keys_read(next, bytes, sizeof(bytes) - 1));
	CHECK(!weir__ticket_keys_find(next, first.name, start_s + T, &found, &is_old));
	CHECK(weir__ticket_keys_read(next, bytes, sizeof(bytes)));
	CHECK(weir__ticket_keys_find(next, first.name, start_s + T, &found, &is_old) && is_same(&found, &first));
	CHECK(weir__ticket_keys_current(next, start_s + T, &found) && is_same(&found, &second));
	bytes[0] ^= 1;
	CHECK(!weir__ticket_keys_read(next, bytes, sizeof(bytes)));
	weir__ticket_keys_free(keys);
	weir__ticket_keys_free(next);
}

TESTS(TEST(keys_by_age), TEST(only_two_are_kept), TEST(another_process_takes_them_over))
