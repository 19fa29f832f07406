/* table_threads_test.c: four threads that ask and one that resets, on one private table. */
#include "table_crowd.h"
#include "table_races.h"

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(a_crowd_is_admitted_what_the_limits_say),
		TEST(a_crowd_with_histories_is_admitted_what_the_limits_say),
		TEST(a_crowd_in_a_small_arena),
		TEST(a_crowd_is_admitted_what_one_would_be),
		TEST(losers_take_back_exactly_what_they_were_charged),
	};

	is_crowd_of_processes = false;
	if (argc > 1) /* full size */
		operations = strtoull(argv[1], NULL, 10);
	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
