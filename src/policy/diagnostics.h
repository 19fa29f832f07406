/* diagnostics.h: reports all errors of a configuration at once. */
#ifndef WEIR_POLICY_DIAGNOSTICS_H
#define WEIR_POLICY_DIAGNOSTICS_H

#include <stdint.h>

enum { WEIR__DIAGNOSTICS_LINE = 512, WEIR__DIAGNOSTICS_MOST = 100 };

/* A position in a file, counted from 1. Both are 0 if a file cannot be opened. */
struct weir__mark {
	uint32_t line, column;
};

struct weir__diagnostics {
	const char *file; /* name to show in messages */
	void (*report)(void *context, const char *line);
	void *context;
	uint32_t n; /* errors so far; those beyond WEIR__DIAGNOSTICS_MOST are only counted */
};

/* Reports FILE:LINE:COLUMN, what was found, and what would be right. */
void weir__diagnostics_add(struct weir__diagnostics *diagnostics, struct weir__mark at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
