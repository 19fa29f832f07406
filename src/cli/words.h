/* words.h: bytes, times and sizes as people read them. */
#ifndef WEIR_CLI_WORDS_H
#define WEIR_CLI_WORDS_H

#include <stdio.h>

#include <weir/types.h>

/* With each byte as \xNN that is no character or that a terminal would obey. */
void weir__words_safe(FILE *out, const char *text);

/* The same in quotes, with \" and \\, so that it is clear what the bytes were. */
void weir__words_quoted(FILE *out, const void *bytes, size_t n);

/* As one word of a shell, in quotes if it needs them. */
void weir__words_for_shell(FILE *out, const char *text);

/* Long enough for what the functions below write, with the NUL. */
#define WEIR__WORDS_SIZE 64

/* 2026-11-16T00:31:00.123456789Z */
void weir__words_instant(weir_ns at, char *text);

/* 600 ms, 12.4 s, 16 h 48 min: rounded up, so that it is not over before. */
void weir__words_span(weir_ns span, char *text);

/* 23.6 MB */
void weir__words_size(uint64_t bytes, char *text);

#endif
