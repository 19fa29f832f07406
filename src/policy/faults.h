/* faults.h: everything that is wrong with a configuration, reported at once. */
#ifndef WEIR_POLICY_FAULTS_H
#define WEIR_POLICY_FAULTS_H

#include <stdint.h>

enum { WEIR__FAULT_LINE = 512, WEIR__FAULTS_MOST = 100 };

/* Where something was written; both from 1 on. */
struct weir__mark {
	uint32_t line, column;
};

struct weir__faults {
	const char *file; /* for people */
	void (*report)(void *context, const char *line);
	void *context;
	uint32_t n; /* so far; beyond the most they are counted only */
};

/* FILE:LINE:COLUMN: what was found, what would be right. */
void weir__fault(struct weir__faults *faults, struct weir__mark at, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
