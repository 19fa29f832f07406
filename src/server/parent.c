/* parent.c: waits for signals and for reports of servers. */
#include "server/parent.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/notify.h"
#include "server/pid_file.h"

enum { FAILED = 1, SIGNALLED = 128, SERVERS_MAX = 256 };

struct parent {
	pid_t current; /* the server that serves; before it does, the one that was started */
	/* Servers that have not ended, the current one last. Older ones serve their last connections. If there are more
	 * than SERVERS_MAX, the oldest is forgotten: it ends after the setting `drain`. */
	pid_t servers[SERVERS_MAX];
	size_t n;
	int signals, reports;
	bool is_ready, is_ending, is_over;
	int status;
};

bool weir__parent_is_wanted(const struct weir__settings *settings)
{
	const char *const by_systemd = getenv("SYSTEMD_EXEC_PID");

	if (settings->keep_pid != WEIR__KEEP_PID_AUTO)
		return settings->keep_pid == WEIR__KEEP_PID_ON;
	/* Without a notify socket, this process cannot tell systemd a new process id. */
	return getpid() == 1 ||
	       (by_systemd && strtol(by_systemd, NULL, 10) == (long)getpid() && getenv("NOTIFY_SOCKET") == NULL);
}

static void forget(struct parent *parent, size_t i)
{
	parent->n--;
	memmove(&parent->servers[i], &parent->servers[i + 1], (parent->n - i) * sizeof(parent->servers[0]));
}

static void add(struct parent *parent, pid_t server)
{
	for (size_t i = 0; i < parent->n; i++)
		if (parent->servers[i] == server)
			return;
	if (parent->n == SERVERS_MAX)
		forget(parent, 0);
	parent->servers[parent->n++] = server;
}

static void signal_all(const struct parent *parent, int signal)
{
	for (size_t i = 0; i < parent->n; i++)
		(void)kill(parent->servers[i], signal);
}

/* A server reports here before it tells the previous one that it serves. So the report arrives before the previous
 * server can end. */
static void read_reports(struct parent *parent)
{
	pid_t server;

	while (read(parent->reports, &server, sizeof(server)) == (ssize_t)sizeof(server)) {
		parent->current = server;
		add(parent, server);
		if (!parent->is_ready)
			(void)weir__notify("READY=1\n");
		parent->is_ready = true;
	}
}

static void end_with(struct parent *parent, int status)
{
	parent->is_over = true;
	parent->status = WIFSIGNALED(status) ? SIGNALLED + WTERMSIG(status) : WEXITSTATUS(status);
	signal_all(parent, SIGTERM);
}

static void reap(struct parent *parent)
{
	int status;
	pid_t pid;

	read_reports(parent);
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (size_t i = 0; i < parent->n; i++)
			if (parent->servers[i] == pid)
				forget(parent, i--);
		if (pid == parent->current)
			end_with(parent, status);
	}
}

static void take_signal(struct parent *parent, int signal)
{
	if (signal == SIGCHLD) {
		reap(parent);
		return;
	}
	read_reports(parent);
	if (signal == SIGHUP || signal == SIGUSR2) {
		(void)kill(parent->current, signal);
		return;
	}
	if (!parent->is_ending)
		(void)weir__notify("STOPPING=1\n");
	parent->is_ending = true;
	signal_all(parent, signal);
}

static void watch(struct parent *parent)
{
	while (!parent->is_over || parent->n > 0) {
		struct pollfd files[] = { { .fd = parent->signals, .events = POLLIN },
					  { .fd = parent->reports, .events = POLLIN } };
		struct signalfd_siginfo info;

		(void)poll(files, 2, -1);
		read_reports(parent);
		while (read(parent->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
			take_signal(parent, (int)info.ssi_signo);
	}
}

static sigset_t forwarded(void)
{
	static const int signals[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR2, SIGCHLD };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		sigaddset(&set, signals[i]);
	return set;
}

/* Returns an errno if this process cannot become a parent. */
static int begin(struct parent *parent, int ends[2], sigset_t *ret_before)
{
	const sigset_t signals = forwarded();

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
		return errno;
	parent->reports = ends[0];
	(void)sigprocmask(SIG_BLOCK, &signals, ret_before); /* before the fork, so that no signal is lost */
	parent->signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (parent->signals >= 0) {
		(void)prctl(PR_SET_CHILD_SUBREAPER, 1L, 0L, 0L,
			    0L); /* servers that others have started are reaped here */
		parent->current = fork();
		if (parent->current >= 0)
			return 0;
		(void)close(parent->signals);
	}
	return errno;
}

bool weir__parent_run(struct weir__settings *settings, int *ret_pipe, int *ret_status)
{
	static struct parent parent;
	sigset_t before;
	int ends[2] = { -1, -1 }, error;

	if (!weir__pid_file_begin(settings)) {
		*ret_status = FAILED;
		return true;
	}
	parent = (struct parent){ .status = FAILED };
	error = begin(&parent, ends, &before);
	if (error != 0) {
		fprintf(settings->errors, "weir serve: keep_pid: %s: the process id changes with an upgrade\n",
			strerror(error));
		*ret_pipe = -1;
		return false;
	}
	if (parent.current == 0) {
		(void)close(parent.signals);
		(void)close(ends[0]);
		(void)sigprocmask(SIG_SETMASK, &before, NULL);
		(void)unsetenv("NOTIFY_SOCKET"); /* the parent tells */
		*ret_pipe = ends[1];
		return false;
	}
	/* ends[1] stays open: without a writer, poll would not wait. */
	add(&parent, parent.current);
	(void)signal(SIGUSR1, SIG_IGN);
	(void)signal(SIGPIPE, SIG_IGN);
	watch(&parent);
	weir__pid_file_end(settings);
	*ret_status = parent.status;
	return true;
}

void weir__parent_report(int pipe)
{
	const pid_t self = getpid();

	if (pipe >= 0)
		(void)!write(pipe, &self, sizeof(self));
}
