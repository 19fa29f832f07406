/* condition_test.c: conditions on one attribute. */
#include "policy/condition.h"

#include "check.h"

enum { PLAN, IP };

static struct weir__attributes attributes;

static void set_up(void)
{
	memset(&attributes, 0, sizeof(attributes));
	(void)weir__attributes_add(&attributes, weir__slice_of("plan"));
	(void)weir__attributes_add(&attributes, weir__slice_of("ip"));
	attributes.of[IP].type = WEIR__ADDRESS_ATTRIBUTE;
}

static bool holds(struct weir__condition condition, const char *value)
{
	const char *const name = attributes.of[condition.attribute].name.at;
	const struct weir_attribute given = { name, strlen(name), value, value ? strlen(value) : 0 };
	static struct weir__values values;
	struct weir__slice which;

	weir__condition_sort(&condition);
	weir__values_begin(&attributes, &given, value ? 1 : 0, &values);
	CHECK(weir__values_end(&attributes, &values, &which));
	return weir__condition_holds(&condition, &values);
}

static void one_of_a_list(void)
{
	struct weir__pattern list[] = { { .text = weir__slice_of("gold") },
					{ .text = weir__slice_of("b") },
					{ .text = weir__slice_of("silver") },
					{ .kind = WEIR__PATTERN_PREFIX, .text = weir__slice_of("trial-") } };
	struct weir__condition condition = { .attribute = PLAN, .patterns = list, .n = 4 };

	set_up();
	CHECK(holds(condition, "gold") && holds(condition, "silver") && holds(condition, "b"));
	CHECK(holds(condition, "trial-7") && !holds(condition, "trial"));
	CHECK(!holds(condition, "Gold") && !holds(condition, "") && !holds(condition, NULL));
	condition.is_negated = true;
	CHECK(!holds(condition, "gold") && holds(condition, "Gold") && !holds(condition, NULL));
}

static void present_or_not(void)
{
	struct weir__pattern present = { .kind = WEIR__PATTERN_PRESENT };
	struct weir__condition condition = { .attribute = PLAN, .patterns = &present, .n = 1 };

	set_up();
	CHECK(holds(condition, "x") && holds(condition, "") && !holds(condition, NULL));
	condition.is_negated = true;
	CHECK(!holds(condition, "x") && holds(condition, NULL));
}

static void networks(void)
{
	struct weir__pattern ten = { .kind = WEIR__PATTERN_NETWORK };
	struct weir__condition condition = { .attribute = IP, .patterns = &ten, .n = 1 };
	bool has_host_bits;

	set_up();
	CHECK(weir__network_read(weir__slice_of("10.0.0.0/8"), &ten.network, &has_host_bits));
	CHECK(holds(condition, "10.1.2.3") && holds(condition, "::ffff:10.9.9.9"));
	CHECK(!holds(condition, "11.1.2.3") && !holds(condition, "10.1.2") && !holds(condition, NULL));
}

TESTS(TEST(one_of_a_list), TEST(present_or_not), TEST(networks))
