/* hiredis.c: runs the requests of clients_test.py through hiredis, line by line. */
#include <hiredis/hiredis.h>

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

enum { WORDS_MAX = 64, LINE_MAX_BYTES = 1 << 20 };

struct words {
	int n;
	const char *at[WORDS_MAX];
	size_t lengths[WORDS_MAX];
};

static void die(const char *why)
{
	fprintf(stderr, "hiredis: %s\n", why);
	exit(1);
}

static unsigned digit(char letter)
{
	return (unsigned)(letter <= '9' ? letter - '0' : letter - 'a' + 10);
}

/* Decodes the hexadecimal words of a line, except the first, in place. */
static void read_words(char *line, struct words *words)
{
	char *at = strchr(line, ' ');

	for (words->n = 0; at && *at == ' '; words->n++) {
		char *to = ++at;

		if (words->n == WORDS_MAX)
			die("too many words");
		words->at[words->n] = to;
		for (; *at && *at != ' ' && *at != '\n'; at += 2)
			*to++ = (char)(digit(at[0]) << 4 | digit(at[1]));
		words->lengths[words->n] = (size_t)(to - words->at[words->n]);
	}
}

static void show_bytes(char mark, const redisReply *reply)
{
	putchar(mark);
	for (size_t i = 0; i < (size_t)reply->len; i++)
		printf("%02x", (unsigned char)reply->str[i]);
}

static void show(const redisReply *reply)
{
	switch (reply->type) {
	case REDIS_REPLY_ERROR:
		show_bytes('-', reply);
		break;
	case REDIS_REPLY_INTEGER:
		printf(":%lld", reply->integer);
		break;
	case REDIS_REPLY_NIL:
		putchar('_');
		break;
	case REDIS_REPLY_ARRAY:
		printf("*%zu", (size_t)reply->elements);
		for (size_t i = 0; i < (size_t)reply->elements; i++) {
			putchar(' ');
			show(reply->element[i]);
		}
		break;
	default:
		show_bytes('$', reply);
	}
}

static void show_answer(const redisContext *context, redisReply *reply)
{
	if (reply)
		show(reply);
	else
		printf("!%s", context->errstr);
	putchar('\n');
	freeReplyObject(reply);
}

static redisContext *open_context(char *where)
{
	const struct timeval timeout = { .tv_sec = 60 };
	char *const colon = strrchr(where, ':');
	redisContext *context;

	if (strchr(where, '/')) {
		context = redisConnectUnixWithTimeout(where, timeout);
	} else {
		*colon = '\0';
		context = redisConnectWithTimeout(where, atoi(colon + 1), timeout);
	}
	if (context == NULL || context->err)
		die(context ? context->errstr : "no memory");
	return context;
}

/* Sends AUTH and HELLO, because hiredis does not. */
static bool introduce(redisContext *context, const char *name, const char *password)
{
	redisReply *reply;
	bool is_well;

	if (password) {
		const char *const colon = strchr(password, ':');

		reply = redisCommand(context, "AUTH %b %s", password, (size_t)(colon - password), colon + 1);
		if (reply == NULL || reply->type == REDIS_REPLY_ERROR) {
			freeReplyObject(reply);
			return false;
		}
		freeReplyObject(reply);
	}
	reply = redisCommand(context, "CLIENT SETNAME %s", name);
	is_well = reply && reply->type == REDIS_REPLY_STATUS;
	freeReplyObject(reply);
	return is_well;
}

static void call(redisContext *context, char *line)
{
	struct words words;

	read_words(line, &words);
	show_answer(context, redisCommandArgv(context, words.n, words.at, words.lengths));
}

static void call_together(redisContext *context, char *line, int count)
{
	struct words words;

	for (int i = 0; i < count; i++) {
		if (fgets(line, LINE_MAX_BYTES, stdin) == NULL)
			die("a line is missing");
		read_words(line, &words);
		if (redisAppendCommandArgv(context, words.n, words.at, words.lengths) != REDIS_OK)
			die(context->errstr);
	}
	for (int i = 0; i < count; i++) {
		void *reply = NULL;

		(void)redisGetReply(context, &reply);
		show_answer(context, reply);
	}
}

int main(int argc, char **argv)
{
	static char line[LINE_MAX_BYTES];
	const char *const password = argc > 3 ? argv[3] : NULL;
	redisContext *context;

	if (argc < 3)
		die("usage: hiredis WHERE NAME [USER:PASSWORD]");
	(void)signal(SIGPIPE, SIG_IGN); /* hiredis asks programs to do this: it may write to closed sockets */
	context = open_context(argv[1]);
	if (!introduce(context, argv[2], password))
		die("was not let in");
	while (fgets(line, sizeof(line), stdin)) {
		if (context->err && (redisReconnect(context) != REDIS_OK || !introduce(context, argv[2], password)))
			printf("!%s\n", context->errstr);
		else if (strncmp(line, "pipeline ", 9) == 0)
			call_together(context, line, atoi(line + 9));
		else
			call(context, line);
		(void)fflush(stdout);
	}
	redisFree(context);
	return 0;
}
