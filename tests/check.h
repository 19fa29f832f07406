/* check.h: a minimal test runner with TAP output. It needs only libc, so tests also run where no test library is
 * packaged (aarch64 under qemu).
 *
 *     static void full_at_first(void) { CHECK_EQ(tokens, 3); }
 *     TESTS(TEST(full_at_first), ...) */
#ifndef WEIR_TESTS_CHECK_H
#define WEIR_TESTS_CHECK_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct check_test {
	const char *name;
	void (*run)(void);
};

static bool check_failed;

static inline void check_fail(const char *file, int line, const char *what)
{
	check_failed = true;
	printf("# %s:%d: %s\n", file, line, what);
}

static inline bool check_eq(const char *file, int line, const char *what, uint64_t found, uint64_t expected)
{
	if (found == expected)
		return true;
	check_failed = true;
	printf("# %s:%d: %s: found %" PRIu64 ", expected %" PRIu64 "\n", file, line, what, found, expected);
	return false;
}

static inline void check_text(const char *file, int line, const char *found, const char *expected)
{
	if (strcmp(found, expected) == 0)
		return;
	check_failed = true;
	printf("# %s:%d:\n#    found: %s\n# expected: %s\n", file, line, found, expected);
}

#define CHECK(condition) ((condition) ? (void)0 : check_fail(__FILE__, __LINE__, #condition))
#define CHECK_EQ(found, expected) check_eq(__FILE__, __LINE__, #found, (uint64_t)(found), (uint64_t)(expected))
#define CHECK_TEXT(found, expected) check_text(__FILE__, __LINE__, found, expected)

#define TEST(function)                                                                                                 \
	{                                                                                                              \
#function, function                                                                                    \
	}

#define TESTS(...)                                                                                                     \
	int main(void)                                                                                                 \
	{                                                                                                              \
		static const struct check_test tests[] = { __VA_ARGS__ };                                              \
		return check_run(tests, sizeof(tests) / sizeof(tests[0]));                                             \
	}

static inline int check_run(const struct check_test *tests, size_t n)
{
	int failures = 0;

	printf("1..%zu\n", n);
	for (size_t i = 0; i < n; i++) {
		check_failed = false;
		tests[i].run();
		printf("%s %zu - %s\n", check_failed ? "not ok" : "ok", i + 1, tests[i].name);
		fflush(stdout);
		failures += check_failed;
	}
	return failures > 0;
}

#endif
