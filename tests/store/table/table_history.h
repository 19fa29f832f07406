/* table_history.h: records what workers were allowed, and checks it afterwards, key by key, with exact models of the
 * limits in whole numbers.
 *
 * A record has the `now` of its decision, which was read before it, and the time after it. Records are checked in the
 * order of `now`, which is not quite the order of the decisions. For a bucket that makes no difference: the instant at
 * which it is full never goes back. So for any records in [a, b] the last decision has at most b + burst * period /
 * count and the first at least a plus its cost; what lies between is within the limit.
 *
 * Windows and resets cut time in two. A decision in progress at a cut may count on either side: a window counts it
 * where the clock finds it, also if the clock is behind the window's start. Such records are left out: with fewer
 * units, what was within a limit still is. Each worker has at most one decision in progress, so little is left out, and
 * it is counted.
 *
 * A log has no such cuts. An event is recorded at some time between its `now` and the end of its decision. So in any
 * interval as long as the period, the records that lie entirely within it are within the limit. */
#ifndef WEIR_TESTS_STORE_TABLE_HISTORY_H
#define WEIR_TESTS_STORE_TABLE_HISTORY_H

#include <weir/weir.h>

#include <stdlib.h>

#include "check.h"
#include "table_crew.h"

__extension__ typedef unsigned __int128 wide;

struct admission {
	weir_ns now;
	uint32_t took; /* until after the decision; saturates */
	uint16_t key;
	uint16_t cost;
};

struct forgiven {
	weir_ns before, after; /* the reset */
	uint32_t key;
};

/* One worker's records, in shared memory. */
struct journal {
	struct admission *admissions;
	struct forgiven *resets;
	uint64_t n_admissions, n_resets;
} __attribute__((aligned(128)));

/* All records of one key, by time. */
struct history {
	struct admission *admissions;
	const struct forgiven *resets;
	size_t n_admissions, n_resets;
};

struct judgement {
	uint64_t admitted; /* units */
	uint64_t left_out; /* decisions in progress at a cut */
	uint64_t over;     /* requests allowed above the limit */
};

static inline void journal_admit(struct journal *journal, size_t key, uint64_t cost, weir_ns now, weir_ns after)
{
	const weir_ns took = after > now ? after - now : 0;

	journal->admissions[journal->n_admissions++] = (struct admission){
		now, took < UINT32_MAX ? (uint32_t)took : UINT32_MAX, (uint16_t)key, (uint16_t)cost
	};
}

/* --- from journals to histories ------------------------------------------------------------------------------- */

static inline int compare_admissions(const void *a_, const void *b_)
{
	const struct admission *a = a_, *b = b_;

	return (a->now > b->now) - (a->now < b->now);
}

static inline int compare_resets(const void *a_, const void *b_)
{
	const struct forgiven *a = a_, *b = b_;

	return a->key != b->key ? (a->key > b->key) - (a->key < b->key) :
				  (a->before > b->before) - (a->before < b->before);
}

struct histories {
	struct admission *admissions;
	struct forgiven *resets;
	struct history *of; /* by key */
};

static inline void *memory_for(size_t n, size_t size)
{
	void *const memory = calloc(n + 1, size);

	if (memory == NULL)
		bail_out("memory", "the system has none");
	return memory;
}

static inline void gather_resets(struct histories *all, const struct journal *journals, size_t n_journals)
{
	size_t n = 0;

	for (size_t j = 0; j < n_journals; j++)
		n += journals[j].n_resets;
	all->resets = memory_for(n, sizeof(*all->resets));
	n = 0;
	for (size_t j = 0; j < n_journals; j++) {
		memcpy(&all->resets[n], journals[j].resets, journals[j].n_resets * sizeof(*all->resets));
		n += journals[j].n_resets;
	}
	qsort(all->resets, n, sizeof(*all->resets), compare_resets);
	for (size_t i = 0; i < n; i++) {
		struct history *const history = &all->of[all->resets[i].key];

		if (history->n_resets++ == 0)
			history->resets = &all->resets[i];
	}
}

static inline struct histories gather(const struct journal *journals, size_t n_journals, size_t n_keys)
{
	struct histories all = { .of = memory_for(n_keys, sizeof(*all.of)) };
	size_t n = 0;

	for (size_t j = 0; j < n_journals; j++) {
		for (size_t i = 0; i < journals[j].n_admissions; i++)
			all.of[journals[j].admissions[i].key].n_admissions++;
		n += journals[j].n_admissions;
	}
	all.admissions = memory_for(n, sizeof(*all.admissions));
	n = 0;
	for (size_t k = 0; k < n_keys; k++) {
		all.of[k].admissions = &all.admissions[n];
		n += all.of[k].n_admissions;
		all.of[k].n_admissions = 0;
	}
	for (size_t j = 0; j < n_journals; j++) {
		for (size_t i = 0; i < journals[j].n_admissions; i++) {
			struct history *const history = &all.of[journals[j].admissions[i].key];

			history->admissions[history->n_admissions++] = journals[j].admissions[i];
		}
	}
	for (size_t k = 0; k < n_keys; k++)
		qsort(all.of[k].admissions, all.of[k].n_admissions, sizeof(struct admission), compare_admissions);
	gather_resets(&all, journals, n_journals);
	return all;
}

static inline void histories_free(struct histories *all)
{
	free(all->admissions);
	free(all->resets);
	free(all->of);
}

/* --- models: is one more request within the limit? All zero is a key without usage ------------------------------ */

enum { SEGMENTS_MAX = 8 };

struct model {
	wide full_at;                      /* bucket: in 1/count ns */
	uint64_t window;                   /* number of the current one */
	uint64_t previous, current;        /* usage of the windows */
	uint64_t counts[SEGMENTS_MAX + 1]; /* by number: sub-windows, of which the newest is `window` */
};

static inline bool is_windowed(const struct weir_limit *limit)
{
	return limit->algorithm == WEIR_FIXED_WINDOW || limit->algorithm == WEIR_SLIDING_COUNTER;
}

static inline bool bucket_admits(const struct weir_limit *limit, struct model *model, weir_ns now, uint64_t cost)
{
	const wide present = (wide)now * limit->count;

	if (model->full_at < present)
		model->full_at = present;
	model->full_at += (wide)cost * limit->period;
	return model->full_at <= present + (wide)limit->burst * limit->period;
}

static inline bool window_admits(const struct weir_limit *limit, struct model *model, weir_ns now, uint64_t cost)
{
	const uint64_t window = now / limit->period;
	uint64_t leaving = 0;

	if (window != model->window) {
		model->previous = window == model->window + 1 ? model->current : 0;
		model->current = 0;
		model->window = window;
	}
	model->current += cost;
	if (limit->algorithm == WEIR_SLIDING_COUNTER)
		leaving = (uint64_t)((wide)model->previous * (limit->period - now % limit->period) / limit->period);
	return leaving + model->current <= limit->count;
}

static inline bool segments_admit(const struct weir_limit *limit, struct model *model, weir_ns now, uint64_t cost)
{
	const weir_ns width = limit->period / limit->segments;
	const uint64_t number = now / width, places = limit->segments + 1;
	uint64_t sum = 0;

	for (; model->window < number; model->window++) {
		if (number - model->window > places)
			model->window = number - places;
		model->counts[(model->window + 1) % places] = 0;
	}
	model->counts[number % places] += cost;
	for (uint64_t i = 0; i < places; i++)
		sum += i == (number + 1) % places ? (uint64_t)((wide)model->counts[i] * (width - now % width) / width) :
						    model->counts[i];
	return sum <= limit->count;
}

/* Without a period, the sum of all: the burst at one instant. */
static inline bool sum_admits(const struct weir_limit *limit, struct model *model, uint64_t cost)
{
	model->current += cost;
	return model->current <= limit->burst;
}

static inline bool model_admits(const struct weir_limit *limit, struct model *model, const struct admission *admission)
{
	if (limit->period == 0)
		return sum_admits(limit, model, admission->cost);
	if (limit->segments > 1)
		return segments_admit(limit, model, admission->now, admission->cost);
	if (is_windowed(limit))
		return window_admits(limit, model, admission->now, admission->cost);
	return bucket_admits(limit, model, admission->now, admission->cost);
}

/* --- judging one key -------------------------------------------------------------------------------------------- */

/* Whether it was in progress at a reset or when a window turned. `next` is the first reset that was not over when it
 * began. */
static inline bool is_cut(const struct weir_limit *limit, const struct history *history, size_t next,
			  const struct admission *admission, weir_ns margin)
{
	const weir_ns end = admission->now + admission->took + margin;
	const weir_ns width = limit->segments > 1 ? limit->period / limit->segments : limit->period;

	if (admission->took == UINT32_MAX || (next < history->n_resets && history->resets[next].before <= end))
		return true;
	return limit->period > 0 && is_windowed(limit) && admission->now / width != end / width;
}

/* --- judging a log ---------------------------------------------------------------------------------------------- */

static inline weir_ns end_of(const struct admission *admission)
{
	return admission->now + admission->took;
}

static inline int compare_ends(const void *a_, const void *b_)
{
	const struct admission *a = a_, *b = b_;

	return (end_of(a) > end_of(b)) - (end_of(a) < end_of(b));
}

/* How many of these, without cuts or resets, are above the limit. At the end of each, sums those that have ended and
 * that began within the last period. */
static inline uint64_t judge_log_between_resets(const struct weir_limit *limit, const struct admission *by_now,
						size_t n, weir_ns margin)
{
	struct admission *const by_end = memory_for(n, sizeof(*by_end));
	uint64_t sum = 0, over = 0;
	size_t left = 0;

	memcpy(by_end, by_now, n * sizeof(*by_end));
	qsort(by_end, n, sizeof(*by_end), compare_ends);
	for (size_t i = 0; i < n; i++) {
		sum += by_end[i].cost;
		for (; by_now[left].now + limit->period <= end_of(&by_end[i]) + margin; left++)
			sum -= by_now[left].cost;
		over += sum > limit->count;
	}
	free(by_end);
	return over;
}

static inline struct judgement judge_log(const struct weir_limit *limit, const struct history *history, weir_ns margin)
{
	struct admission *const judged = memory_for(history->n_admissions, sizeof(*judged));
	struct judgement found = { 0, 0, 0 };
	size_t next = 0, n = 0;

	for (size_t i = 0; i < history->n_admissions; i++) {
		const struct admission *const admission = &history->admissions[i];

		for (; next < history->n_resets && history->resets[next].after + margin < admission->now; next++) {
			found.over += judge_log_between_resets(limit, judged, n, margin);
			n = 0;
		}
		found.admitted += admission->cost;
		if (is_cut(limit, history, next, admission, margin) || admission->took + margin >= limit->period)
			found.left_out++;
		else
			judged[n++] = *admission;
	}
	found.over += judge_log_between_resets(limit, judged, n, margin);
	free(judged);
	return found;
}

/* A denial by a log shows whether it was right: the units that may have counted then leave no room. */
struct denial {
	weir_ns now, after;
};

static inline bool is_denial_justified(const struct weir_limit *limit, const struct history *history,
				       const struct denial *denial, uint64_t cost, weir_ns margin)
{
	uint64_t units = cost;

	for (size_t i = history->n_admissions; i-- > 0;) {
		const struct admission *const admission = &history->admissions[i];

		if (admission->now + UINT32_MAX + margin + limit->period < denial->now)
			break;
		if (admission->now <= denial->after + margin &&
		    (admission->took == UINT32_MAX || end_of(admission) + margin + limit->period > denial->now))
			units += admission->cost;
	}
	return units > limit->count;
}

/* --- and all of them -------------------------------------------------------------------------------------------- */

/* Workers' clocks, and when the program reads them, may differ by the margin. */
static inline struct judgement judge(const struct weir_limit *limit, const struct history *history, weir_ns margin)
{
	struct judgement found = { 0, 0, 0 };
	struct model model = { 0 };
	size_t next = 0;

	if (limit->algorithm == WEIR_SLIDING_LOG)
		return judge_log(limit, history, margin);
	for (size_t i = 0; i < history->n_admissions; i++) {
		const struct admission *const admission = &history->admissions[i];

		while (next < history->n_resets && history->resets[next].after + margin < admission->now) {
			memset(&model, 0, sizeof(model));
			next++;
		}
		found.admitted += admission->cost;
		if (is_cut(limit, history, next, admission, margin))
			found.left_out++;
		else
			found.over += !model_admits(limit, &model, admission);
	}
	return found;
}

/* --- and was it enough? ----------------------------------------------------------------------------------------- */

/* When one worker was denied one key. A denial proves that the key had nothing left then. If the next denial follows
 * soon enough, nothing was lost for lack of demand between them. Keeps the longest time without a longer pause. A
 * worker that slept between reading the clock and the request proves nothing about that time. */
struct duration {
	weir_ns first, last;
};

struct denials {
	struct duration current, longest;
};

enum { PROMPT_NS = 20000 };

static inline void denials_close(struct denials *denials)
{
	if (denials->current.last - denials->current.first > denials->longest.last - denials->longest.first)
		denials->longest = denials->current;
}

static inline void note_denial(struct denials *denials, weir_ns now, weir_ns after, weir_ns pause_max)
{
	if (after - now > PROMPT_NS)
		return;
	if (now - denials->current.last > pause_max) {
		denials_close(denials);
		denials->current.first = now;
	}
	denials->current.last = now;
}

/* The longest pause in which an empty bucket does not fill up, no window passes, or less than one unit of the previous
 * window expires. */
static inline weir_ns longest_pause(const struct weir_limit *limit, uint64_t cost)
{
	if (limit->algorithm == WEIR_FIXED_WINDOW)
		return limit->period - 1;
	if (limit->algorithm == WEIR_SLIDING_COUNTER)
		return limit->period / limit->count - 1;
	return (weir_ns)((wide)(limit->burst - cost) * limit->period / limit->count) - 1;
}

struct yield {
	uint64_t admitted, possible; /* units */
};

/* From the first denial on: what the bucket had then, given its charges before, and what has flowed in since. */
static inline struct yield bucket_yield(const struct weir_limit *limit, const struct history *history,
					struct duration duration)
{
	const wide capacity = (wide)limit->burst * limit->period, first = (wide)duration.first * limit->count;
	const uint64_t cost = history->admissions[0].cost;
	struct yield yield = { 0, 0 };
	struct model model = { 0 };
	wide had;
	size_t i = 0;

	for (; i < history->n_admissions && history->admissions[i].now <= duration.first; i++)
		bucket_admits(limit, &model, history->admissions[i].now, cost);
	had = model.full_at > first + capacity ? 0 :
	      model.full_at > first            ? capacity - (model.full_at - first) :
						 capacity;
	yield.possible = (uint64_t)((had + (wide)(duration.last - duration.first) * limit->count) /
				    ((wide)cost * limit->period)) *
			 cost;
	for (; i < history->n_admissions && history->admissions[i].now <= duration.last; i++)
		yield.admitted += cost;
	return yield;
}

/* Each window was used up: those after the first denial's, up to the last one's; a sliding counter's only at its
 * end. */
static inline struct yield window_yield(const struct weir_limit *limit, const struct history *history,
					struct duration duration)
{
	const uint64_t cost = history->admissions[0].cost;
	const uint64_t first = duration.first / limit->period + 1;
	const uint64_t end = duration.last / limit->period + (limit->algorithm == WEIR_FIXED_WINDOW);
	struct yield yield = { 0, 0 };

	if (end <= first)
		return yield;
	yield.possible = (end - first) * (limit->count / cost * cost);
	for (size_t i = 0; i < history->n_admissions; i++) {
		const uint64_t window = history->admissions[i].now / limit->period;

		yield.admitted += window >= first && window < end ? cost : 0;
	}
	return yield;
}

/* While demand certainly exceeded the limit, by the worker that can prove it for the longest time. For a key with one
 * cost that was never reset. */
static inline struct yield yield_of(const struct weir_limit *limit, const struct history *history,
				    const struct denials *by_worker, size_t n_workers, size_t stride)
{
	struct duration best = { 0, 0 };

	for (size_t i = 0; i < n_workers; i++) {
		const struct duration duration = by_worker[i * stride].longest;

		if (duration.last - duration.first > best.last - best.first)
			best = duration;
	}
	if (history->n_admissions == 0 || best.last == 0)
		return (struct yield){ 0, 0 };
	return is_windowed(limit) ? window_yield(limit, history, best) : bucket_yield(limit, history, best);
}

#endif
