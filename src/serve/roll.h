/* roll.h: what is known of a connection, as a line, for CLIENT INFO. */
#ifndef WEIR_SERVE_ROLL_H
#define WEIR_SERVE_ROLL_H

#include "serve/commands.h"

/* Of a client that has a socket, as Redis writes it, with the fields that are known here; ends with a newline. Returns its length. */
enum { WEIR__ROLL_LINE = 640 };
size_t weir__roll_line(const struct weir__commands *commands, const struct weir__client *client,
		       char ret_line[WEIR__ROLL_LINE]);

#endif
