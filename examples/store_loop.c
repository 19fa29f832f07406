/* store_loop.c: limits in Redis, from a program with an event loop. No call blocks, and thousands of requests are in
 * flight at once.
 *
 *     store_loop URL */
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <weir/store.h>

enum { REQUESTS = 2000, USERS = 20, TIMEOUT_MS = 30000 };

struct client {
	char user[16];
	int allowed, denied, failed;
};

/* Called by weir_submitter_dispatch, once for each request. */
static void reply(void *client_, int error, const struct weir_store_answer *answer, const struct weir_verdict *verdicts)
{
	struct client *const client = client_;

	(void)verdicts;
	if (error != WEIR_OK)
		client->failed++;
	else if (answer->verdict.allowed)
		client->allowed++;
	else
		client->denied++;
}

/* Your loop also has sockets: tell them apart by event.data. */
static int run_loop(struct weir_submitter *submitter)
{
	struct epoll_event event = { .events = EPOLLIN };
	const int epoll = epoll_create1(EPOLL_CLOEXEC);

	if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, weir_submitter_descriptor(submitter), &event) != 0)
		return 1;
	weir_submitter_flush(submitter);
	while (weir_submitter_in_flight(submitter) > 0 && epoll_wait(epoll, &event, 1, TIMEOUT_MS) == 1)
		(void)weir_submitter_dispatch(submitter);
	(void)close(epoll);
	return 0;
}

static int submit_all(struct weir_store *store, struct weir_submitter *submitter, struct client clients[USERS])
{
	const struct weir_table_limit *per_user;
	struct weir_message why;

	if (weir_store_add_limit_text(store, "per-user", "10/hour", &per_user, &why) != WEIR_OK) {
		fprintf(stderr, "%s\n", why.text);
		return 1;
	}
	for (int i = 0; i < USERS; i++) {
		clients[i] = (struct client){ .failed = 0 };
		(void)snprintf(clients[i].user, sizeof(clients[i].user), "user %d", i);
	}
	for (int i = 0; i < REQUESTS; i++) {
		struct client *const client = &clients[i % USERS];
		const struct weir_claim claim = { per_user, client->user, strlen(client->user), 1 };

		if (weir_submitter_submit(submitter, WEIR_STORE_TAKE, &claim, 1, reply, client) != WEIR_OK)
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	const weir_ns patience = 5000000000;
	struct weir_submitter *submitter;
	struct client clients[USERS];
	struct weir_store *store;
	struct weir_message why;
	int allowed = 0, denied = 0, failed = 0, result;

	if (argc != 2 || weir_store_redis(argv[1], NULL, &store, &why) != WEIR_OK)
		return 2;
	if (weir_store_wait(store, patience, &why) != WEIR_OK ||
	    weir_submitter_new(store, &submitter, &why) != WEIR_OK) {
		fprintf(stderr, "%s\n", why.text);
		weir_store_free(store);
		return 1;
	}
	result = submit_all(store, submitter, clients) || run_loop(submitter);
	weir_submitter_free(submitter);
	weir_store_free(store);
	for (int i = 0; result == 0 && i < USERS; i++) {
		allowed += clients[i].allowed;
		denied += clients[i].denied;
		failed += clients[i].failed;
	}
	printf("%d requests of %d users: %d allowed, %d denied, %d failed\n", REQUESTS, USERS, allowed, denied, failed);
	return result || allowed + denied + failed != REQUESTS;
}
