/* log.c: a ring buffer of lines, and the thread that writes them. */
#include "observe/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/utf8.h"
#include "os/descriptor.h"
#include "os/lock.h"
#include "os/monotonic.h"

#define PREFIX "weir serve: "

enum {
	PREFIX_LENGTH = sizeof(PREFIX) - 1,
	TAIL = 24,         /* reserved at the end of a line to close it, also when it is cut */
	ESCAPED_MOST = 20, /* bytes that one character can become: four times \xHH, or \\xHH */
	LOOK_MS = 50,      /* how often to check whether the reader takes something */
};

/* The ring has lines one after the other, each preceded by its length. It wraps at the end. */
struct weir__log {
	int descriptor;
	bool is_json;
	pthread_t thread;
	pthread_mutex_t lock; /* of the fields below; held to copy a line, never to write it */
	pthread_cond_t has_more;
	bool is_ending, is_asleep;
	size_t first, waiting; /* where the oldest line begins; bytes in use */
	uint64_t untold;       /* lines left out since that was last reported */
	char *ring;
	_Atomic uint64_t left_out;
	struct stream {
		struct weir__log *log;
		enum weir__log_level level;
		FILE *file;
		/* libc's own lock of the FILE would do, but race detectors do not see it. */
		struct weir__lock lock;
		size_t length; /* of the incomplete line */
		char begun[WEIR__LOG_LINE];
	} streams[WEIR__LOG_LEVELS];
};

static const char *const level_words[WEIR__LOG_LEVELS] = { [WEIR__LOG_INFO] = "info",
							   [WEIR__LOG_WARNING] = "warning",
							   [WEIR__LOG_ERROR] = "error",
							   [WEIR__LOG_AUDIT] = "audit" };

/* --- lines -------------------------------------------------------------------------------------------------------- */

static size_t room_of(const struct weir__log_line *line)
{
	return WEIR__LOG_LINE - TAIL - line->length;
}

static bool has_room(struct weir__log_line *line, size_t n)
{
	line->is_cut |= n > room_of(line);
	return !line->is_cut;
}

static void add(struct weir__log_line *line, const char *bytes, size_t n)
{
	if (!has_room(line, n))
		return;
	memcpy(line->bytes + line->length, bytes, n);
	line->length += n;
}

static void add_word(struct weir__log_line *line, const char *word)
{
	add(line, word, strlen(word));
}

static void add_bytes_escaped(struct weir__log_line *line, const unsigned char *bytes, size_t n)
{
	char text[8];

	for (size_t i = 0; i < n; i++) {
		const int length = snprintf(text, sizeof(text), line->is_json ? "\\\\x%02x" : "\\x%02x", bytes[i]);

		add(line, text, (size_t)length);
	}
}

/* `quote` is escaped by a backslash, and so is a backslash. NUL: neither is. */
static void add_escaped(struct weir__log_line *line, const void *bytes_, size_t n, char quote)
{
	const unsigned char *const bytes = bytes_;
	const size_t plain = weir__utf8_plain(bytes, n), begun = plain < room_of(line) ? plain : 0;
	uint16_t units[2];
	char text[8];

	add(line, bytes_, begun);
	for (size_t i = begun; i < n && has_room(line, ESCAPED_MOST);) {
		const struct weir__utf8 next = weir__utf8_first(bytes + i, n - i);

		if (!next.is_character || (weir__utf8_is_hidden(next.character) && !line->is_json)) {
			add_bytes_escaped(line, bytes + i, next.length);
		} else if (weir__utf8_is_hidden(next.character)) {
			const unsigned n_units = weir__utf8_units(next.character, units);

			for (unsigned k = 0; k < n_units; k++) {
				(void)snprintf(text, sizeof(text), "\\u%04x", units[k]);
				add(line, text, 6);
			}
		} else {
			if (quote != '\0' && (next.character == (unsigned char)quote || next.character == '\\'))
				add(line, "\\", 1);
			add(line, (const char *)bytes + i, next.length);
		}
		i += next.length;
	}
}

size_t weir__log_escape(const void *bytes, size_t n, char *ret_text, size_t size)
{
	struct weir__log_line line;
	size_t length;

	line.is_json = line.is_cut = false;
	line.length = 0;
	add_escaped(&line, bytes, n, '\0');
	length = line.length < size ? line.length : size - 1;
	while (length > 0 && length < line.length && ((unsigned char)line.bytes[length] & 0xc0) == 0x80)
		length--; /* do not cut a character */
	memcpy(ret_text, line.bytes, length);
	ret_text[length] = '\0';
	return length;
}

/* RFC 3339, in UTC. */
static void add_time(struct weir__log_line *line)
{
	struct timespec now;
	struct tm parts;
	char text[64];
	size_t length;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	if (gmtime_r(&now.tv_sec, &parts) == NULL)
		return;
	length = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &parts);
	length += (size_t)snprintf(text + length, sizeof(text) - length, ".%06ldZ", now.tv_nsec / 1000);
	add(line, text, length);
}

static void begin_json(struct weir__log_line *line, enum weir__log_level level)
{
	line->is_json = true;
	line->is_cut = false;
	line->length = 0;
	add_word(line, "{\"ts\":\"");
	add_time(line);
	add_word(line, "\",\"level\":\"");
	add_word(line, level_words[level]);
	add_word(line, "\"");
}

void weir__log_begin(struct weir__log_line *line, bool is_json, enum weir__log_level level, const char *event)
{
	if (is_json) {
		begin_json(line, level);
		weir__log_word(line, "event", event);
		return;
	}
	line->is_json = line->is_cut = false;
	line->length = 0;
	add_word(line, PREFIX);
	add_word(line, level == WEIR__LOG_AUDIT ? "audit " : "");
	add_word(line, event);
	add_word(line, " time=");
	add_time(line);
}

static void add_name(struct weir__log_line *line, const char *name)
{
	add_word(line, line->is_json ? ",\"" : " ");
	add_word(line, name);
	add_word(line, line->is_json ? "\":" : "=");
}

/* Whether the bytes need no quotes in a line of text. */
static bool is_plain(const unsigned char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (bytes[i] <= ' ' || bytes[i] >= 0x7f || strchr("\"\\=", bytes[i]))
			return false;
	return n > 0;
}

void weir__log_text(struct weir__log_line *line, const char *name, const void *bytes, size_t n)
{
	const size_t before = line->length;

	if (line->is_cut)
		return;
	add_name(line, name);
	if (!line->is_json && is_plain(bytes, n)) {
		add_escaped(line, bytes, n, '\0');
		return;
	}
	add(line, "\"", 1);
	if (line->is_cut) { /* not even the name fits */
		line->length = before;
		return;
	}
	add_escaped(line, bytes, n, '"');
	line->bytes[line->length++] = '"'; /* the tail has room for it */
}

void weir__log_word(struct weir__log_line *line, const char *name, const char *word)
{
	weir__log_text(line, name, word, strlen(word));
}

static void add_bare(struct weir__log_line *line, const char *name, const char *value)
{
	const size_t before = line->length;

	if (line->is_cut)
		return;
	add_name(line, name);
	add_word(line, value);
	if (line->is_cut)
		line->length = before;
}

void weir__log_number(struct weir__log_line *line, const char *name, uint64_t number)
{
	char digits[24];

	(void)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);
	add_bare(line, name, digits);
}

void weir__log_truth(struct weir__log_line *line, const char *name, bool is_true)
{
	add_bare(line, name, is_true ? "true" : "false");
}

/* Writes into the reserved tail. */
static void close_line(struct weir__log_line *line)
{
	const char *const end = line->is_json ? (line->is_cut ? ",\"cut\":true}\n" : "}\n") :
						(line->is_cut ? " cut=true\n" : "\n");

	memcpy(line->bytes + line->length, end, strlen(end));
	line->length += strlen(end);
}

void weir__log_print(struct weir__log_line *line, FILE *out)
{
	close_line(line);
	(void)fwrite(line->bytes, 1, line->length, out);
}

/* --- the ring ---------------------------------------------------------------------------------------------------- */

static void copy_in(struct weir__log *log, const void *bytes, size_t n)
{
	const size_t at = (log->first + log->waiting) % WEIR__LOG_WAITING, to_end = WEIR__LOG_WAITING - at;
	const size_t now = n < to_end ? n : to_end;

	memcpy(log->ring + at, bytes, now);
	memcpy(log->ring, (const char *)bytes + now, n - now);
	log->waiting += n;
}

static void copy_out(struct weir__log *log, void *bytes, size_t n)
{
	const size_t to_end = WEIR__LOG_WAITING - log->first, now = n < to_end ? n : to_end;

	memcpy(bytes, log->ring + log->first, now);
	memcpy((char *)bytes + now, log->ring, n - now);
	log->first = (log->first + n) % WEIR__LOG_WAITING;
	log->waiting -= n;
}

static void hand_over(struct weir__log *log, const struct weir__log_line *line)
{
	const uint16_t length = (uint16_t)line->length;
	bool is_asleep;

	(void)pthread_mutex_lock(&log->lock);
	if (sizeof(length) + length > WEIR__LOG_WAITING - log->waiting) {
		log->untold++;
		atomic_fetch_add_explicit(&log->left_out, 1, memory_order_relaxed);
	} else {
		copy_in(log, &length, sizeof(length));
		copy_in(log, line->bytes, length);
	}
	is_asleep = log->is_asleep;
	(void)pthread_mutex_unlock(&log->lock);
	if (is_asleep)
		(void)pthread_cond_signal(&log->has_more);
}

void weir__log_end(struct weir__log_line *line, struct weir__log *log)
{
	if (log == NULL)
		return;
	close_line(line);
	hand_over(log, line);
}

/* --- sentences --------------------------------------------------------------------------------------------------- */

/* Text keeps its prefix, if it has one. JSON drops it. */
static void make_sentence(struct weir__log_line *line, bool is_json, enum weir__log_level level, const char *words,
			  size_t n)
{
	if (is_json) {
		const size_t skip = n >= PREFIX_LENGTH && memcmp(words, PREFIX, PREFIX_LENGTH) == 0 ? PREFIX_LENGTH : 0;

		begin_json(line, level);
		weir__log_text(line, "message", words + skip, n - skip);
		return;
	}
	line->is_json = line->is_cut = false;
	line->length = 0;
	add_escaped(line, words, n, '\0');
}

static void make_said(const struct weir__log *log, struct weir__log_line *line, enum weir__log_level level,
		      const char *words, va_list arguments)
{
	char text[WEIR__LOG_LINE] = PREFIX;

	(void)vsnprintf(text + PREFIX_LENGTH, sizeof(text) - PREFIX_LENGTH, words, arguments);
	make_sentence(line, log->is_json, level, text, strlen(text));
}

void weir__log_say(struct weir__log *log, enum weir__log_level level, const char *words, ...)
{
	struct weir__log_line line;
	va_list arguments;

	if (log == NULL)
		return;
	va_start(arguments, words);
	make_said(log, &line, level, words, arguments);
	va_end(arguments);
	weir__log_end(&line, log);
}

void weir__log_say_now(struct weir__log *log, enum weir__log_level level, const char *words, ...)
{
	struct weir__log_line line;
	va_list arguments;

	if (log == NULL)
		return;
	va_start(arguments, words);
	make_said(log, &line, level, words, arguments);
	va_end(arguments);
	close_line(&line);
	if (weir__descriptor_has_room(log->descriptor, 0))
		(void)weir__descriptor_write(log->descriptor, line.bytes, line.length);
}

static ssize_t write_stream(void *stream_, const char *bytes, size_t n)
{
	struct stream *const stream = stream_;
	struct weir__log_line line;

	weir__lock_acquire(&stream->lock);
	for (size_t i = 0; i < n; i++) {
		if (bytes[i] != '\n') {
			if (stream->length < sizeof(stream->begun))
				stream->begun[stream->length++] = bytes[i];
			continue;
		}
		make_sentence(&line, stream->log->is_json, stream->level, stream->begun, stream->length);
		weir__log_end(&line, stream->log);
		stream->length = 0;
	}
	weir__lock_release(&stream->lock);
	return (ssize_t)n;
}

static bool open_stream(struct weir__log *log, enum weir__log_level level)
{
	struct stream *const stream = &log->streams[level];

	stream->log = log;
	stream->level = level;
	stream->file = fopencookie(stream, "w", (cookie_io_functions_t){ .write = write_stream });
	return stream->file && setvbuf(stream->file, NULL, _IOLBF, BUFSIZ) == 0;
}

FILE *weir__log_stream(struct weir__log *log, enum weir__log_level level)
{
	return log ? log->streams[level].file : stderr;
}

/* --- the thread -------------------------------------------------------------------------------------------------- */

/* Waits until a write would not block. A pipe that has room takes a full line, because a line fits an atomic write.
 * Returns false if the log is ending and the reader takes nothing. */
static bool wait_for_room(struct weir__log *log)
{
	uint64_t until = 0;

	while (!weir__descriptor_has_room(log->descriptor, LOOK_MS)) {
		bool is_ending;

		(void)pthread_mutex_lock(&log->lock);
		is_ending = log->is_ending;
		(void)pthread_mutex_unlock(&log->lock);
		if (is_ending && until == 0)
			until = weir__monotonic_ms() + WEIR__LOG_LAST_MS;
		if (is_ending && weir__monotonic_ms() >= until)
			return false;
	}
	return true;
}

/* Returns false if the log is ending and the reader takes nothing. A line that cannot be written at all, for example to
 * a closed pipe, is left out. */
static bool write_line(struct weir__log *log, const char *bytes, size_t n)
{
	while (n > 0) {
		ssize_t written;

		if (!wait_for_room(log))
			return false;
		written = weir__descriptor_write(log->descriptor, bytes, n);
		if (written < 0) {
			atomic_fetch_add_explicit(&log->left_out, 1, memory_order_relaxed);
			return true;
		}
		if (written > 0) {
			bytes += written;
			n -= (size_t)written;
		}
	}
	return true;
}

/* Takes the next line. When all lines are written, makes a line that reports how many were left out. Returns false at
 * the end. */
static bool take(struct weir__log *log, struct weir__log_line *ret_line)
{
	uint64_t untold = 0;
	uint16_t length;
	bool is_line;
	char text[128];

	(void)pthread_mutex_lock(&log->lock);
	while (log->waiting == 0 && log->untold == 0 && !log->is_ending) {
		log->is_asleep = true;
		(void)pthread_cond_wait(&log->has_more, &log->lock);
		log->is_asleep = false;
	}
	is_line = log->waiting > 0;
	if (is_line) {
		copy_out(log, &length, sizeof(length));
		copy_out(log, ret_line->bytes, length);
		ret_line->length = length;
	} else {
		untold = log->untold;
		log->untold = 0;
	}
	(void)pthread_mutex_unlock(&log->lock);
	if (is_line || untold == 0)
		return is_line;
	(void)snprintf(text, sizeof(text),
		       PREFIX "%llu log lines were dropped, because standard error was not read in time",
		       (unsigned long long)untold);
	make_sentence(ret_line, log->is_json, WEIR__LOG_WARNING, text, strlen(text));
	close_line(ret_line);
	return true;
}

static void *keep(void *log_)
{
	struct weir__log *const log = log_;
	struct weir__log_line line;

	while (take(log, &line) && write_line(log, line.bytes, line.length))
		;
	return NULL;
}

static void free_parts(struct weir__log *log)
{
	for (size_t i = 0; i < WEIR__LOG_LEVELS; i++)
		if (log->streams[i].file)
			(void)fclose(log->streams[i].file);
	(void)pthread_cond_destroy(&log->has_more);
	(void)pthread_mutex_destroy(&log->lock);
	free(log->ring);
	free(log);
}

struct weir__log *weir__log_new(int descriptor, bool is_json)
{
	struct weir__log *const log = calloc(1, sizeof(*log));
	bool is_whole;

	if (log == NULL)
		return NULL;
	log->descriptor = descriptor;
	log->is_json = is_json;
	log->ring = malloc(WEIR__LOG_WAITING);
	(void)pthread_mutex_init(&log->lock, NULL);
	(void)pthread_cond_init(&log->has_more, NULL);
	is_whole = log->ring != NULL;
	for (enum weir__log_level level = 0; level < WEIR__LOG_LEVELS && is_whole; level++)
		is_whole = open_stream(log, level);
	if (is_whole && pthread_create(&log->thread, NULL, keep, log) == 0)
		return log;
	free_parts(log);
	return NULL;
}

void weir__log_free(struct weir__log *log)
{
	if (log == NULL)
		return;
	for (size_t i = 0; i < WEIR__LOG_LEVELS; i++)
		(void)fflush(log->streams[i].file);
	(void)pthread_mutex_lock(&log->lock);
	log->is_ending = true;
	(void)pthread_mutex_unlock(&log->lock);
	(void)pthread_cond_signal(&log->has_more);
	(void)pthread_join(log->thread, NULL);
	free_parts(log);
}

bool weir__log_is_json(const struct weir__log *log)
{
	return log && log->is_json;
}

uint64_t weir__log_left_out(const struct weir__log *log)
{
	return log ? atomic_load_explicit(&log->left_out, memory_order_relaxed) : 0;
}
