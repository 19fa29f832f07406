/* thread_start.c: a thread inherits the signal mask of the thread that starts it. */
#include "os/thread_start.h"

#include <signal.h>

int weir__thread_start(pthread_t *ret_thread, void *(*run)(void *context), void *context)
{
	sigset_t all, before;
	int error;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(ret_thread, NULL, run, context);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error;
}
