/* process.h: the resource usage of this process, its protection, and starting a child program that inherits some
 * descriptors. */
#ifndef WEIR_OS_PROCESS_H
#define WEIR_OS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Resources used by all threads of this process. */
struct weir__process_usage {
	uint64_t cpu_ns;
	uint64_t resident_bytes; /* 0: not known */
};
struct weir__process_usage weir__process_usage(void);

/* From now on other processes of the same user may not read the memory of this one, and the kernel writes no core dump
 * of it, since it holds passwords and keys of clients. */
void weir__process_forbid_dumps(void);

/* From now on programs that this process starts get no privileges from set-user-id bits or file capabilities. Does
 * nothing if this process has its own capabilities from its file, because the next server would not get them. */
void weir__process_forbid_privileges(void);

/* Starts argv[0], which is looked up in PATH. The child keeps these descriptors, even if they are marked close-on-exec,
 * and inherits the caller's signal mask. Returns 0 or an errno, also if the program does not exist or cannot be run. */
int weir__process_start(char *const argv[], char *const environment[], const int *kept, size_t n, pid_t *ret_pid);

/* Returns whether a child has ended. If so, ret_how says how, as in "exit status 2". Returns true only once per
 * child. */
bool weir__process_has_ended(pid_t pid, char *ret_how, size_t size);

/* Kills a child, and waits until it has ended. */
void weir__process_kill(pid_t pid);

#endif
