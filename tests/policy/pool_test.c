/* pool_test.c: memory that is freed all at once, up to a bound. */
#include "policy/pool.h"

#include <stdint.h>

#include "check.h"

static void what_is_taken_is_zeroed_aligned_and_its_own(void)
{
	struct weir__pool pool = weir__pool_of(1 << 20);
	unsigned char *taken[200];

	for (size_t i = 0; i < 200; i++) {
		taken[i] = weir__pool_take(&pool, i * 7 + 1);
		CHECK(taken[i] != NULL);
		CHECK_EQ((uintptr_t)taken[i] % 16, 0);
		for (size_t k = 0; k <= i * 7; k++)
			CHECK_EQ(taken[i][k], 0);
		memset(taken[i], (int)i + 1, i * 7 + 1);
	}
	for (size_t i = 0; i < 200; i++)
		CHECK(taken[i][0] == (unsigned char)(i + 1) && taken[i][i * 7] == (unsigned char)(i + 1));
	weir__pool_free(&pool);
	CHECK_EQ(pool.used, 0);
}

static void a_bound_is_kept(void)
{
	const size_t most = 307200;
	struct weir__pool pool = weir__pool_of(most);
	size_t n = 0;

	while (weir__pool_take(&pool, 1000) != NULL && n < 1000)
		n++;
	CHECK(n >= 200 && n < 300); /* a block that does not fit is not started */
	CHECK(pool.used <= most);
	CHECK(weir__pool_take(&pool, most) == NULL);
	CHECK(weir__pool_take(&pool, SIZE_MAX) == NULL);
	CHECK(weir__pool_take_array(&pool, SIZE_MAX / 2, 3) == NULL);
	CHECK(weir__pool_take_lines(&pool, SIZE_MAX / 2, 3) == NULL);
	weir__pool_free(&pool);
}

static void lines_begin_at_a_line(void)
{
	struct weir__pool pool = weir__pool_of(8 << 20);

	for (size_t i = 1; i < 100; i++) {
		CHECK(weir__pool_take(&pool, i) != NULL);
		CHECK_EQ((uintptr_t)weir__pool_take_lines(&pool, i * 9, 64) % WEIR__POOL_LINE, 0);
	}
	weir__pool_free(&pool);
}

static void large_blocks_are_given_back_too(void)
{
	struct weir__pool pool = weir__pool_of(64 << 20);
	unsigned char *taken;

	pool.is_looked_up = true;
	for (size_t i = 0; i < 4; i++) {
		taken = weir__pool_take(&pool, 5 << 20);
		CHECK(taken != NULL && taken[0] == 0 && taken[(5 << 20) - 1] == 0);
	}
	weir__pool_free(&pool);
	CHECK(pool.blocks == NULL);
}

static void copies_end_with_a_nul(void)
{
	struct weir__pool pool = weir__pool_of(1 << 20);
	const struct weir__slice copy = weir__pool_copy(&pool, weir__slice_of("gold")),
				 empty = weir__pool_copy(&pool, (struct weir__slice){ NULL, 0 });

	CHECK(copy.n == 4 && memcmp(copy.at, "gold", 5) == 0);
	CHECK(empty.n == 0 && empty.at[0] == '\0');
	weir__pool_free(&pool);
}

TESTS(TEST(what_is_taken_is_zeroed_aligned_and_its_own), TEST(a_bound_is_kept), TEST(lines_begin_at_a_line),
      TEST(large_blocks_are_given_back_too), TEST(copies_end_with_a_nul))
