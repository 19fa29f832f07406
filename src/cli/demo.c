/* demo.c: the five algorithms side by side. */
#include <stdio.h>

#include "cli/command.h"

int weir__demo(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	puts("weir");
	return 0;
}
