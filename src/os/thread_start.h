/* thread_start.h: threads of the library in a program of somebody else. */
#ifndef WEIR_OS_THREAD_START_H
#define WEIR_OS_THREAD_START_H

#include <pthread.h>

/* As pthread_create, with all signals blocked: they are for the program's own threads. 0 or an errno. */
int weir__thread_start(pthread_t *ret_thread, void *(*run)(void *context), void *context);

#endif
