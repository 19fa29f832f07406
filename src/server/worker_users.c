/* worker_users.c: the users that a worker knows, and what happens to connections when they change.
 *
 * As with ACL LOAD in Redis, connections of a user that is gone, or has another password, prefix or roles, are closed.
 * Other connections are not affected. Over HTTP each request authenticates itself, so no connection has to be
 * closed. */
#include <string.h>

#include "server/connection.h"
#include "server/user_reload.h"

/* The user of the connection from now on. NULL: the connection must be closed. A client authenticates by its certificate
 * or by a password. */
static const struct weir__user *still(const struct weir__users *users, const struct weir__user *before,
				      bool is_by_certificate)
{
	const struct weir__user *const now = weir__users_find(users, before->name, strlen(before->name));

	if (now == NULL || now->roles != before->roles || strcmp(now->key_prefix, before->key_prefix) != 0)
		return NULL;
	if (is_by_certificate)
		return strcmp(now->certificate, before->certificate) == 0 ? now : NULL;
	return now->has_password && memcmp(now->digest, before->digest, sizeof(now->digest)) == 0 ? now : NULL;
}

/* Starts the deadline of a connection that must authenticate now, and ends the deadline of others. An incomplete
 * request gets a new deadline with its next bytes. */
static void watch_unauthenticated(struct weir__worker *worker, struct weir__connection *connection)
{
	if (connection->protocol != &weir__protocol_resp || connection->is_finished || connection->is_shaking)
		return;
	if (weir__client_is_unauthenticated(&worker->context, &connection->client))
		weir__worker_request_begun(worker, connection);
	else
		weir__worker_request_complete(connection);
}

void weir__worker_take_users(struct weir__worker *worker)
{
	struct weir__user_reload *const user_reload = worker->options.user_reload;
	const struct weir__users *const before = worker->users, *next;

	if (user_reload == NULL || weir__user_reload_version(user_reload) == worker->users_version)
		return;
	next = weir__user_reload_acquire(user_reload, &worker->users_version);
	for (struct weir__connection *connection = weir__worker_next(worker, NULL), *following; connection;
	     connection = following) {
		const struct weir__user *const user = connection->client.user;
		const struct weir__user *const now =
			user ? still(next, user, user == connection->client.certificate_user) : NULL;

		following = weir__worker_next(worker, connection);
		if (user && now == NULL && connection->protocol == &weir__protocol_resp)
			weir__worker_close(worker, connection);
		else
			connection->client.user = now;
	}
	worker->users = worker->context.users = next;
	for (struct weir__connection *connection = weir__worker_next(worker, NULL); connection;
	     connection = weir__worker_next(worker, connection)) {
		weir__worker_find_certificate_user(worker, connection);
		if (connection->client.user == NULL)
			connection->client.user = connection->client.certificate_user;
		watch_unauthenticated(worker, connection);
	}
	weir__user_reload_release(before);
}
