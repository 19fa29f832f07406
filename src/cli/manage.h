/* manage.h: the commands that need more than one request: weir limits, and weir reload. */
#ifndef WEIR_CLI_MANAGE_H
#define WEIR_CLI_MANAGE_H

#include "cli/link.h"

enum weir__manage_result {
	WEIR__MANAGE_DONE,
	WEIR__MANAGE_REFUSED, /* the policy has errors; they were printed */
	WEIR__MANAGE_FAILED,  /* link->why has the reason */
};

/* Prints the limits of the server's policy. */
enum weir__manage_result weir__manage_limits(struct weir__link *link, bool is_json);

/* Requests a reload, waits until it is done, and prints what was loaded. */
enum weir__manage_result weir__manage_reload(struct weir__link *link, bool is_json);

#endif
