/* client_line.h: what is known of a connection, as a line, for CLIENT INFO. */
#ifndef WEIR_SERVE_CLIENT_LINE_H
#define WEIR_SERVE_CLIENT_LINE_H

#include "serve/context.h"

/* Of a client that has a socket, as Redis writes it, with the fields that are known here; ends with a newline. Returns its length. */
enum { WEIR__CLIENT_LINE_SIZE = 640 };
size_t weir__client_line(const struct weir__context *context, const struct weir__client *client,
			 char ret_line[WEIR__CLIENT_LINE_SIZE]);

#endif
