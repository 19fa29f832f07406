/* demo_traffic.h: the demo's simulation: one pattern of arrivals, sent to five limiters, and their verdicts.
 *
 * Reads no clock and draws nothing. Instants count from the start of the demo. The limiters get them added to a fixed
 * Unix time on a whole second, so that every run decides the same and windows begin on whole seconds. */
#ifndef WEIR_CLI_DEMO_TRAFFIC_H
#define WEIR_CLI_DEMO_TRAFFIC_H

#include <weir/limiter.h>

#define DEMO_RATE 10 /* requests per second of every limit, as in their texts */
#define DEMO_MS UINT64_C(1000000)
#define DEMO_SECOND (1000 * DEMO_MS)
#define DEMO_END (11 * DEMO_SECOND)
#define DEMO_INSTANTS_MAX 256

enum demo_lane_name { DEMO_BUCKET, DEMO_QUEUE, DEMO_WINDOW, DEMO_LOG, DEMO_COUNTER, DEMO_LANES };

/* In ascending order; several may be equal. */
struct demo_instants {
	size_t n;
	weir_ns at[DEMO_INSTANTS_MAX];
};

/* One limit and its verdicts. */
struct demo_lane {
	const char *text; /* the limit as it was written */
	struct weir_limiter *limiter;
	bool shapes;                  /* a leaky queue: allowed requests may depart later */
	struct demo_instants through; /* allowed requests, by the time of departure, which may be in the future */
	struct demo_instants denied;
	weir_ns longest_wait;
	_Alignas(WEIR_LIMITER_ALIGN) unsigned char memory[WEIR_LIMITER_SIZE + 16 * DEMO_RATE];
};

struct demo_traffic {
	struct demo_instants arrivals; /* all arrivals of the demo, future ones included */
	size_t decided;                /* index of the first arrival that the lanes have not decided */
	weir_ns now;
	struct demo_lane lanes[DEMO_LANES];
};

/* The largest number of instants within any [t, t + 1 s), and the first and last of them. */
struct demo_peak {
	size_t n;
	weir_ns first, last;
};

/* Fails as weir_limiter_init_text does. Do not move a traffic afterwards: its limiters live inside it. */
int weir__demo_traffic_init(struct demo_traffic *traffic, struct weir_message *ret_message);

/* Sends every arrival before `until` to every lane. */
void weir__demo_traffic_run(struct demo_traffic *traffic, weir_ns until);

/* Units that a lane would allow now, rounded down. */
uint64_t weir__demo_traffic_left(struct demo_traffic *traffic, enum demo_lane_name lane);

/* A caption for the phase at this instant. */
const char *weir__demo_traffic_says(weir_ns at);

/* How many instants lie within [from, until). */
size_t weir__demo_instants_within(const struct demo_instants *instants, weir_ns from, weir_ns until);

struct demo_peak weir__demo_instants_peak(const struct demo_instants *instants);

/* The shortest time between two neighbours; WEIR_NEVER if there are fewer than two instants. */
weir_ns weir__demo_instants_closest(const struct demo_instants *instants);

#endif
