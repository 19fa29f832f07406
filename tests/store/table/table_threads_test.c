/* table_threads_test.c: four threads send requests and one resets keys, on one private table. */
#include "table_races.h"

int main(int argc, char **argv)
{
	is_crowd_of_processes = false;
	return check_crowd(argc, argv);
}
