/* remote_failure.h: what is decided here when Redis does not: by what each limit says for that case. */
#ifndef WEIR_SERVE_REMOTE_FAILURE_H
#define WEIR_SERVE_REMOTE_FAILURE_H

#include "guard/seam.h"
#include "serve/remote_plans.h"

struct weir__remote_failure {
	struct weir_table *table;
	struct weir__remote_plans *plans;
	uint32_t nodes; /* that share a limit, 1 and up */
};

/* Answers a question of the seam. *ret_is_closed: a limit that is closed has denied it. */
void weir__remote_decide_without(const struct weir__remote_failure *failure, enum weir__seam_operation operation,
				 const struct weir_claim *claims, size_t n, struct weir_verdict *ret_verdicts,
				 bool *ret_is_closed);

#endif
