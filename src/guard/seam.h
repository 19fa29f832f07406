/* seam.h: where a decision is asked for that another store than the table may make.
 *
 * Without a seam, NULL, the table decides. With one, whoever is behind it does, and that takes a while: a question that is
 * new is noted, and its answer is not known yet. Then the request is run again when there are answers: the same question,
 * at the same place of the same request, has its answer by then, and another one behind it may be new. What a run has
 * written is thrown away if anything in it was not known. So those who ask keep their straight form; they only must not ask
 * on where the next question depends on an answer that is not known, nor do anything that lasts. */
#ifndef WEIR_GUARD_SEAM_H
#define WEIR_GUARD_SEAM_H

#include <weir/table.h>

struct weir__bound;
struct weir_guard;

/* As the functions of the table are called. */
enum weir__seam_operation {
	WEIR__SEAM_TAKE, /* several claims: all or nothing */
	WEIR__SEAM_UPTO,
	WEIR__SEAM_PEEK,
	WEIR__SEAM_REFUND,
	WEIR__SEAM_RESET, /* allowed: there was something to forget */
};

/* Of one thread. */
struct weir__seam {
	/* n is 1 to WEIR_TABLE_CLAIMS_MAX, and 1 of all but takes; a verdict for each claim. False: not known yet. */
	bool (*ask)(struct weir__seam *seam, enum weir__seam_operation operation, const struct weir_claim *claims,
		    size_t n, struct weir_verdict *ret_verdicts);
	bool is_shadow;  /* what is asked is a limit in shadow: of that no answer tells */
	bool is_not_yet; /* since whoever runs requests last cleared it: something was not known */
	/* The policy that the runs of a request go by: it stays from the first to the last. NULL: none is. */
	const struct weir__bound *pinned;
	struct weir_guard *guard; /* whose it is */
	uint32_t phase;           /* under which it is read */
};

/* What is not known looks like an admission, so that whoever asked may go on as if it were. */
static inline bool weir__seam_ask(struct weir__seam *seam, enum weir__seam_operation operation,
				  const struct weir_claim *claims, size_t n, struct weir_verdict *ret_verdicts)
{
	if (seam->ask(seam, operation, claims, n, ret_verdicts))
		return true;
	seam->is_not_yet = true;
	for (size_t i = 0; i < n; i++)
		ret_verdicts[i] = (struct weir_verdict){ .allowed = true, .granted = claims[i].cost };
	return false;
}

/* One answer of several, as the table joins them. */
struct weir_decision weir__seam_join(const struct weir_verdict *verdicts, size_t n);

/* The last run of all requests that went by it is over. By the thread that ran them. */
void weir__seam_unpin(struct weir__seam *seam);

#endif
