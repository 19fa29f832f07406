/* process.c: posix_spawn, which a program of many threads may call, as it may not do much after a fork. */
#include "os/process.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

int weir__process_start(char *const argv[], char *const environment[], const int *kept, size_t n, pid_t *ret_pid)
{
	posix_spawn_file_actions_t actions;
	int error = posix_spawn_file_actions_init(&actions);

	if (error != 0)
		return error;
	for (size_t i = 0; error == 0 && i < n; i++) /* to itself: then it is not closed on exec */
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
