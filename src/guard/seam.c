/* seam.c: answers that came one by one, as one. */
#include "guard/seam.h"

#include "store/table.h"

struct weir_decision weir__seam_join(const struct weir_verdict *verdicts, size_t n)
{
	struct weir_decision decision = { weir_verdict_join(verdicts, n), 0 };

	for (size_t i = 1; i < n; i++)
		if (weir__verdict_decides_more(&verdicts[i], &verdicts[decision.decided_by]))
			decision.decided_by = i;
	return decision;
}
