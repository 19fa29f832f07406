/* two_stages.c: a token bucket that absorbs bursts in front of a leaky queue that feeds a slow consumer.
 * The bucket denies at once what could not be served in time. The queue smooths the rest: the database gets one write
 * every two milliseconds, and never a burst. */
#include <pthread.h>
#include <stdio.h>

#include <weir/weir.h>

enum { REQUESTS = 50 };

static _Alignas(WEIR_LIMITER_ALIGN) unsigned char door_memory[WEIR_LIMITER_SIZE];
static _Alignas(WEIR_QUEUE_ALIGN) unsigned char queue_memory[1024];
static struct weir_limiter *door;
static struct weir_queue *writes;

static void *database(void *written_)
{
	int *written = written_, last = -1;
	void *request;

	while (weir_queue_pop(writes, &request, WEIR_NEVER, NULL) == WEIR_OK) {
		if (*(int *)request <= last)
			return NULL; /* out of order: the count is then too low */
		last = *(int *)request;
		(*written)++;
	}
	return NULL;
}

int main(void)
{
	static int requests[REQUESTS];
	int turned_away = 0, written = 0;
	struct weir_verdict longest = { 0 }, v;
	struct weir_message why;
	pthread_t consumer;

	if (weir_limiter_init_text(door_memory, sizeof(door_memory), "10/hour burst 30", &door, &why) != WEIR_OK ||
	    weir_queue_init_text(queue_memory, sizeof(queue_memory), "500/s leaky queue 64", NULL, &writes, &why) !=
		    WEIR_OK) {
		fprintf(stderr, "%s\n", why.text);
		return 1;
	}
	pthread_create(&consumer, NULL, database, &written);
	for (int i = 0; i < REQUESTS; i++) { /* all at once */
		requests[i] = i;
		if (!weir_limiter_allow(door, weir_clock_now(), 1))
			turned_away++;
		else if (weir_queue_try_push(writes, &requests[i], &v) == WEIR_OK && v.delay > longest.delay)
			longest = v;
	}
	weir_queue_close(writes); /* queued items still leave, at the rate */
	pthread_join(consumer, NULL);
	weir_queue_fini(writes);
	printf("%d written in order, %d denied at the first stage\n", written, turned_away);
	printf("the last request was told its delay: %s\n", longest.delay > 0 ? "yes" : "no");
	return written != 30 || longest.delay == 0;
}
