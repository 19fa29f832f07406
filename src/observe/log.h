/* log.h: lines that the running daemon writes, as text, or as JSON with one object a line.
 *
 * Whoever has a line hands it over and goes on; a thread writes it. So nobody waits for whoever reads the log: what does not
 * fit between the two is left out and counted, and how many lines that were is told once there is room again. Control
 * characters, and what is no UTF-8, never come out as they are: keys and paths are any bytes that a stranger chose. */
#ifndef WEIR_OBSERVE_LOG_H
#define WEIR_OBSERVE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
	WEIR__LOG_LINE = 2048,       /* bytes of a line with its end, at most: as many as a pipe takes whole */
	WEIR__LOG_WAITING = 1 << 20, /* bytes of lines that wait to be written, at most */
	WEIR__LOG_LAST_MS = 2000,    /* at the end, for a reader that takes none of what waits */
};

enum weir__log_level { WEIR__LOG_INFO, WEIR__LOG_WARNING, WEIR__LOG_ERROR, WEIR__LOG_AUDIT, WEIR__LOG_LEVELS };

struct weir__log;

/* Begins to write to a descriptor, which stays the caller's. NULL: no memory, or no thread. In all that follows a log that
 * is NULL takes nothing. */
struct weir__log *weir__log_new(int descriptor, bool is_json);

/* Writes what waits, and ends. Nobody has a line for it any more. */
void weir__log_free(struct weir__log *log);

bool weir__log_is_json(const struct weir__log *log);

/* A sentence. In text it is written behind "weir serve: ". */
__attribute__((format(printf, 3, 4))) void weir__log_say(struct weir__log *log, enum weir__log_level level,
							 const char *words, ...);

/* For those who write to a stream: each of its lines is one of the log. Text is as it is written there; JSON has it without
 * "weir serve: ". Ends with the log. Without a log it is stderr. */
FILE *weir__log_stream(struct weir__log *log, enum weir__log_level level);

/* Lines that were left out since the start. */
uint64_t weir__log_left_out(const struct weir__log *log);

/* Bytes as a line of text would have them, for others who take characters alone; as many as there is room for, with a NUL.
 * Returns their length. */
size_t weir__log_escape(const void *bytes, size_t n, char *ret_text, size_t size);

/* --- lines of parts ----------------------------------------------------------------------------------------------- */

/* An event with what is known of it. What does not fit is cut off: then the line says so at its end. */
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

/* Hands it over, or prints it where it is not the log that is to have it. */
void weir__log_end(struct weir__log_line *line, struct weir__log *log);
void weir__log_print(struct weir__log_line *line, FILE *out);

#endif
