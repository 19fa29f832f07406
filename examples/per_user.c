/* per_user.c: a limit for each user.
 * Many programs have a map from users to limiters, a lock, and a thread that deletes idle users. Here it is one table of a
 * fixed size. No thread waits for another, and a user without usage takes no memory. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include <weir/weir.h>

/* Each user sends 20 requests. The limit allows 10 of them. */
enum { THREADS = 4, ROUNDS = 5, USERS = 1000, SERVED_EACH = 10 };

static struct weir_table *table;
static const struct weir_table_limit *per_user;
static _Atomic int served, refused;

static void handle_request(int user)
{
	char key[32];
	const int length = snprintf(key, sizeof(key), "user:%d", user);

	if (weir_table_allow(table, per_user, key, (size_t)length, weir_table_now(table), 1))
		atomic_fetch_add(&served, 1); /* the real work */
	else
		atomic_fetch_add(&refused, 1); /* 429 Too Many Requests */
}

static void *server(void *unused)
{
	for (int round = 0; round < ROUNDS; round++)
		for (int user = 0; user < USERS; user++)
			handle_request(user);
	return unused;
}

int main(void)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(100000, 0) };
	struct weir_message why;
	pthread_t threads[THREADS];

	if (weir_table_new(&options, &table, &why) != WEIR_OK ||
	    weir_table_add_limit_text(table, "per user", "10/day", &per_user, &why) != WEIR_OK) {
		fprintf(stderr, "%s\n", why.text);
		return 1;
	}
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, server, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	weir_table_free(table);
	printf("%d users: %d allowed, %d denied\n", USERS, served, refused);
	return served != USERS * SERVED_EACH;
}
