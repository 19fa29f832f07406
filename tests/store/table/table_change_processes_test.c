/* table_change_processes_test.c: four processes send requests on one shared table while one changes its limits. */
#include "table_change_crowd.h"

int main(int argc, char **argv)
{
	static const struct check_test tests[] = {
		TEST(a_crowd_is_admitted_no_more_than_the_larger),
		TEST(at_one_instant_a_key_gets_its_burst_once),
	};

	is_crowd_of_processes = true;
	if (argc > 1) /* full size */
		changes = strtoull(argv[1], NULL, 10);
	return check_run(tests, sizeof(tests) / sizeof(tests[0]));
}
