/* demo_traffic.c: the arrivals, the five limiters, and counting their verdicts. */
#include "cli/demo_traffic.h"

#include <assert.h>
#include <string.h>

/* 2023-11-14T22:13:20Z. Any whole second would do. */
#define EPOCH (UINT64_C(1700000000) * DEMO_SECOND)

static const char *const limits[DEMO_LANES] = {
	[DEMO_BUCKET] = "10/s burst 20",         /* allows a burst at once */
	[DEMO_QUEUE] = "10/s leaky queue 20",    /* allows the same number, spread out over time */
	[DEMO_WINDOW] = "10/s fixed_window",     /* up to twice the limit around a window edge */
	[DEMO_LOG] = "10/s sliding_log",         /* exact */
	[DEMO_COUNTER] = "10/s sliding_counter", /* nearly exact, in 16 bytes */
};

/* Start and spacing in ms. A phase ends where the next one starts. The silence after the overload is long enough for
 * every limit to become full or reset, so all limits meet the burst at 6.9 s without usage. */
static const struct phase {
	unsigned from, every, n;
	const char *says;
} phases[] = {
	{ 0, 0, 0, "quiet" },
	{ 400, 200, 8, "a trickle of 5 a second: half of what is allowed" },
	{ 2000, 40, 60, "overload: 25 a second" },
	{ 4400, 0, 0, "silence; what the leaky bucket has queued still departs" },
	{ 6900, 5, 40, "a burst across the edge of a second" },
	{ 7100, 0, 0, "that was a burst across the edge of a second; the queue still drains" },
	{ 9300, 2, 15, "another burst" },
	{ 9330, 0, 0, "that was another burst, within one second" },
};

#define PHASES (sizeof(phases) / sizeof(phases[0]))

static void append(struct demo_instants *instants, weir_ns at)
{
	assert(instants->n < DEMO_INSTANTS_MAX);
	instants->at[instants->n++] = at;
}

static int lane_init(struct demo_lane *lane, const char *text, struct weir_message *ret_message)
{
	int error = weir_limiter_init_text(lane->memory, sizeof(lane->memory), text, &lane->limiter, ret_message);

	if (error == WEIR_OK) {
		lane->text = text;
		lane->shapes = weir_limiter_limit(lane->limiter).shape;
	}
	return error;
}

static void lane_take(struct demo_lane *lane, weir_ns at)
{
	struct weir_verdict verdict = weir_limiter_take(lane->limiter, EPOCH + at, 1);

	if (!verdict.allowed) {
		append(&lane->denied, at);
		return;
	}
	append(&lane->through, at + verdict.delay);
	if (verdict.delay > lane->longest_wait)
		lane->longest_wait = verdict.delay;
}

int weir__demo_traffic_init(struct demo_traffic *traffic, struct weir_message *ret_message)
{
	memset(traffic, 0, sizeof(*traffic));
	for (const struct phase *phase = phases; phase < phases + PHASES; phase++)
		for (unsigned i = 0; i < phase->n; i++)
			append(&traffic->arrivals, (phase->from + i * phase->every) * DEMO_MS);
	for (size_t i = 0; i < DEMO_LANES; i++) {
		int error = lane_init(&traffic->lanes[i], limits[i], ret_message);

		if (error != WEIR_OK)
			return error;
	}
	return WEIR_OK;
}

void weir__demo_traffic_run(struct demo_traffic *traffic, weir_ns until)
{
	const struct demo_instants *arrivals = &traffic->arrivals;

	for (; traffic->decided < arrivals->n && arrivals->at[traffic->decided] < until; traffic->decided++)
		for (size_t i = 0; i < DEMO_LANES; i++)
			lane_take(&traffic->lanes[i], arrivals->at[traffic->decided]);
	traffic->now = until;
}

uint64_t weir__demo_traffic_left(struct demo_traffic *traffic, enum demo_lane_name lane)
{
	return weir_limiter_tokens(traffic->lanes[lane].limiter, EPOCH + traffic->now);
}

const char *weir__demo_traffic_says(weir_ns at)
{
	size_t i = PHASES - 1;

	while (phases[i].from * DEMO_MS > at)
		i--;
	return phases[i].says;
}

size_t weir__demo_instants_within(const struct demo_instants *instants, weir_ns from, weir_ns until)
{
	size_t n = 0;

	for (size_t i = 0; i < instants->n; i++)
		n += instants->at[i] >= from && instants->at[i] < until;
	return n;
}

struct demo_peak weir__demo_instants_peak(const struct demo_instants *instants)
{
	struct demo_peak peak = { 0, 0, 0 };

	/* The fullest second starts at one of the instants, without loss of generality. */
	for (size_t i = 0; i < instants->n; i++) {
		size_t n = weir__demo_instants_within(instants, instants->at[i], instants->at[i] + DEMO_SECOND);

		if (n > peak.n)
			peak = (struct demo_peak){ n, instants->at[i], instants->at[i + n - 1] };
	}
	return peak;
}

weir_ns weir__demo_instants_closest(const struct demo_instants *instants)
{
	weir_ns closest = WEIR_NEVER;

	for (size_t i = 1; i < instants->n; i++)
		if (instants->at[i] - instants->at[i - 1] < closest)
			closest = instants->at[i] - instants->at[i - 1];
	return closest;
}
