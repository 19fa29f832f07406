/* ear.h: who is told what a guard has decided, for counting. By the thread that decides, after it has. */
#ifndef WEIR_GUARD_EAR_H
#define WEIR_GUARD_EAR_H

#include <weir/table.h>

struct weir__ear {
	/* Claims that were decided together, with a verdict for each; of one in shadow, which is told alone, no answer tells. */
	void (*hear)(void *context, const struct weir_claim *claims, const struct weir_verdict *verdicts, size_t n,
		     bool is_shadow);
	void *context;
};

#endif
