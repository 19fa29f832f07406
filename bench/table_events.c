/* table_events.c: measures each operation on one key by how many events the key has, and prints one line of JSON for
 * each. bench/table_events.py runs it.
 *
 *     table_events log|segments EVENTS...
 *
 * A sliding log has as many events as it allows, each of one unit, and a sliding counter as many sub-windows, each with
 * one unit. Operations are timed in turn, each for ROUNDS rounds; the fastest round counts. Where an operation needs
 * another one first (a refund, a charge), only the operation itself is timed. */
#include <weir/table.h>

#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/table/table.h"

enum { ROUNDS = 20, EACH = 1000, EACH_COPY = 4, TEXT_MAX = 100 };

#define HOUR_NS UINT64_C(3600000000000)

struct subject {
	struct weir_table *table;
	const struct weir_table_limit *limit, *counts_all, *other;
	uint64_t events;
	weir_ns step; /* between events */
	weir_ns now;  /* of the newest event */
	bool is_log;
};

static const char key[] = "key";

static struct weir_verdict take(const struct subject *subject, const struct weir_table_limit *limit, weir_ns now,
				uint64_t cost)
{
	return weir_table_take(subject->table, limit, key, sizeof(key), now, cost);
}

/* The operations. Each returns whether it had the expected result. */

/* Each takes the place of an event that has expired. */
static bool allow(struct subject *subject)
{
	subject->now += subject->step;
	return weir_table_allow(subject->table, subject->limit, key, sizeof(key), subject->now, 1);
}

static bool take_one(struct subject *subject)
{
	subject->now += subject->step;
	return take(subject, subject->limit, subject->now, 1).allowed;
}

static bool take_denied(struct subject *subject)
{
	return !take(subject, subject->limit, subject->now, subject->limit->first.plan.most / 2 + 1).allowed;
}

/* Each takes the place of the oldest event. */
static bool take_counted(struct subject *subject)
{
	subject->now++;
	return !take(subject, subject->counts_all, subject->now, subject->is_log ? 1 : 2).allowed;
}

static bool up_to(struct subject *subject)
{
	subject->now += subject->step;
	return weir_table_upto(subject->table, subject->limit, key, sizeof(key), subject->now, 1).allowed;
}

static bool peek(struct subject *subject)
{
	return weir_table_peek(subject->table, subject->limit, key, sizeof(key), subject->now, 1).limit > 0;
}

/* Half of the events have expired, but are still there. */
static bool peek_later(struct subject *subject)
{
	return weir_table_peek(subject->table, subject->limit, key, sizeof(key), subject->now + HOUR_NS / 2, 1).allowed;
}

static bool inspect(struct subject *subject)
{
	return weir_table_inspect(subject->table, subject->limit, key, sizeof(key), subject->now).is_stored;
}

static bool decide(struct subject *subject)
{
	const struct weir_claim claims[] = { { subject->limit, key, sizeof(key), 1 },
					     { subject->other, key, sizeof(key), 1 } };
	struct weir_decision decision;

	subject->now += subject->step;
	return weir_table_decide(subject->table, claims, 2, subject->now, NULL, &decision) == WEIR_OK &&
	       decision.verdict.allowed;
}

static bool refund(struct subject *subject)
{
	return weir_table_refund(subject->table, subject->limit, key, sizeof(key), subject->now, 1).remaining > 0;
}

static bool undo(struct subject *subject)
{
	const struct weir__charge charge = { subject->now, 1 };

	return weir__table_undo(subject->table, subject->limit, key, sizeof(key), subject->now, &charge, 1).granted ==
	       1;
}

/* The charge to refund or undo. Nothing expires meanwhile, so the number of events stays the same. */
static bool charge(struct subject *subject)
{
	subject->now++;
	return take(subject, subject->limit, subject->now, 1).allowed;
}

static const struct operation {
	const char *name;
	bool (*act)(struct subject *);
	bool (*before)(struct subject *); /* makes the operation possible; not timed */
} operations[] = {
	{ "allow", allow, NULL },
	{ "take", take_one, NULL },
	{ "take, denied, half of the limit", take_denied, NULL },
	{ "take, denied, count all", take_counted, NULL },
	{ "up to", up_to, NULL },
	{ "peek", peek, NULL },
	{ "peek, half has expired", peek_later, NULL },
	{ "inspect", inspect, NULL },
	{ "two limits", decide, NULL },
	{ "refund", refund, charge },
	{ "undo", undo, charge },
};

static const struct weir_table_limit *add_limit(const struct subject *subject, const char *name, const char *options)
{
	const struct weir_table_limit *limit;
	struct weir_message why;
	char text[TEXT_MAX];

	if (subject->is_log)
		snprintf(text, sizeof(text), "%" PRIu64 "/hour sliding_log%s", subject->events, options);
	else
		snprintf(text, sizeof(text), "%" PRIu64 "/hour sliding_counter segments %" PRIu64 "%s",
			 subject->events + 1, subject->events, options);
	if (weir_table_add_limit_text(subject->table, name, text, &limit, &why) != WEIR_OK)
		errx(1, "%s: %s", text, why.text);
	return limit;
}

/* Fills the key again, hours later, when all earlier events have expired. */
static void fill(struct subject *subject)
{
	const struct weir_table_limit *const limits[] = { subject->limit, subject->counts_all };

	subject->now = (subject->now / HOUR_NS + 3) * HOUR_NS;
	for (uint64_t i = 0; i < subject->events; i++) {
		subject->now += subject->step;
		for (size_t j = 0; j < 2; j++)
			if (!take(subject, limits[j], subject->now, 1).allowed)
				errx(1, "event %" PRIu64 " was denied", i);
	}
}

static uint64_t ns_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static double measure(struct subject *subject, const struct operation *operation)
{
	const int each = operation->before ? EACH_COPY : EACH;
	double best = 0;

	if (operation->before && !refund(subject)) /* a log is full: make room for the charge */
		errx(1, "%s: nothing was refunded", operation->name);
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t took = 0, start = ns_now();
		double ns;

		for (int i = 0; i < each; i++) {
			if (operation->before && !operation->before(subject))
				errx(1, "%s: its preparation failed", operation->name);
			if (operation->before)
				start = ns_now();
			if (!operation->act(subject))
				errx(1, "%s, %" PRIu64 " events: unexpected result", operation->name, subject->events);
			if (operation->before)
				took += ns_now() - start;
		}
		if (!operation->before)
			took = ns_now() - start;
		ns = (double)took / each;
		if (round == 0 || ns < best)
			best = ns;
	}
	return best;
}

static void measure_all(bool is_log, uint64_t events)
{
	struct subject subject = { .events = events, .is_log = is_log, .step = HOUR_NS / events };
	struct weir_table_options options = { .size_bytes = 0, .arena_bytes = 0 };
	struct weir_limit limit = weir_limit_of(is_log ? WEIR_SLIDING_LOG : WEIR_SLIDING_COUNTER, events + 1, HOUR_NS);
	struct weir_message why;

	limit.segments = is_log ? limit.segments : (uint32_t)events;
	options.arena_bytes = 6 * weir_table_arena_size(&limit, 1, 0) + (1 << 20);
	options.size_bytes = weir_table_size(100, 0) + options.arena_bytes;
	if (weir_table_new(&options, &subject.table, &why) != WEIR_OK)
		errx(1, "%s", why.text);
	subject.limit = add_limit(&subject, "limit", "");
	subject.counts_all = add_limit(&subject, "counts all", " count all");
	subject.other = add_limit(&subject, "other", "");
	subject.now = weir_table_now(subject.table);
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
		fill(&subject);
		printf("{\"kind\": \"%s\", \"operation\": \"%s\", \"events\": %" PRIu64 ", \"ns\": %.1f}\n",
		       is_log ? "log" : "segments", operations[i].name, events, measure(&subject, &operations[i]));
	}
	weir_table_free(subject.table);
}

int main(int argc, char **argv)
{
	if (argc < 3 || (strcmp(argv[1], "log") != 0 && strcmp(argv[1], "segments") != 0))
		errx(2, "usage: table_events log|segments EVENTS...");
	weir_clock_now(); /* the first call calibrates the clock */
	for (int i = 2; i < argc; i++)
		measure_all(strcmp(argv[1], "log") == 0, strtoul(argv[i], NULL, 10));
	return 0;
}
