/* bench_load.c: a closed loop. Each connection sends a pipeline, and the next one when all replies to it have arrived.
 * No request queues behind a late one, so the latency is what a client that works the same way sees, not the latency at
 * a fixed request rate. */
#include "cli/bench_load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "os/loop.h"
#include "os/monotonic.h"
#include "os/net.h"
#include "wire/resp.h"

enum {
	KEY_DIGITS = 12,
	REQUEST_MAX = 512,
	AUTH_WORD_MAX = 1024, /* bytes of the user or password in AUTH */
	IN_SIZE = 32 * 1024,  /* a reply has a few hundred bytes at most */
	TOKENS_MAX = 64,
	CONNECT_MS = 10000,
};

struct connection {
	struct weir__stream stream; /* its socket is -1 while it is not open */
	uint32_t awaited;
	bool is_writing;
	uint64_t sent_at;
	size_t sent; /* bytes of `out` that are sent */
	size_t n;    /* bytes in `in` */
	struct weir__resp_reply reply;
	struct weir__resp_token tokens[TOKENS_MAX];
	char *out; /* a pipeline */
	char in[IN_SIZE];
};

struct load {
	const struct weir__bench_plan *plan;
	struct weir__bench_result *result;
	struct weir__loop loop;
	struct connection **connections;
	struct weir__tls_context *tls; /* NULL: plain */
	uint64_t random;
	uint64_t now;
	char request[REQUEST_MAX];
	size_t request_size;
	size_t key_at; /* offset of the key's digits in a request; 0: the request has no key */
};

static bool fail(struct load *load, const char *what, int error)
{
	(void)snprintf(load->result->why, sizeof(load->result->why), "%.100s: %.120s%s", load->plan->at, what,
		       error ? strerror(error) : "");
	return false;
}

/* --- requests --------------------------------------------------------------------------------------------------- */

static void make_request(struct load *load)
{
	struct weir__resp_writer writer = { .bytes = load->request, .size = REQUEST_MAX, .resp_version = 2 };
	const char *const *const words = load->plan->words;
	size_t n = 0;

	while (words[n])
		n++;
	weir__resp_write_array(&writer, n);
	for (size_t i = 0; i < n; i++) {
		weir__resp_write_bulk(&writer, words[i], strlen(words[i]));
		if (strcmp(words[i], WEIR__BENCH_KEY) == 0)
			load->key_at = writer.length - strlen("\r\n") - KEY_DIGITS;
	}
	load->request_size = writer.length;
}

/* xorshift64*, with a fixed seed: every run uses the same sequence of keys. */
static uint64_t next_key(struct load *load)
{
	load->random ^= load->random >> 12;
	load->random ^= load->random << 25;
	load->random ^= load->random >> 27;
	return (load->random * UINT64_C(0x2545f4914f6cdd1d) >> 16) % load->plan->keys;
}

static void write_key(char digits[KEY_DIGITS], uint64_t key)
{
	for (int i = KEY_DIGITS - 1; i >= 0; i--, key /= 10)
		digits[i] = (char)('0' + key % 10);
}

static bool send_rest(struct load *load, struct connection *connection)
{
	const size_t size = load->plan->pipeline * load->request_size;

	while (connection->sent < size) {
		const ssize_t n = weir__stream_write(&connection->stream, connection->out + connection->sent,
						     size - connection->sent);

		if (n == -EAGAIN)
			break;
		if (n < 0 && n != -EINTR)
			return fail(load, "a connection was lost: ", (int)-n);
		connection->sent += n > 0 ? (size_t)n : 0;
	}
	if (connection->is_writing != (connection->sent < size)) {
		connection->is_writing = connection->sent < size;
		(void)weir__loop_change(&load->loop, connection->stream.socket, connection, true,
					connection->is_writing);
	}
	return true;
}

static bool send_pipeline(struct load *load, struct connection *connection)
{
	if (load->key_at > 0)
		for (uint32_t i = 0; i < load->plan->pipeline; i++)
			write_key(connection->out + i * load->request_size + load->key_at, next_key(load));
	connection->awaited = load->plan->pipeline;
	connection->sent = 0;
	connection->sent_at = load->now;
	return send_rest(load, connection);
}

/* --- replies ---------------------------------------------------------------------------------------------------- */

static void note_answer(struct load *load, const struct connection *connection)
{
	const struct weir__resp_token *const answer = &connection->tokens[0];
	struct weir__bench_result *const result = load->result;

	result->answers++;
	weir__histogram_add(&result->latency_ns, load->now - connection->sent_at);
	if (answer->type != WEIR__RESP_ERROR)
		return;
	if (result->errors++ == 0)
		(void)snprintf(result->first_error, sizeof(result->first_error), "%.*s", (int)answer->text.length,
			       answer->text.bytes);
}

static bool read_answers(struct load *load, struct connection *connection)
{
	size_t at = 0;

	while (at < connection->n) {
		size_t used;
		const enum weir__resp_status status = weir__resp_reply_read(&connection->reply, connection->in + at,
									    connection->n - at, &used);

		if (status == WEIR__RESP_MORE)
			break;
		if (status == WEIR__RESP_BAD)
			return fail(load, "the server does not speak RESP", 0);
		if (connection->awaited == 0)
			return fail(load, "the server sent more replies than requests", 0);
		note_answer(load, connection);
		connection->awaited--;
		at += used;
	}
	memmove(connection->in, connection->in + at, connection->n - at);
	connection->n -= at;
	return true;
}

static ssize_t read_some(struct connection *connection, char *bytes, size_t room)
{
	if (room == 0)
		return -EMSGSIZE;
	return connection->stream.tls ? weir__tls_read_all(connection->stream.tls, bytes, room) :
					weir__net_read(connection->stream.socket, bytes, room);
}

static bool receive_once(struct load *load, struct connection *connection)
{
	const ssize_t n = read_some(connection, connection->in + connection->n, IN_SIZE - connection->n);

	if (n == -EAGAIN || n == -EINTR)
		return true;
	if (n == 0)
		return fail(load, "the server closed a connection", 0);
	if (n == -EPROTO && connection->stream.tls)
		return fail(load, weir__tls_why(connection->stream.tls), 0);
	if (n < 0)
		return fail(load, "a connection was lost: ", (int)-n);
	load->now = weir__monotonic_ns();
	connection->n += (size_t)n;
	if (!read_answers(load, connection))
		return false;
	return connection->awaited > 0 || send_pipeline(load, connection);
}

/* With TLS, bytes may have left the socket without having been returned. */
static bool receive(struct load *load, struct connection *connection)
{
	bool is_good;

	do
		is_good = receive_once(load, connection);
	while (is_good && connection->stream.tls && !weir__tls_is_drained(connection->stream.tls));
	return is_good;
}

/* --- connections ------------------------------------------------------------------------------------------------ */

/* The socket still blocks here, for at most CONNECT_MS. */
static bool write_all(struct load *load, struct connection *connection, const char *bytes, size_t size)
{
	for (size_t sent = 0; sent < size;) {
		const ssize_t n = weir__stream_write(&connection->stream, bytes + sent, size - sent);

		if (n < 0 && n != -EINTR)
			return fail(load, "a connection was lost: ", (int)-n);
		sent += n > 0 ? (size_t)n : 0;
	}
	return true;
}

static bool read_line(struct load *load, struct connection *connection, char line[WEIR__BENCH_TEXT_SIZE])
{
	size_t used = 0;

	while (used < WEIR__BENCH_TEXT_SIZE - 1 && (used == 0 || line[used - 1] != '\n')) {
		const ssize_t n = weir__stream_read(&connection->stream, line + used, 1);

		if (n == 0)
			return fail(load, "the server closed a connection", 0);
		if (n < 0 && n != -EINTR)
			return fail(load, "no reply to AUTH: ", (int)-n);
		used += n > 0 ? (size_t)n : 0;
	}
	line[used] = '\0';
	line[strcspn(line, "\r\n")] = '\0';
	return true;
}

static bool say_who(struct load *load, struct connection *connection)
{
	const char *const user = load->plan->user, *const password = load->plan->password;
	char bytes[REQUEST_MAX + 2 * AUTH_WORD_MAX], line[WEIR__BENCH_TEXT_SIZE];
	struct weir__resp_writer writer = { .bytes = bytes, .size = sizeof(bytes), .resp_version = 2 };

	if (password == NULL)
		return true;
	weir__resp_write_array(&writer, user ? 3 : 2);
	weir__resp_write_bulk(&writer, "AUTH", 4);
	if (user)
		weir__resp_write_bulk(&writer, user, strlen(user));
	weir__resp_write_bulk(&writer, password, strlen(password));
	if (writer.length > sizeof(bytes))
		return fail(load, "a user has at most 1024 bytes", 0);
	if (!write_all(load, connection, bytes, writer.length) || !read_line(load, connection, line))
		return false;
	return strcmp(line, "+OK") == 0 || fail(load, line[0] == '-' ? line + 1 : line, 0);
}

static bool open_connection(struct load *load, struct connection *connection)
{
	char why[WEIR__TLS_WHY_SIZE] = "";
	int error = weir__stream_open(&connection->stream, load->plan->at, load->tls, CONNECT_MS, why);

	if (error != 0)
		connection->stream.socket = -1;
	if (error == EPROTO)
		return fail(load, why, 0);
	if (error == ECONNREFUSED || error == ENOENT)
		return fail(load, "no server at this address: start one with `weir serve`", 0);
	if (error == EINVAL)
		return fail(load,
			    "invalid address; use HOST:PORT, tls://HOST:PORT, or the path of a socket, with a slash",
			    0);
	if (error == 0 && !say_who(load, connection))
		return false;
	if (error == 0)
		error = weir__net_unblock(connection->stream.socket);
	if (error == 0)
		error = weir__loop_add(&load->loop, connection->stream.socket, connection);
	if (error != 0)
		return fail(load, "", error);
	return true;
}

static bool add_connection(struct load *load, uint32_t place)
{
	struct connection *const connection = calloc(1, sizeof(*connection));

	if (connection == NULL)
		return fail(load, "", ENOMEM);
	load->connections[place] = connection;
	connection->stream.socket = -1;
	connection->reply = (struct weir__resp_reply){ .tokens = connection->tokens,
						       .tokens_max = TOKENS_MAX,
						       .depth_max = 4,
						       .line_max = IN_SIZE / 2,
						       .bulk_max = IN_SIZE / 2 };
	weir__resp_reply_init(&connection->reply);
	connection->out = malloc(load->plan->pipeline * load->request_size);
	if (connection->out == NULL)
		return fail(load, "", ENOMEM);
	for (uint32_t i = 0; i < load->plan->pipeline; i++)
		memcpy(connection->out + i * load->request_size, load->request, load->request_size);
	return open_connection(load, connection);
}

static void close_all(struct load *load)
{
	for (uint32_t i = 0; i < load->plan->connections && load->connections[i]; i++) {
		if (load->connections[i]->stream.socket >= 0)
			weir__stream_close(&load->connections[i]->stream);
		free(load->connections[i]->out);
		free(load->connections[i]);
	}
}

/* --- run -------------------------------------------------------------------------------------------------------- */

static bool run(struct load *load)
{
	struct weir__loop_event events[WEIR__LOOP_EVENTS];
	const uint64_t start = weir__monotonic_ns(), end = start + (uint64_t)load->plan->seconds * 1000000000;
	bool is_good = true;

	load->now = start;
	for (uint32_t i = 0; is_good && i < load->plan->connections; i++)
		is_good = send_pipeline(load, load->connections[i]);
	while (is_good && load->now < end) {
		const int n = weir__loop_wait(&load->loop, (int)((end - load->now) / 1000000 + 1), events);

		for (int i = 0; is_good && i < n; i++) {
			if (events[i].can_write)
				is_good = send_rest(load, events[i].what);
			if (is_good && events[i].can_read)
				is_good = receive(load, events[i].what);
		}
		load->now = weir__monotonic_ns();
	}
	load->result->elapsed_ns = load->now - start;
	if (is_good && load->result->answers == 0)
		return fail(load, "no reply in all that time", 0);
	return is_good;
}

bool weir__bench_load(const struct weir__bench_plan *plan, struct weir__bench_result *ret_result)
{
	struct load load = { .plan = plan, .result = ret_result, .random = UINT64_C(0x9e3779b97f4a7c15) };
	bool is_good;
	int error;

	char why[WEIR__TLS_WHY_SIZE];

	make_request(&load);
	if (weir__stream_context(plan->at, &plan->files, &load.tls, why) != 0)
		return fail(&load, why, 0);
	error = weir__loop_init(&load.loop);
	if (error != 0) {
		weir__tls_context_free(load.tls);
		return fail(&load, "", error);
	}
	load.connections = calloc(plan->connections, sizeof(struct connection *));
	is_good = load.connections != NULL || fail(&load, "", ENOMEM);
	for (uint32_t i = 0; is_good && i < plan->connections; i++)
		is_good = add_connection(&load, i);
	is_good = is_good && run(&load);
	if (load.connections)
		close_all(&load);
	free(load.connections);
	weir__tls_context_free(load.tls);
	weir__loop_close(&load.loop);
	return is_good;
}
