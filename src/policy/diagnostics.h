/* diagnostics.h: everything that is wrong with a configuration, reported at once. */
#ifndef WEIR_POLICY_DIAGNOSTICS_H
#define WEIR_POLICY_DIAGNOSTICS_H

#include <stdint.h>

enum { WEIR__DIAGNOSTICS_LINE = 512, WEIR__DIAGNOSTICS_MOST = 100 };

/* Where something was written; both from 1 on. */
struct weir__mark {
	uint32_t line, column;
};

struct weir__diagnostics {
	const char *file; /* for people */
	void (*report)(void *context, const char *line);
	void *context;
	uint32_t n; /* so far; beyond the most they are counted only */
};

/* FILE:LINE:COLUMN: what was found, what would be right. */
void weir__diagnostics_add(struct weir__diagnostics *diagnostics, struct weir__mark at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
