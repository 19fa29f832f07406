/* thread_start.h: starts the library's threads inside the user's program. */
#ifndef WEIR_OS_THREAD_START_H
#define WEIR_OS_THREAD_START_H

#include <pthread.h>

/* Like pthread_create, with all signals blocked: they are for the program's own threads. Returns 0 or an errno. */
int weir__thread_start(pthread_t *ret_thread, void *(*run)(void *context), void *context);

#endif
