/* redis_server.h: a Redis for one test, on a socket in a temporary folder, and one connection to it. It stores nothing
 * on disk and ends with the test. Any error ends the test. */
#ifndef WEIR_TESTS_REDIS_SERVER_H
#define WEIR_TESTS_REDIS_SERVER_H

#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test_folder.h"
#include "wire/resp.h"

enum {
	REDIS_START_MS = 30000,
	REDIS_PAUSE_NS = 5000000,
	REDIS_TOKENS = 64,
	REDIS_OUT = 1 << 20,
	REDIS_IN = 1 << 24,
};

struct redis_server {
	pid_t pid;
	char folder[TEST_FOLDER_SIZE], path[TEST_FOLDER_SIZE + 16];
	int connection;
	size_t used;                   /* bytes of the last reply, at the beginning of `in` */
	size_t filled;                 /* bytes of `in` */
	struct weir__resp_writer out;  /* of the command in the making */
	struct weir__resp_reply reply; /* the last one; its texts are valid until the next */
	struct weir__resp_token tokens[REDIS_TOKENS];
	char *in;
};

/* redis-tools has the server under the name of one of its tools. The package redis-server would start a service. */
static inline void redis_server_become(const struct redis_server *server, pid_t parent)
{
	char log[TEST_FOLDER_SIZE + 16];

	(void)snprintf(log, sizeof(log), "%s/log", server->folder);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
		_exit(1);
	execlp("redis-check-rdb", "redis-server", "--port", "0", "--unixsocket", server->path, "--dir", server->folder,
	       "--save", "", "--appendonly", "no", "--logfile", log, (char *)NULL);
	_exit(127);
}

static inline bool redis_server_connect(struct redis_server *server)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	memcpy(address.sun_path, server->path, sizeof(server->path));
	server->connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (server->connection < 0)
		err(1, "socket");
	if (connect(server->connection, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return true;
	close(server->connection);
	return false;
}

static inline void redis_server_begin(struct redis_server *server)
{
	server->out.length = 0;
}

static inline void redis_server_send(struct redis_server *server)
{
	size_t sent = 0;

	if (server->out.length > server->out.size)
		errx(1, "a command of %zu bytes", server->out.length);
	while (sent < server->out.length) {
		const ssize_t n = write(server->connection, server->out.bytes + sent, server->out.length - sent);

		if (n < 0 && errno != EINTR)
			err(1, "write to Redis");
		sent += n > 0 ? (size_t)n : 0;
	}
	server->out.length = 0;
}

/* The next reply. */
static inline const struct weir__resp_token *redis_server_receive(struct redis_server *server)
{
	enum weir__resp_status status;

	memmove(server->in, server->in + server->used, server->filled - server->used);
	server->filled -= server->used;
	weir__resp_reply_init(&server->reply);
	/* Parses from the start until the reply is complete, because tokens point into the buffer. */
	while ((status = weir__resp_reply_read(&server->reply, server->in, server->filled, &server->used)) !=
	       WEIR__RESP_COMPLETE) {
		ssize_t n;

		if (status == WEIR__RESP_BAD || server->filled == REDIS_IN)
			errx(1, "Redis does not speak RESP");
		weir__resp_reply_init(&server->reply);
		n = read(server->connection, server->in + server->filled, REDIS_IN - server->filled);
		if (n == 0 || (n < 0 && errno != EINTR))
			err(1, "read from Redis");
		server->filled += n > 0 ? (size_t)n : 0;
	}
	return server->tokens;
}

/* Sends what was written and waits for the reply. */
static inline const struct weir__resp_token *redis_server_ask(struct redis_server *server)
{
	redis_server_send(server);
	return redis_server_receive(server);
}

/* Sends a command of words, up to a NULL. */
static inline const struct weir__resp_token *redis_server_command(struct redis_server *server, const char *const *words)
{
	size_t n = 0;

	while (words[n])
		n++;
	redis_server_begin(server);
	weir__resp_write_array(&server->out, n);
	for (size_t i = 0; i < n; i++)
		weir__resp_write_bulk(&server->out, words[i], strlen(words[i]));
	return redis_server_ask(server);
}

#define REDIS_COMMAND(server, ...) redis_server_command(server, (const char *const[]){ __VA_ARGS__, NULL })

static inline void redis_server_load(struct redis_server *server, const char *script, size_t length)
{
	const struct weir__resp_token *token;

	redis_server_begin(server);
	weir__resp_write_array(&server->out, 3);
	weir__resp_write_bulk(&server->out, "SCRIPT", strlen("SCRIPT"));
	weir__resp_write_bulk(&server->out, "LOAD", strlen("LOAD"));
	weir__resp_write_bulk(&server->out, script, length);
	token = redis_server_ask(server);
	if (token->type != WEIR__RESP_BULK)
		errx(1, "SCRIPT LOAD: %.*s", (int)token->text.length, token->text.bytes);
}

static inline void redis_server_start(struct redis_server *server)
{
	const struct timespec pause = { .tv_nsec = REDIS_PAUSE_NS };
	const pid_t parent = getpid();

	*server = (struct redis_server){ .in = malloc(REDIS_IN) };
	server->out = (struct weir__resp_writer){ .bytes = malloc(REDIS_OUT), .size = REDIS_OUT, .resp_version = 2 };
	if (server->in == NULL || server->out.bytes == NULL)
		err(1, "memory for the replies of Redis");
	test_folder_new(server->folder, "redis");
	server->reply = (struct weir__resp_reply){ .tokens = server->tokens,
						   .tokens_max = REDIS_TOKENS,
						   .depth_max = 2,
						   .line_max = WEIR__RESP_LINE_MAX,
						   .bulk_max = REDIS_IN };
	(void)snprintf(server->path, sizeof(server->path), "%s/socket", server->folder);
	server->pid = fork();
	if (server->pid < 0)
		err(1, "fork");
	if (server->pid == 0)
		redis_server_become(server, parent);
	for (int waited_ms = 0; !redis_server_connect(server); waited_ms += REDIS_PAUSE_NS / 1000000) {
		if (waited_ms > REDIS_START_MS || waitpid(server->pid, NULL, WNOHANG) != 0)
			errx(1, "no Redis came up in %s: install redis-tools", server->folder);
		nanosleep(&pause, NULL);
	}
}

static inline void redis_server_stop(struct redis_server *server)
{
	char log[TEST_FOLDER_SIZE + 16];

	(void)snprintf(log, sizeof(log), "%s/log", server->folder);
	close(server->connection);
	kill(server->pid, SIGKILL);
	waitpid(server->pid, NULL, 0);
	unlink(log);
	unlink(server->path);
	if (rmdir(server->folder) != 0)
		warn("%s", server->folder);
	free(server->in);
	free(server->out.bytes);
}

#endif
