/* diagnostics_test.c: error messages for a configuration. */
#include "policy/diagnostics.h"

#include "check.h"

struct told {
	char last[WEIR__DIAGNOSTICS_LINE];
	unsigned n;
};

static void tell(void *told_, const char *line)
{
	struct told *const told = told_;

	CHECK(strlen(line) < sizeof(told->last));
	(void)snprintf(told->last, sizeof(told->last), "%s", line);
	told->n++;
}

static void a_fault_says_where(void)
{
	struct told told = { .n = 0 };
	struct weir__diagnostics diagnostics = { .file = "shop.yaml", .report = tell, .context = &told };

	weir__diagnostics_add(&diagnostics, (struct weir__mark){ 3, 14 }, "%s: use 1 to %d", "burst", 9);
	CHECK_TEXT(told.last, "shop.yaml:3:14: burst: use 1 to 9");
	CHECK_EQ(diagnostics.n, 1);
}

/* Text from a file must not move the cursor of the reader's terminal. */
static void control_characters_are_not_repeated(void)
{
	struct told told = { .n = 0 };
	struct weir__diagnostics diagnostics = { .file = "a\nb", .report = tell, .context = &told };

	weir__diagnostics_add(&diagnostics, (struct weir__mark){ 1, 1 }, "%s", "\x1b[2J\r\x7f");
	CHECK_TEXT(told.last, "a?b:1:1: ?[2J??");
}

static void long_ones_are_cut(void)
{
	char text[2 * WEIR__DIAGNOSTICS_LINE];
	struct told told = { .n = 0 };
	struct weir__diagnostics diagnostics = { .file = "f", .report = tell, .context = &told };

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	weir__diagnostics_add(&diagnostics, (struct weir__mark){ 1, 1 }, "%s", text);
	CHECK_EQ(strlen(told.last), WEIR__DIAGNOSTICS_LINE - 1);
	diagnostics.file = text; /* too long to leave room: the message comes first */
	weir__diagnostics_add(&diagnostics, (struct weir__mark){ 1, 1 }, "short");
	CHECK_TEXT(told.last, "short");
}

static void so_many_are_told_and_all_are_counted(void)
{
	struct told told = { .n = 0 };
	struct weir__diagnostics diagnostics = { .file = "f", .report = tell, .context = &told };

	for (uint32_t i = 1; i <= 3 * WEIR__DIAGNOSTICS_MOST; i++)
		weir__diagnostics_add(&diagnostics, (struct weir__mark){ i, 1 }, "wrong");
	CHECK_EQ(told.n, WEIR__DIAGNOSTICS_MOST);
	CHECK_EQ(diagnostics.n, 3 * WEIR__DIAGNOSTICS_MOST);
	diagnostics = (struct weir__diagnostics){ .file = "f" };
	weir__diagnostics_add(&diagnostics, (struct weir__mark){ 1, 1 }, "nobody listens");
	CHECK_EQ(diagnostics.n, 1);
}

TESTS(TEST(a_fault_says_where), TEST(control_characters_are_not_repeated), TEST(long_ones_are_cut),
      TEST(so_many_are_told_and_all_are_counted))
