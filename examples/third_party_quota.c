/* third_party_quota.c: keeps calls to another company's API within its quota, by waiting.
 * Four workers share the quota in order of arrival. When the quota changes, waiting workers follow at once. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include <weir/weir.h>

static _Alignas(WEIR_LIMITER_ALIGN) unsigned char memory[WEIR_LIMITER_SIZE];
static struct weir_limiter *quota;
static _Atomic int called, gave_up;

static void *worker(void *unused)
{
	for (int i = 0; i < 10; i++) {
		const weir_ns patience = weir_clock_now() + UINT64_C(60000000000); /* wait for at most a minute */

		if (weir_limiter_wait(quota, 1, patience, NULL) == WEIR_OK)
			atomic_fetch_add(&called, 1); /* the call */
		else
			atomic_fetch_add(&gave_up, 1);
	}
	return unused;
}

int main(void)
{
	struct weir_limit limit;
	struct weir_message why;
	pthread_t threads[4];

	if (weir_limiter_init_text(memory, sizeof(memory), "10/s burst 1", &quota, &why) != WEIR_OK) {
		fprintf(stderr, "%s\n", why.text);
		return 1;
	}
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, worker, NULL);

	/* A response of the API had "X-RateLimit-Limit: 1000". */
	limit = weir_limiter_limit(quota);
	limit.count = 1000;
	if (weir_limiter_change(quota, weir_clock_now(), &limit, &why) != WEIR_OK)
		fprintf(stderr, "%s\n", why.text);

	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("%d calls, %d given up\n", called, gave_up);
	return called != 40;
}
