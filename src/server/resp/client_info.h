/* client_info.h: describes a connection in one line, for CLIENT INFO. */
#ifndef WEIR_SERVER_RESP_CLIENT_INFO_H
#define WEIR_SERVER_RESP_CLIENT_INFO_H

#include "engine/context.h"

/* Writes the line as Redis does, with the fields that are known here, and a newline at its end. The client must have a
 * socket. Returns the length. */
enum { WEIR__CLIENT_INFO_SIZE = 640 };
size_t weir__client_info(const struct weir__context *context, const struct weir__client *client,
			 char ret_line[WEIR__CLIENT_INFO_SIZE]);

#endif
