/* decide.h: decisions for requests of any wire: by the table, or by another store through the seam. With that, an answer
 * that is not known yet looks like an admission, and what is made of it is thrown away (guard/seam.h). */
#ifndef WEIR_SERVE_DECIDE_H
#define WEIR_SERVE_DECIDE_H

#include <weir/guard.h>

#include "guard/seam.h"
#include "serve/commands.h"

/* Of one claim. Reset: allowed, if there was something to forget. */
struct weir_verdict weir__decide_one(struct weir__commands *commands, enum weir__seam_operation operation,
				     const struct weir_claim *claim);

/* Of 1 to WEIR_TABLE_CLAIMS_MAX, all or nothing. */
struct weir_decision weir__decide_all(struct weir__commands *commands, const struct weir_claim *claims, size_t n,
				      weir_ns *ret_reset_after);

/* What is known of a key. Another store tells what it owes, and not whether it has something stored for it. */
struct weir_table_key weir__decide_inspect(struct weir__commands *commands, const struct weir_claim *claim);

/* By the policy: weir_guard_check and weir_guard_check_descriptors, now. */
int weir__decide_check(struct weir__commands *commands, struct weir_guard *guard,
		       const struct weir_attribute *attributes, size_t n, uint64_t cost,
		       struct weir_guard_answer *ret_answer, struct weir_message *ret_message);

struct weir__descriptors {
	const char *domain;
	size_t domain_length;
	const struct weir_descriptor *at;
	size_t n;
	uint64_t hits;
};

int weir__decide_descriptors(struct weir__commands *commands, struct weir_guard *guard,
			     const struct weir__descriptors *descriptors, struct weir_guard_answer *ret_answer,
			     struct weir_guard_status *ret_statuses, struct weir_message *ret_message);

/* The decision that began at this instant is over: one of some is timed. */
void weir__decide_time(struct weir__commands *commands, weir_ns begun);

#endif
