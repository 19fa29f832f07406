/* client_info.c: the line that describes a connection. */
#include "server/resp/client_info.h"

#include <inttypes.h>
#include <stdio.h>

#include "os/net.h"
#include "server/connection.h"

static uint64_t seconds_since(weir_ns now, weir_ns then)
{
	return now > then ? (now - then) / 1000000000 : 0;
}

static const char *user_of(const struct weir__context *context, const struct weir__client *client)
{
	if (client->user)
		return client->user->name;
	return weir__client_is_unauthenticated(context, client) ? "-" : WEIR__USER_DEFAULT;
}

size_t weir__client_info(const struct weir__context *context, const struct weir__client *client,
			 char ret_line[WEIR__CLIENT_INFO_SIZE])
{
	const struct weir__connection *const connection = (const struct weir__connection *)(const void *)client;
	const weir_ns now = weir_table_now(context->table);
	char peer[WEIR__NET_NAME_SIZE], here[WEIR__NET_NAME_SIZE];
	bool is_path;
	int length;

	weir__net_ends(connection->socket, peer, here, &is_path);
	length = snprintf(ret_line, WEIR__CLIENT_INFO_SIZE,
			  "id=%" PRIu64 " addr=%s laddr=%s fd=%d name=%s age=%" PRIu64 " idle=%" PRIu64
			  " flags=%s db=0 qbuf=%zu omem=%zu user=%s resp=%d\n",
			  client->number, peer, here, connection->socket, client->name,
			  seconds_since(now, connection->opened_at), seconds_since(now, connection->heard_at),
			  is_path ? "U" : "N", connection->unread.n, weir__output_waiting(&connection->output),
			  user_of(context, client), client->resp_version);
	return weir__min((size_t)length, WEIR__CLIENT_INFO_SIZE - 1);
}
