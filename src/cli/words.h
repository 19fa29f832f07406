/* words.h: bytes, times and sizes in a form for people. */
#ifndef WEIR_CLI_WORDS_H
#define WEIR_CLI_WORDS_H

#include <stdio.h>

#include <weir/types.h>

/* Writes text. Each byte that is not UTF-8, or is part of a control character, becomes \xNN. */
void weir__words_safe(FILE *out, const char *text);
void weir__words_safe_bytes(FILE *out, const void *bytes, size_t n);

/* The same in quotes, with \" and \\, so that the original bytes are unambiguous. */
void weir__words_quoted(FILE *out, const void *bytes, size_t n);

/* The same in quotes, with "" for a quote, for CSV. What a spreadsheet would take for a formula begins with an
 * apostrophe. */
void weir__words_in_csv(FILE *out, const void *bytes, size_t n);

/* Writes one shell word, quoted if necessary. */
void weir__words_for_shell(FILE *out, const char *text);

/* Enough for what the functions below write, with the NUL. */
#define WEIR__WORDS_SIZE 64

/* 2026-11-16T00:31:00.123456789Z */
void weir__words_instant(weir_ns at, char *text);

/* 600 ms, 12.4 s, 16 h 48 min. Rounded up, so that the time is not over earlier. */
void weir__words_span(weir_ns span, char *text);

/* 23.6 MB */
void weir__words_size(uint64_t bytes, char *text);

#endif
