/* process.h: what this program has used; and one that is started beside it, with some of its descriptors. */
#ifndef WEIR_OS_PROCESS_H
#define WEIR_OS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What this process has used, all threads of it. */
struct weir__process_usage {
	uint64_t cpu_ns;
	uint64_t resident_bytes; /* 0: not known */
};
struct weir__process_usage weir__process_usage(void);

/* Starts argv[0], which is searched for as a shell does. Of the descriptors that are closed on exec it keeps these. The
 * mask of signals is that of the caller. 0 or an errno: that of a program that is not there or cannot be run, too. */
int weir__process_start(char *const argv[], char *const environment[], const int *kept, size_t n, pid_t *ret_pid);

/* Whether a child has ended; then ret_how tells how, as "exit status 2". Only once for each. */
bool weir__process_has_ended(pid_t pid, char *ret_how, size_t size);

/* Kills a child, and waits until it is gone. */
void weir__process_kill(pid_t pid);

#endif
