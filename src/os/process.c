/* process.c: resource usage of this process, and starting programs by posix_spawn. After a fork, a program with many
 * threads may call only few functions. posix_spawn is safe. */
#include "os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The second number in this file is the resident pages. */
static uint64_t resident_pages(void)
{
	char text[128] = "";
	const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	const char *second;

	if (file < 0)
		return 0;
	if (read(file, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	(void)close(file);
	second = strchr(text, ' ');
	return second ? strtoull(second, NULL, 10) : 0;
}

struct weir__process_usage weir__process_usage(void)
{
	struct timespec cpu = { 0, 0 };

	(void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	return (struct weir__process_usage){
		.cpu_ns = (uint64_t)cpu.tv_sec * 1000000000 + (uint64_t)cpu.tv_nsec,
		.resident_bytes = resident_pages() * (uint64_t)sysconf(_SC_PAGESIZE),
	};
}

void weir__process_forbid_dumps(void)
{
	(void)prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L);
}

/* A process of another user than root has capabilities from the file of its program, or as ambient ones, which are
 * inherited anyway. */
static bool has_capabilities_of_file(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

	if (geteuid() == 0 || syscall(SYS_capget, &header, data) != 0)
		return false;
	for (unsigned i = 0; i < 32 * _LINUX_CAPABILITY_U32S_3; i++)
		if (data[i / 32].permitted >> i % 32 & 1 &&
		    prctl(PR_CAP_AMBIENT, (long)PR_CAP_AMBIENT_IS_SET, (long)i, 0L, 0L) != 1)
			return true;
	return false;
}

void weir__process_forbid_privileges(void)
{
	if (!has_capabilities_of_file())
		(void)prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L);
}

int weir__process_start(char *const argv[], char *const environment[], const int *kept, size_t n, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	int error = posix_spawn_file_actions_init(&actions);

	if (error != 0)
		return error;
	for (size_t i = 0; error == 0 && i < n; i++) /* duplicated to itself, it is not closed on exec */
		error = posix_spawn_file_actions_adddup2(&actions, kept[i], kept[i]);
	if (error == 0)
		error = posix_spawnp(ret_pid, argv[0], &actions, NULL, argv, environment);
	(void)posix_spawn_file_actions_destroy(&actions);
	return error;
}

static pid_t wait_for(pid_t pid, int *status, int options)
{
	pid_t got;

	do
		got = waitpid(pid, status, options);
	while (got < 0 && errno == EINTR);
	return got;
}

bool weir__process_has_ended(pid_t pid, char *ret_how, size_t size)
{
	int status;

	if (wait_for(pid, &status, WNOHANG) != pid)
		return false;
	if (WIFSIGNALED(status))
		(void)snprintf(ret_how, size, "signal %d, %s", WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		(void)snprintf(ret_how, size, "exit status %d", WEXITSTATUS(status));
	return true;
}

void weir__process_kill(pid_t pid)
{
	int status;

	(void)kill(pid, SIGKILL);
	(void)wait_for(pid, &status, 0);
}
