/* log.h: the daemon's log lines, as text or as JSON with one object per line.
 *
 * A caller hands a line over, and a thread writes it. So no caller waits for the log's reader. A line that does not fit
 * in the buffer is left out and counted, and the number is logged once there is room again. Control characters and
 * invalid UTF-8 are always escaped, because keys and paths are bytes that a client chose. The reasons are in
 * docs/internals/observing.md. */
#ifndef WEIR_OBSERVE_LOG_H
#define WEIR_OBSERVE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
	WEIR__LOG_LINE = 2048,       /* maximum bytes of a line with its newline; a pipe takes this much atomically */
	WEIR__LOG_WAITING = 1 << 20, /* maximum bytes of lines waiting to be written */
	WEIR__LOG_LAST_MS = 2000,    /* how long to wait at the end for a reader that takes nothing */
};

enum weir__log_level { WEIR__LOG_INFO, WEIR__LOG_WARNING, WEIR__LOG_ERROR, WEIR__LOG_AUDIT, WEIR__LOG_LEVELS };

struct weir__log;

/* Starts writing to a descriptor, which stays the caller's. NULL: no memory, or no thread. All functions below accept a
 * NULL log and then do nothing. */
struct weir__log *weir__log_new(int descriptor, bool is_json);

/* Writes the lines that wait, and ends. No thread may use the log any more. */
void weir__log_free(struct weir__log *log);

bool weir__log_is_json(const struct weir__log *log);

/* Logs a sentence. In text it follows "weir serve: ". */
__attribute__((format(printf, 3, 4))) void weir__log_say(struct weir__log *log, enum weir__log_level level,
							 const char *words, ...);

/* Writes the sentence itself, before lines that wait, for a process that ends right after it. Does not wait for a
 * reader: without room, the line is left out. */
__attribute__((format(printf, 3, 4))) void weir__log_say_now(struct weir__log *log, enum weir__log_level level,
							     const char *words, ...);

/* A stream for code that writes to a FILE. Each of its lines becomes a log line: in text as it is, in JSON without
 * "weir serve: ". It ends with the log. Without a log it is stderr. */
FILE *weir__log_stream(struct weir__log *log, enum weir__log_level level);

/* Lines left out since the start. */
uint64_t weir__log_left_out(const struct weir__log *log);

/* Escapes bytes as a text line does, for other formats that need valid characters. Writes as many as fit, and a NUL.
 * Returns the length. */
size_t weir__log_escape(const void *bytes, size_t n, char *ret_text, size_t size);

/* --- lines with fields -------------------------------------------------------------------------------------------- */

/* An event and its fields. What does not fit is cut off, and the line says so at its end. */
struct weir__log_line {
	bool is_json, is_cut;
	size_t length;
	char bytes[WEIR__LOG_LINE];
};

void weir__log_begin(struct weir__log_line *line, bool is_json, enum weir__log_level level, const char *event);
void weir__log_text(struct weir__log_line *line, const char *name, const void *bytes, size_t n);
void weir__log_word(struct weir__log_line *line, const char *name, const char *word);
void weir__log_number(struct weir__log_line *line, const char *name, uint64_t number);
void weir__log_truth(struct weir__log_line *line, const char *name, bool is_true);

/* Hands the line over to the log. weir__log_print writes it to a stream instead. */
void weir__log_end(struct weir__log_line *line, struct weir__log *log);
void weir__log_print(struct weir__log_line *line, FILE *out);

#endif
