/* workers.c: worker processes that share one limit, as in a web server.
 * All attach to a table in shared memory, by its name. One worker is killed. The others do not wait for it, and its
 * requests stay counted. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/weir.h>

enum { WORKERS = 4, REQUESTS = 500, LIMIT = 1000 };

static char name[32];
static _Atomic int *admitted; /* by all workers */

static int open_table(struct weir_table **ret_table, const struct weir_table_limit **ret_limit)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(10000, 0), .shared = name };
	struct weir_message why;

	if (weir_table_new(&options, ret_table, &why) == WEIR_OK &&
	    weir_table_add_limit_text(*ret_table, "per customer", "1000/day", ret_limit, &why) == WEIR_OK)
		return WEIR_OK;
	fprintf(stderr, "%s\n", why.text);
	return WEIR_ERR_SYSTEM;
}

static void work(int number)
{
	const struct weir_table_limit *limit;
	struct weir_table *table;

	if (open_table(&table, &limit) != WEIR_OK)
		_exit(1);
	for (int i = 0; i < REQUESTS; i++) {
		if (weir_table_allow(table, limit, "acme", 4, weir_table_now(table), 1))
			atomic_fetch_add(admitted, 1); /* the real work */
		if (number == 0 && i == 100)
			kill(getpid(), SIGKILL); /* kill -9: no cleanup */
	}
	weir_table_free(table);
	_exit(0);
}

int main(void)
{
	int status, killed = 0, failed = 0;

	admitted = mmap(NULL, sizeof(*admitted), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (admitted == MAP_FAILED)
		return 1;
	(void)snprintf(name, sizeof(name), "weir-workers-%d", (int)getpid()); /* yours would be "weir-shop" */
	for (int i = 0; i < WORKERS; i++) {
		const pid_t child = fork();

		if (child == 0)
			work(i);
		failed += child < 0;
	}
	while (wait(&status) > 0) {
		killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
		failed += WIFEXITED(status) && WEXITSTATUS(status) != 0;
	}
	failed += weir_table_unlink(name, NULL) != WEIR_OK; /* otherwise it stays until a reboot */
	printf("%d workers, %d killed: %d of %d allowed\n", WORKERS, killed, *admitted, LIMIT);
	return failed != 0 || killed != 1 || *admitted != LIMIT;
}
