/* table_processes_test.c: four processes send requests and one resets keys, on one shared table. */
#include "table_races.h"

int main(int argc, char **argv)
{
	is_crowd_of_processes = true;
	return check_crowd(argc, argv);
}
