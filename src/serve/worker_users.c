/* worker_users.c: the users that a worker knows, and what becomes of connections when they change.
 *
 * As with ACL LOAD of Redis: who is gone, or has another password or role, is cut off; others notice nothing. Over HTTP each
 * request says who asks, so there is nothing to be taken back. */
#include <string.h>

#include "serve/connection.h"
#include "serve/roster.h"

/* The user as whom a connection goes on. NULL: it does not. */
static const struct weir__user *still(const struct weir__users *users, const struct weir__user *before)
{
	const struct weir__user *const now = weir__users_find(users, before->name, strlen(before->name));

	return now && now->role == before->role && now->has_password &&
			       memcmp(now->digest, before->digest, sizeof(now->digest)) == 0 ?
		       now :
		       NULL;
}

/* Who has to say who it is has some time for that, from now on. */
static void watch_stranger(struct weir__worker *worker, struct weir__connection *connection)
{
	if (connection->wire != &weir__wire_resp || connection->is_finished)
		return;
	if (weir__client_is_stranger(&worker->context, &connection->client))
		weir__worker_begin(worker, connection);
	else
		weir__worker_is_whole(connection);
}

void weir__worker_take_users(struct weir__worker *worker)
{
	struct weir__roster *const roster = worker->options.roster;
	struct weir__users next;

	if (roster == NULL || weir__roster_version(roster) == worker->users_version)
		return;
	worker->users_version = weir__roster_copy(roster, &next);
	for (struct weir__connection *connection = weir__worker_next(worker, NULL), *following; connection;
	     connection = following) {
		const struct weir__user *const user = connection->client.user;
		const struct weir__user *const now = user ? still(&next, user) : NULL;

		following = weir__worker_next(worker, connection);
		if (user && now == NULL && connection->wire == &weir__wire_resp)
			weir__worker_close(worker, connection);
		else /* at the same place of what becomes the worker's own */
			connection->client.user = now ? &worker->users.at[now - next.at] : NULL;
	}
	worker->users = next;
	weir__users_wipe(&next, sizeof(next));
	for (struct weir__connection *connection = weir__worker_next(worker, NULL); connection;
	     connection = weir__worker_next(worker, connection))
		watch_stranger(worker, connection);
}
