/* table_processes_test.c: four processes that ask and one that resets, on one shared table. */
#include "table_races.h"

int main(int argc, char **argv)
{
	is_crowd_of_processes = true;
	return check_crowd(argc, argv);
}
