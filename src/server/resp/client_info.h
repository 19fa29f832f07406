/* client_info.h: what is known of a connection, as a line, for CLIENT INFO. */
#ifndef WEIR_SERVER_RESP_CLIENT_INFO_H
#define WEIR_SERVER_RESP_CLIENT_INFO_H

#include "engine/context.h"

/* Of a client that has a socket, as Redis writes it, with the fields that are known here; ends with a newline. Returns its length. */
enum { WEIR__CLIENT_INFO_SIZE = 640 };
size_t weir__client_info(const struct weir__context *context, const struct weir__client *client,
			 char ret_line[WEIR__CLIENT_INFO_SIZE]);

#endif
