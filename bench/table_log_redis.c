/* table_log_redis.c: the same work as table_log.c, by a Redis server with a sorted set for each key. Prints one line of
 * JSON. bench/table_log.py starts the server and runs this program.
 *
 *     table_log_redis fill OPTION...     fills an empty server with the logs after the warm-up of log_load.h
 *     table_log_redis ask OPTION...      waits for the reply to each request before it sends the next
 *     table_log_redis pipeline OPTION... sends TOGETHER requests at once, and the next as many before it reads the
 *                                        replies: the server always has something to do
 *
 *     --socket PATH   of the server
 *     --keys N        (100000), must be the same for all runs on a server
 *     --seconds S, --count N: see workers.h
 *
 * The warm-up is computed here and sent as one command for each key. Sent as requests, it would take minutes and have
 * the same result. The server stores the number of requests, so that each run continues where the last one ended. */
#include <weir/clock.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "log_load.h"
#include "workers.h"

enum {
	TOGETHER = 32,
	BATCH = 128 * TOGETHER,
	REQUEST_ROOM = 256,
	REPLY = 4, /* ":1\r\n" or ":0\r\n" */
};

/* The usual script. Scores are microseconds, which a double holds exactly. Members are the same number, because no two
 * requests have the same microsecond. A real program expires keys after the window. By Redis's own clock they would
 * expire before the last round, so they get an hour, at the same cost. */
#define EXPIRE_MS "3600000"
#define SCRIPT                                                                                                         \
	"redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', tonumber(ARGV[1]) - ARGV[2]) "                                \
	"if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end "                                      \
	"redis.call('ZADD', KEYS[1], ARGV[1], ARGV[1]) "                                                               \
	"redis.call('PEXPIRE', KEYS[1], " EXPIRE_MS ") "                                                               \
	"return 1"

#define START_US UINT64_C(1700000000000000) /* sixteen digits, as the current time */

struct subject {
	struct log_load load;
	int server;
	FILE *replies; /* the same socket, outside the measurement; its buffer is empty between commands */
	char request[REQUEST_ROOM];
	size_t request_length, key_at, now_at;
};

/* --- the server --------------------------------------------------------------------------------------------------- */

static void send_all(int server, const char *bytes, size_t n)
{
	while (n > 0) {
		const ssize_t sent = write(server, bytes, n);

		if (sent < 0)
			err(1, "redis");
		bytes += sent;
		n -= (size_t)sent;
	}
}

/* Replies to requests, all of the same length; returns how many are 1. */
static uint64_t read_answers(int server, size_t n)
{
	char replies[TOGETHER * REPLY];
	uint64_t allowed = 0;
	size_t have = 0;

	while (have < n * REPLY) {
		const ssize_t got = read(server, replies + have, n * REPLY - have);

		if (got <= 0)
			errx(1, "redis: no reply");
		have += (size_t)got;
		if (replies[0] != ':')
			errx(1, "redis: %.*s", (int)have, replies);
	}
	for (size_t i = 0; i < n; i++)
		allowed += replies[i * REPLY + 1] == '1';
	return allowed;
}

/* Outside the measurement: reads a line or a bulk string. */
static void read_reply(const struct subject *subject, char *ret_text, size_t room)
{
	unsigned long length;

	if (!fgets(ret_text, (int)room, subject->replies))
		errx(1, "redis: no reply");
	if (ret_text[0] == '-')
		errx(1, "redis: %s", ret_text);
	if (sscanf(ret_text, "$%lu", &length) == 1) {
		if (length + 2 > room || fread(ret_text, 1, length + 2, subject->replies) != length + 2)
			errx(1, "redis: a reply of %lu bytes", length);
		ret_text[length] = '\0';
	}
}

/* Words are NUL-ended, the last is NULL. */
static void command(const struct subject *subject, char *ret_text, size_t room, ...)
{
	char text[2048];
	va_list words;
	int count = 0, length;

	va_start(words, room);
	while (va_arg(words, const char *))
		count++;
	va_end(words);
	length = snprintf(text, sizeof(text), "*%d\r\n", count);
	va_start(words, room);
	for (int i = 0; i < count; i++) {
		const char *const word = va_arg(words, const char *);

		length += snprintf(text + length, sizeof(text) - (size_t)length, "$%zu\r\n%s\r\n", strlen(word), word);
	}
	va_end(words);
	send_all(subject->server, text, (size_t)length);
	read_reply(subject, ret_text, room);
}

static int connect_to(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(address.sun_path))
		errx(2, "%s: too long", path);
	memcpy(address.sun_path, path, strlen(path));
	if (server < 0 || connect(server, (struct sockaddr *)&address, sizeof(address)) != 0)
		err(1, "%s", path);
	return server;
}

/* Resident memory of the server, in bytes. */
static double server_bytes(const struct subject *subject)
{
	char text[8192], *found;

	command(subject, text, sizeof(text), "INFO", "memory", NULL);
	found = strstr(text, "used_memory_rss:");
	if (!found)
		errx(1, "redis: INFO has no used_memory_rss");
	return strtod(found + strlen("used_memory_rss:"), NULL);
}

/* --- requests ----------------------------------------------------------------------------------------------------- */

/* Sixteen digits. */
static void write_us(char *text, uint64_t us)
{
	char digits[KEY_ROOM];

	keys_write(digits, (uint32_t)(us / 100000000));
	memcpy(text, digits + KEY_PREFIX, 8);
	keys_write(digits, (uint32_t)(us % 100000000));
	memcpy(text + 8, digits + KEY_PREFIX, 8);
}

/* Prepares the request. Only the key and the time change later. */
static void prepare_request(struct subject *subject)
{
	char sha[64];

	command(subject, sha, sizeof(sha), "SCRIPT", "LOAD", SCRIPT, NULL);
	subject->request_length = (size_t)snprintf(
		subject->request, REQUEST_ROOM,
		"*7\r\n$7\r\nEVALSHA\r\n$40\r\n%s\r\n$1\r\n1\r\n$13\r\nuser:00000000\r\n$16\r\n@000000000000000\r\n"
		"$8\r\n60000000\r\n$3\r\n%d\r\n",
		sha, LOG_LIMIT);
	subject->key_at = (size_t)(strstr(subject->request, "user:") - subject->request);
	subject->now_at = (size_t)(strchr(subject->request, '@') - subject->request);
}

static void send_requests(struct subject *subject, size_t n)
{
	char text[TOGETHER * REQUEST_ROOM], *at = text;

	for (size_t i = 0; i < n; i++, at += subject->request_length, subject->load.n++) {
		memcpy(at, subject->request, subject->request_length);
		keys_write(at + subject->key_at, keys_next(&subject->load.order, subject->load.keys));
		write_us(at + subject->now_at,
			 START_US + log_load_ns(&subject->load, 0) / 1000 + (weir_clock_now() & 1));
	}
	send_all(subject->server, text, (size_t)(at - text));
}

static uint64_t batch_ask(const void *subject_, size_t thread)
{
	struct subject *const subject = *(struct subject *const *)subject_;
	uint64_t allowed = 0;

	(void)thread;
	for (size_t i = 0; i < BATCH; i++) {
		send_requests(subject, 1);
		allowed += read_answers(subject->server, 1);
	}
	return allowed;
}

static uint64_t batch_pipeline(const void *subject_, size_t thread)
{
	struct subject *const subject = *(struct subject *const *)subject_;
	uint64_t allowed = 0;

	(void)thread;
	send_requests(subject, TOGETHER);
	for (size_t i = TOGETHER; i < BATCH; i += TOGETHER) {
		send_requests(subject, TOGETHER);
		allowed += read_answers(subject->server, TOGETHER);
	}
	return allowed + read_answers(subject->server, TOGETHER);
}

/* --- preparation -------------------------------------------------------------------------------------------------- */

struct log {
	uint64_t us[LOG_LIMIT]; /* a ring */
	uint32_t first, n;
};

static bool ask_log(void *logs, uint32_t number, uint64_t since_first_ns)
{
	struct log *const log = (struct log *)logs + number;
	const uint64_t us = since_first_ns / 1000;

	for (; log->n > 0 && log->us[log->first] + LOG_WINDOW_NS / 1000 <= us; log->n--)
		log->first = (log->first + 1) % LOG_LIMIT;
	if (log->n == LOG_LIMIT)
		return false;
	log->us[(log->first + log->n++) % LOG_LIMIT] = us;
	return true;
}

/* Sends the log as a sorted set, with its expiry. */
static void send_log(const struct subject *subject, uint32_t number, const struct log *log)
{
	char text[LOG_LIMIT * 48 + 256], key[KEY_ROOM] = "user:";
	int length;

	keys_write(key, number);
	length = sprintf(text, "*%" PRIu32 "\r\n$4\r\nZADD\r\n$13\r\n%.*s\r\n", 2 + 2 * log->n, KEY_LENGTH, key);
	for (uint32_t i = 0; i < log->n; i++) {
		const uint64_t us = START_US + log->us[(log->first + i) % LOG_LIMIT];

		length += sprintf(text + length, "$16\r\n%" PRIu64 "\r\n$16\r\n%" PRIu64 "\r\n", us, us);
	}
	length += sprintf(text + length, "*3\r\n$7\r\nPEXPIRE\r\n$13\r\n%.*s\r\n$%zu\r\n" EXPIRE_MS "\r\n", KEY_LENGTH,
			  key, strlen(EXPIRE_MS));
	send_all(subject->server, text, (size_t)length);
}

static void send_logs(const struct subject *subject, const struct log *logs)
{
	char reply[128];

	for (uint32_t first = 0; first < subject->load.keys; first += TOGETHER) {
		const uint32_t left = subject->load.keys - first, n = left < TOGETHER ? left : TOGETHER;

		for (uint32_t i = 0; i < n; i++)
			send_log(subject, first + i, &logs[first + i]);
		for (uint32_t i = 0; i < n; i++) {
			read_reply(subject, reply, sizeof(reply));
			if (strtoul(reply + 1, NULL, 10) != logs[first + i].n)
				errx(1, "redis: of %" PRIu32 " events it took %s", logs[first + i].n, reply);
			read_reply(subject, reply, sizeof(reply));
		}
	}
}

static void remember(const struct subject *subject)
{
	char text[32], reply[64];

	snprintf(text, sizeof(text), "%" PRIu64, subject->load.n);
	command(subject, reply, sizeof(reply), "SET", "requests", text, NULL);
}

static void fill(struct subject *subject)
{
	struct log *const logs = calloc(subject->load.keys, sizeof(*logs));
	const double before = server_bytes(subject);
	uint64_t events;

	if (!logs)
		err(1, "logs");
	events = log_load_warm_up(&subject->load, ask_log, logs);
	send_logs(subject, logs);
	free(logs);
	remember(subject);
	printf("{\"events\": %" PRIu64 ", \"bytes_per_event\": %.3f}\n", events,
	       (server_bytes(subject) - before) / (double)events);
}

/* Continues after the last run. Each run draws keys in a different order. */
static void go_on(struct subject *subject)
{
	char text[64];

	command(subject, text, sizeof(text), "GET", "requests", NULL);
	subject->load.n = strtoull(text, NULL, 10);
	subject->load.order = keys_order_of(subject->load.n, NULL);
	if (subject->load.n < LOG_WARM_UP_MINUTES * log_load_minute(&subject->load))
		errx(2, "the server is empty: run fill first");
}

int main(int argc, char **argv)
{
	static struct subject subject;
	struct subject *const subject_ = &subject;
	struct work work = { .subject = &subject_, .each = BATCH, .is_mixed = true, .seconds = 0.5, .threads = 1 };
	const char *const mode = argc > 1 ? argv[1] : "", *path = NULL;
	uint32_t keys = 100000;

	if (strcmp(mode, "ask") == 0)
		work.batch = batch_ask;
	else if (strcmp(mode, "pipeline") == 0)
		work.batch = batch_pipeline;
	else if (strcmp(mode, "fill") != 0)
		errx(2, "usage: table_log_redis fill|ask|pipeline --socket PATH [--keys N] [--seconds S | --count N]");
	for (int i = 2; i < argc; i += 2) {
		if (i + 1 == argc)
			errx(2, "%s: missing value", argv[i]);
		else if (strcmp(argv[i], "--socket") == 0)
			path = argv[i + 1];
		else if (strcmp(argv[i], "--keys") == 0)
			keys = (uint32_t)strtoul(argv[i + 1], NULL, 10);
		else if (!work_option(&work, argv[i], argv[i + 1]))
			errx(2, "unknown option: %s", argv[i]);
	}
	work_check(&work);
	if (!path || work.threads != 1)
		errx(2, "--socket is missing, or --threads is not 1");
	subject.load = log_load_of(keys);
	subject.server = connect_to(path);
	subject.replies = fdopen(subject.server, "r");
	if (!subject.replies)
		err(1, "redis");
	if (!work.batch) {
		fill(&subject);
	} else {
		go_on(&subject);
		prepare_request(&subject);
		work_measure(&work, "");
		remember(&subject);
	}
	fclose(subject.replies);
	return 0;
}
