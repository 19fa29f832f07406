/* demo_traffic.h: what the demo shows: one pattern of arrivals, put to five limiters, and what came of it.
 *
 * Reads no clock and draws nothing. Instants count from the start of the demo; the limiters are told those plus a
 * fixed Unix time on a whole second, so every run decides the same, and windows change on whole seconds. */
#ifndef WEIR_CLI_DEMO_TRAFFIC_H
#define WEIR_CLI_DEMO_TRAFFIC_H

#include <weir/limiter.h>

#define DEMO_RATE 10 /* a second, of every limit: what their texts say */
#define DEMO_MS UINT64_C(1000000)
#define DEMO_SECOND (1000 * DEMO_MS)
#define DEMO_END (11 * DEMO_SECOND)
#define DEMO_INSTANTS_MAX 256

enum demo_lane_name { DEMO_BUCKET, DEMO_QUEUE, DEMO_WINDOW, DEMO_LOG, DEMO_COUNTER, DEMO_LANES };

/* In order; several may be the same. */
struct demo_instants {
	size_t n;
	weir_ns at[DEMO_INSTANTS_MAX];
};

/* One limit and what it did. */
struct demo_lane {
	const char *text; /* the limit as it was written */
	struct weir_limiter *limiter;
	bool shapes;                  /* what it admits departs later */
	struct demo_instants through; /* admitted; each at the instant at which it departs, which may be yet to come */
	struct demo_instants denied;
	weir_ns longest_wait;
	_Alignas(WEIR_LIMITER_ALIGN) unsigned char memory[WEIR_LIMITER_SIZE + 16 * DEMO_RATE];
};

struct demo_traffic {
	struct demo_instants arrivals; /* all of them, also those yet to come */
	size_t decided;                /* the first of arrivals that the lanes have not seen */
	weir_ns now;
	struct demo_lane lanes[DEMO_LANES];
};

/* Most instants within any [t, t + 1 s), and the first and last of them. */
struct demo_peak {
	size_t n;
	weir_ns first, last;
};

/* Fails as weir_limiter_init_text does. A traffic is not moved afterwards: its limiters live in it. */
int weir__demo_traffic_init(struct demo_traffic *traffic, struct weir_message *ret_message);

/* Puts every arrival before `until` to every lane. */
void weir__demo_traffic_run(struct demo_traffic *traffic, weir_ns until);

/* Whole units that a lane would admit now. */
uint64_t weir__demo_traffic_left(struct demo_traffic *traffic, enum demo_lane_name lane);

/* What is going on at an instant, in a few words. */
const char *weir__demo_traffic_says(weir_ns at);

/* How many lie within [from, until). */
size_t weir__demo_instants_within(const struct demo_instants *instants, weir_ns from, weir_ns until);

struct demo_peak weir__demo_instants_peak(const struct demo_instants *instants);

/* Between the two nearest neighbours; WEIR_NEVER if there are no two. */
weir_ns weir__demo_instants_closest(const struct demo_instants *instants);

#endif
