/* record.c: `weir record` writes the decisions of a running server to a file, for weir replay. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/json.h"
#include "cli/link.h"
#include "cli/password.h"
#include "cli/recording.h"
#include "cli/stream.h"
#include "cli/words.h"
#include "os/monotonic.h"
#include "server/settings.h"
#include "wire/recording.h"

enum {
	DONE = 0,
	CALLED_WRONGLY = 2,
	FAILED = 3,
	GO_ON = -1,
	PATIENCE_MS = 10000,
	PAUSE_MS = 20, /* between reads when there is little to read */
	KEPT_MAX = 8,
	WORDS_MAX = 2 + 4 + 2 * KEPT_MAX,
	END_MOST = 64, /* bytes of the last frame */
	OWNER_ONLY = 0600,
};

static const uint64_t bytes_unless_set = UINT64_C(1) << 30, bytes_least = 64 << 10, ms_unless_set = 60000;

struct arguments {
	const char *at, *user, *password_file, *sample, *keys, *path, *kept[KEPT_MAX];
	uint64_t most_bytes, most_ms;
	size_t n_kept;
	struct weir__tls_files files;
	bool is_json, checks;
};

/* A recording that is being written. */
struct recording {
	struct arguments arguments;
	int file;
	uint64_t written, decisions, lost;
	bool is_full; /* most_bytes are written */
	size_t n;     /* bytes of frames that are not complete yet */
	unsigned char bytes[WEIR__RECORDING_FRAME_MOST + WEIR__LINK_BYTES];
};

static volatile sig_atomic_t is_interrupted;

static void interrupt(int number)
{
	(void)number;
	is_interrupted = 1;
}

/* --- arguments --------------------------------------------------------------------------------------------------- */

static int help(void)
{
	puts("usage: weir record FILE [OPTION...]\n"
	     "       weir record --check FILE [--json]\n\n"
	     "Writes the decisions of a running server to a new file, which weir replay reads. Needs the role admin.\n"
	     "Press Ctrl-C to end the recording early.\n\n"
	     "  --check               repeat the decisions of a recording, and compare. It needs no server\n"
	     "  --for DURATION        end after this time. Default: 1min\n"
	     "  --max-bytes SIZE      end when the file has this size, such as 64MiB. Default: 1GiB\n"
	     "  --sample N            record one in N keys, each with all its decisions. Default: 1, all keys\n"
	     "  --keys hashed|plain   hashed: replace keys and attributes by a hash, except method and path.\n"
	     "                        plain: record them as they are. Default: hashed\n"
	     "  --keep ATTRIBUTE      do not hash this attribute, for example plan. May be repeated, up to 8 times\n" WEIR__LINK_AT_HELP
		     WEIR__LINK_USER_HELP "  --json                output for programs\n"
	     "  --help                show this\n\n"
	     "Exit status: 0 recorded, or all decisions are the same; 1 some differ; 2 wrong usage; 3 the server or\n"
	     "the file failed. What was recorded until then is in the file and can be replayed.");
	return DONE;
}

static int complain(const char *word, const char *right)
{
	fputs("weir record: ", stderr);
	weir__words_quoted(stderr, word, strlen(word));
	fprintf(stderr, ": %s\n", right);
	return CALLED_WRONGLY;
}

static int read_number(enum weir__setting_kind kind, const char *text, uint64_t least, uint64_t most, const char *right,
		       uint64_t *ret_number)
{
	uint64_t number;

	if (!weir__settings_read_number(kind, text, strlen(text), &number) || number < least || number > most)
		return complain(text, right);
	*ret_number = number;
	return GO_ON;
}

static int keep_attribute(struct arguments *arguments, const char *name)
{
	if (arguments->n_kept == KEPT_MAX)
		return complain(name, "--keep is allowed 8 times");
	arguments->kept[arguments->n_kept++] = name;
	return GO_ON;
}

static int read_value(struct arguments *arguments, const char *option, const char *value)
{
	uint64_t number = 0;
	int code = GO_ON;

	if (strcmp(option, "--at") == 0) {
		arguments->at = value;
	} else if (strcmp(option, "--user") == 0) {
		arguments->user = value;
	} else if (strcmp(option, "--password-file") == 0) {
		arguments->password_file = value;
	} else if (strcmp(option, "--cacert") == 0) {
		arguments->files.ca = value;
	} else if (strcmp(option, "--cert") == 0) {
		arguments->files.certificate = value;
	} else if (strcmp(option, "--key") == 0) {
		arguments->files.key = value;
	} else if (strcmp(option, "--keep") == 0) {
		code = keep_attribute(arguments, value);
	} else if (strcmp(option, "--keys") == 0) {
		arguments->keys = value;
		if (strcmp(value, "plain") != 0 && strcmp(value, "hashed") != 0)
			code = complain(value, "--keys takes hashed or plain");
	} else if (strcmp(option, "--sample") == 0) {
		arguments->sample = value;
		code = read_number(WEIR__SETTING_COUNT, value, 1, 1000000, "--sample takes 1 to 1000000", &number);
	} else if (strcmp(option, "--max-bytes") == 0) {
		code = read_number(WEIR__SETTING_BYTES, value, bytes_least, UINT64_C(1) << 50,
				   "--max-bytes takes 64KiB to 1024TiB", &arguments->most_bytes);
	} else {
		code = read_number(WEIR__SETTING_DURATION, value, 1000000000, UINT64_C(7) * 86400 * 1000000000,
				   "--for takes 1s to 7day, such as 90s or 2hour", &number);
		if (code == GO_ON)
			arguments->most_ms = number / 1000000;
	}
	return code;
}

static int read_option(int argc, char **argv, int *i, struct arguments *arguments)
{
	static const char *const names[] = { "--at",   "--cacert",    "--cert",          "--for",    "--keep", "--key",
					     "--keys", "--max-bytes", "--password-file", "--sample", "--user" };
	struct weir__nearest nearest = weir__command_option_name(argv[*i]);
	const char *value;

	if (weir__command_is_help(argv[*i])) {
		(void)help();
		return DONE;
	}
	if (strcmp(argv[*i], "--json") == 0) {
		arguments->is_json = true;
		return GO_ON;
	}
	if (strcmp(argv[*i], "--check") == 0) {
		arguments->checks = true;
		return GO_ON;
	}
	for (size_t name = 0; name < sizeof(names) / sizeof(names[0]); name++) {
		if (!weir__command_is_option(argv[*i], names[name], &value)) {
			weir__nearest_offer(&nearest, names[name]);
			continue;
		}
		if (value == NULL && *i + 1 == argc) {
			fprintf(stderr, "weir record: %s needs a value; see weir record --help\n", names[name]);
			return CALLED_WRONGLY;
		}
		return read_value(arguments, names[name], value ? value : argv[++*i]);
	}
	weir__nearest_offer(&nearest, "--check");
	weir__nearest_offer(&nearest, "--json");
	weir__nearest_offer(&nearest, "--help");
	weir__command_refuse_option(&nearest, "weir record", "--help lists them");
	return CALLED_WRONGLY;
}

static int read_arguments(int argc, char **argv, struct arguments *arguments)
{
	for (int i = 1; i < argc; i++) {
		int code = GO_ON;

		if (argv[i][0] == '-' && argv[i][1] != '\0')
			code = read_option(argc, argv, &i, arguments);
		else if (arguments->path)
			code = complain(argv[i], "only one FILE is allowed");
		else
			arguments->path = argv[i];
		if (code != GO_ON)
			return code;
	}
	if (arguments->path)
		return GO_ON;
	fputs("weir record: FILE is missing; see weir record --help\n", stderr);
	return CALLED_WRONGLY;
}

/* --- the server -------------------------------------------------------------------------------------------------- */

static int fail(const char *why)
{
	fputs("weir record: ", stderr);
	weir__words_safe(stderr, why);
	putc('\n', stderr);
	return FAILED;
}

static struct weir__resp_slice slice_of(const char *text)
{
	return (struct weir__resp_slice){ text, strlen(text) };
}

/* Returns GO_ON, or the exit code after reporting what went wrong. */
static int ask(struct weir__link *link, const struct weir__resp_slice *words, size_t n)
{
	char text[WEIR__LINK_WHY_SIZE];

	if (weir__link_ask(link, words, n) != WEIR__LINK_OK)
		return fail(link->why);
	if (link->tokens[0].type != WEIR__RESP_ERROR)
		return GO_ON;
	(void)snprintf(text, sizeof(text), "the server replied: %.*s", (int)link->tokens[0].text.length,
		       link->tokens[0].text.bytes);
	return fail(text);
}

static int ask_about(struct weir__link *link, const char *what, const char *number)
{
	const struct weir__resp_slice words[] = { slice_of("WEIR.RECORD"), slice_of(what), slice_of(number) };

	return ask(link, words, sizeof(words) / sizeof(words[0]));
}

static int start(struct weir__link *link, const struct arguments *arguments, char number[24])
{
	struct weir__resp_slice words[WORDS_MAX] = { slice_of("WEIR.RECORD"), slice_of("START"), slice_of("KEYS"),
						     slice_of(arguments->keys ? arguments->keys : "hashed") };
	size_t n = 4;
	int code;

	if (arguments->sample) {
		words[n++] = slice_of("SAMPLE");
		words[n++] = slice_of(arguments->sample);
	}
	for (size_t i = 0; i < arguments->n_kept; i++) {
		words[n++] = slice_of("KEEP");
		words[n++] = slice_of(arguments->kept[i]);
	}
	code = ask(link, words, n);
	if (code == GO_ON)
		(void)snprintf(number, 24, "%" PRId64, link->tokens[0].number);
	return code;
}

/* --- the file ---------------------------------------------------------------------------------------------------- */

/* A recording never replaces a file: the old file would be lost even if the server refuses to record. */
static int open_file(struct recording *recording)
{
	const char *const path = recording->arguments.path;
	char why[512];

	recording->file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, OWNER_ONLY);
	if (recording->file >= 0)
		return GO_ON;
	(void)snprintf(why, sizeof(why), "%.300s: %s%s", path, strerror(errno),
		       errno == EEXIST ? "; remove it, or use another name" : "");
	return fail(why);
}

static int write_bytes(struct recording *recording, const void *bytes, size_t n)
{
	char why[512];

	for (size_t done = 0; done < n;) {
		const ssize_t wrote = write(recording->file, (const char *)bytes + done, n - done);

		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0) {
			(void)snprintf(why, sizeof(why), "%.300s: %s; the file is readable up to here",
				       recording->arguments.path, strerror(wrote < 0 ? errno : EIO));
			return fail(why);
		}
		done += (size_t)wrote;
	}
	recording->written += n;
	return GO_ON;
}

static void count(struct recording *recording, const struct weir__recording_frame *frame)
{
	if (frame->type == WEIR__RECORDING_DECISION && frame->decision.is_each)
		recording->decisions += frame->decision.n;
	else if (frame->type == WEIR__RECORDING_DECISION || frame->type == WEIR__RECORDING_UNMATCHED)
		recording->decisions++;
	else if (frame->type == WEIR__RECORDING_GAP)
		recording->lost += frame->gap.lost;
}

/* Writes complete frames while the file has room. There is always room for the last frame. */
static int write_frames(struct recording *recording)
{
	static struct weir__recording_frame frame; /* large */
	const uint64_t most = recording->arguments.most_bytes;
	size_t at = 0, end = 0;
	const char *fault;
	int code = GO_ON;
	size_t used;

	for (;;) {
		const enum weir__recording_status status = weir__recording_read(
			recording->bytes + at, recording->n - at, &frame, &used, &fault);

		if (status == WEIR__RECORDING_BAD)
			return fail(
				"the server sends a recording in another format; use the same version of weir as the server");
		if (status == WEIR__RECORDING_MORE)
			break;
		at += used;
		recording->is_full = recording->is_full || recording->written + at + END_MOST > most;
		if (recording->is_full && frame.type != WEIR__RECORDING_END)
			continue;
		if (recording->is_full) {
			code = write_bytes(recording, recording->bytes, end);
			if (code == GO_ON)
				code = write_bytes(recording, recording->bytes + at - used, used);
			end = 0;
			if (code != GO_ON)
				return code;
			continue;
		}
		count(recording, &frame);
		end = at;
	}
	code = write_bytes(recording, recording->bytes, end);
	memmove(recording->bytes, recording->bytes + at, recording->n - at);
	recording->n -= at;
	return code;
}

/* Reads the next bytes. *ret_is_over: they were the last. */
static int read_piece(struct weir__link *link, struct recording *recording, const char *number, bool *ret_is_over,
		      bool *ret_is_empty)
{
	const struct weir__resp_token *const reply = &link->tokens[0];
	const int code = ask_about(link, "READ", number);

	if (code != GO_ON)
		return code;
	*ret_is_over = reply->type == WEIR__RESP_NULL;
	*ret_is_empty = *ret_is_over || reply->text.length == 0;
	if (*ret_is_over)
		return GO_ON;
	if (reply->type != WEIR__RESP_BULK)
		return fail("unexpected reply to WEIR.RECORD READ");
	if (reply->text.length > sizeof(recording->bytes) - recording->n)
		return fail("the server sends frames that are too long");
	memcpy(recording->bytes + recording->n, reply->text.bytes, reply->text.length);
	recording->n += reply->text.length;
	return write_frames(recording);
}

static int follow(struct weir__link *link, struct recording *recording, const char *number)
{
	const uint64_t until = weir__monotonic_ms() + recording->arguments.most_ms;
	const struct timespec pause = { .tv_nsec = PAUSE_MS * 1000000L };
	bool is_over = false, is_empty = false, is_stopped = false;
	int code = GO_ON;

	while (code == GO_ON && !is_over) {
		if (!is_stopped && (is_interrupted || recording->is_full || weir__monotonic_ms() >= until)) {
			code = ask_about(link, "STOP", number);
			is_stopped = true;
		}
		if (code == GO_ON)
			code = read_piece(link, recording, number, &is_over, &is_empty);
		if (code == GO_ON && is_empty && !is_over)
			(void)nanosleep(&pause, NULL);
	}
	return code;
}

static void report(const struct recording *recording, uint64_t ms)
{
	char size[WEIR__WORDS_SIZE], span[WEIR__WORDS_SIZE];

	if (recording->arguments.is_json) {
		struct weir__json json = { .out = stdout };

		weir__json_open(&json, NULL, '{');
		weir__json_text(&json, "file", recording->arguments.path);
		weir__json_number(&json, "decisions", recording->decisions);
		weir__json_number(&json, "missing", recording->lost);
		weir__json_number(&json, "bytes", recording->written);
		weir__json_word(&json, "is_full", recording->is_full ? "true" : "false");
		weir__json_close(&json, '}');
		return;
	}
	weir__words_size(recording->written, size);
	weir__words_span(ms * 1000000, span);
	fputs("recorded ", stdout);
	printf("%" PRIu64 " decisions in %s: ", recording->decisions, span);
	weir__words_safe(stdout, recording->arguments.path);
	printf(", %s%s\n", size, recording->is_full ? ", the most allowed by --max-bytes" : "");
	if (recording->lost > 0)
		printf("%" PRIu64 " decisions are missing, because the server made them faster than they were read; "
		       "use --sample\n",
		       recording->lost);
}

static int record(const struct arguments *arguments, struct weir__link *link)
{
	static struct recording recording; /* large */
	const uint64_t since = weir__monotonic_ms();
	char number[24];
	int code;

	recording.arguments = *arguments;
	code = open_file(&recording);
	if (code != GO_ON)
		return code;
	code = start(link, arguments, number);
	if (code != GO_ON) {
		(void)unlink(arguments->path); /* it is empty */
		(void)close(recording.file);
		return code;
	}
	code = write_bytes(&recording, WEIR__RECORDING_MAGIC, WEIR__RECORDING_MAGIC_SIZE);
	if (code == GO_ON)
		code = follow(link, &recording, number);
	if (close(recording.file) != 0 && code == GO_ON)
		code = fail(strerror(errno));
	if (code == GO_ON)
		report(&recording, weir__monotonic_ms() - since);
	return code == GO_ON ? DONE : code;
}

int weir__record(int argc, char **argv)
{
	static struct weir__link link; /* too large for the stack */
	struct arguments arguments = { .at = weir__link_default(),
				       .most_bytes = bytes_unless_set,
				       .most_ms = ms_unless_set };
	const struct sigaction action = { .sa_handler = interrupt };
	char memory[WEIR__PASSWORD_SIZE];
	const char *password, *word, *right;
	struct weir__tls_files files;
	enum weir__link_result result;
	int code = read_arguments(argc, argv, &arguments);

	if (code != GO_ON)
		return code;
	if (arguments.checks)
		return weir__recording_check("weir record", arguments.path, arguments.is_json);
	right = weir__password_read(arguments.user, arguments.password_file, memory, &password, &word);
	if (right)
		return complain(word, right);
	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	files = weir__stream_files(&arguments.files);
	result = weir__link_open(&link, arguments.at, arguments.user, password, &files, PATIENCE_MS);
	if (result != WEIR__LINK_OK) {
		(void)fail(link.why);
		return result == WEIR__LINK_WRONG ? CALLED_WRONGLY : FAILED;
	}
	code = record(&arguments, &link);
	weir__link_close(&link);
	return code;
}
