/* protect_function.c: limits how often a function runs, from any thread.
 * It sends at most five mails an hour, whatever a bug or an attacker makes the four threads do. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include <weir/weir.h>

static _Alignas(WEIR_LIMITER_ALIGN) unsigned char memory[WEIR_LIMITER_SIZE];
static struct weir_limiter *mails;
static _Atomic int sent, refused;

static void send_mail(const char *to)
{
	(void)to;
	if (weir_limiter_allow(mails, weir_clock_now(), 1))
		atomic_fetch_add(&sent, 1); /* the real work */
	else
		atomic_fetch_add(&refused, 1);
}

static void *gone_wild(void *unused)
{
	for (int i = 0; i < 1000; i++)
		send_mail("everyone@example.com");
	return unused;
}

int main(void)
{
	struct weir_message why;
	pthread_t threads[4];

	if (weir_limiter_init_text(memory, sizeof(memory), "5/hour", &mails, &why) != WEIR_OK) {
		fprintf(stderr, "%s\n", why.text);
		return 1;
	}
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, gone_wild, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("%d sent, %d denied\n", sent, refused);
	return sent != 5;
}
