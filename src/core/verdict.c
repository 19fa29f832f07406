/* verdict.c: joins several verdicts into one. */
#include <weir/verdict.h>

static weir_ns longer(weir_ns a, weir_ns b)
{
	return a > b ? a : b;
}

struct weir_verdict weir_verdict_join(const struct weir_verdict *verdicts, size_t n)
{
	struct weir_verdict joint = verdicts[0];

	for (size_t i = 1; i < n; i++) {
		const struct weir_verdict *const one = &verdicts[i];

		joint.allowed = joint.allowed && one->allowed;
		joint.never = joint.never || one->never;
		joint.retry_after = longer(joint.retry_after, one->retry_after);
		joint.reset_after = longer(joint.reset_after, one->reset_after);
		joint.delay = longer(joint.delay, one->delay);
		if (one->remaining < joint.remaining) {
			joint.limit = one->limit;
			joint.remaining = one->remaining;
			joint.granted = one->granted;
		}
	}
	if (!joint.allowed)
		joint.granted = joint.delay = 0;
	return joint;
}
