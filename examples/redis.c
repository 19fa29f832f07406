/* redis.c: two machines share a limit in Redis.
 *
 *     redis URL
 *
 * Here both are in one program, each with its own connections. Your program decides what happens when Redis does not
 * reply: this one allows the request. */
#include <stdio.h>
#include <string.h>

#include <weir/redis.h>

struct machine {
	struct weir_redis *redis;
	const struct weir_redis_limit *per_user;
};

static int start(struct machine *machine, const char *url)
{
	const weir_ns patience = 5000000000;
	struct weir_message why;

	if (weir_redis_new(url, &machine->redis, &why) != WEIR_OK) {
		fprintf(stderr, "%s\n", why.text);
		return 1;
	}
	if (weir_redis_add_limit_text(machine->redis, "per-user", "10/hour", &machine->per_user, &why) != WEIR_OK ||
	    weir_redis_wait(machine->redis, patience, &why) != WEIR_OK) {
		fprintf(stderr, "%s\n", why.text);
		weir_redis_free(machine->redis);
		return 1;
	}
	return 0;
}

static bool may_pass(struct machine *machine, const char *user)
{
	struct weir_verdict verdict;

	if (weir_redis_take(machine->redis, machine->per_user, user, strlen(user), 1, &verdict) != WEIR_OK)
		return true;
	return verdict.allowed;
}

int main(int argc, char **argv)
{
	struct machine machines[2];
	int passed[2] = { 0, 0 };

	if (argc != 2 || start(&machines[0], argv[1]) != 0)
		return 1;
	if (start(&machines[1], argv[1]) != 0) {
		weir_redis_free(machines[0].redis);
		return 1;
	}
	for (int i = 0; i < 24; i++)
		passed[i % 2] += may_pass(&machines[i % 2], "ada");
	for (int i = 0; i < 2; i++)
		weir_redis_free(machines[i].redis);
	printf("24 requests of one user: %d allowed here, %d there\n", passed[0], passed[1]);
	return passed[0] + passed[1] != 10;
}
