/* demo.c: the five algorithms side by side. Reads the arguments and paces the run. demo_traffic.c makes the decisions.
 * demo_screen.c draws them in a terminal, and demo_report.c prints them elsewhere. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/command.h"
#include "cli/demo_redis.h"
#include "cli/demo_report.h"
#include "cli/demo_screen.h"
#include "cli/demo_traffic.h"
#include "os/monotonic.h"

#define SPEED_LEAST 0.1
#define SPEED_MOST 1000.0
#define FRAME_NS (40.0 * 1e6)            /* real time between two frames */
#define STEP_UNPACED (200 * DEMO_MS)     /* simulated time per frame if nothing waits for real time */
#define LATE_NS (INT64_C(500) * 1000000) /* beyond this, the process was suspended: do not catch up */

/* Maps simulated time to real time. */
struct pace {
	double speed;  /* 0: do not wait */
	int64_t start; /* real time at which the demo started */
};

static const char usage[] = "usage: weir demo [--speed N]\n"
			    "       weir demo redis\n"
			    "\n"
			    "The five algorithms side by side on the same bursty traffic: live in a terminal,\n"
			    "a line for each second elsewhere, and a table at the end. Time is simulated, so\n"
			    "every run gives the same result. With redis: two servers that share a limit.\n"
			    "\n"
			    "  --speed N  N times as fast as real time, from 0.1 to 1000; 0 does not wait at\n"
			    "             all. Default: 1, which takes 11 seconds\n"
			    "  --help     show this\n"
			    "\n"
			    "NO_COLOR=1 in the environment turns colours off.\n";

static bool read_speed(const char *text, double *ret_speed)
{
	char *end;
	double speed;

	if (text[0] < '0' || text[0] > '9')
		return false;
	speed = strtod(text, &end);
	if (*end != '\0' || !(speed == 0 || (speed >= SPEED_LEAST && speed <= SPEED_MOST)))
		return false;
	*ret_speed = speed;
	return true;
}

/* Returns -1 to continue, else the exit code. */
static int read_arguments(int argc, char **argv, double *ret_speed)
{
	for (int i = 1; i < argc; i++) {
		const char *value;

		if (weir__command_is_help(argv[i])) {
			fputs(usage, stdout);
			return 0;
		}
		if (strncmp(argv[i], "--speed=", 8) == 0) {
			value = argv[i] + 8;
		} else if (strcmp(argv[i], "--speed") == 0) {
			value = ++i < argc ? argv[i] : "";
		} else {
			struct weir__nearest nearest = weir__nearest_of(argv[i], strlen(argv[i]));

			weir__nearest_offer(&nearest, "--speed");
			weir__nearest_offer(&nearest, "redis");
			weir__command_refuse_option(&nearest, "weir demo", "use --speed N, redis or --help");
			return 2;
		}
		if (!read_speed(value, ret_speed)) {
			fprintf(stderr, "weir demo: --speed \"%s\": use 0, or a number from 0.1 to 1000\n", value);
			return 2;
		}
	}
	return -1;
}

static void wait_until(struct pace *pace, weir_ns simulated)
{
	struct timespec until;
	int64_t at, late;

	if (pace->speed == 0)
		return;
	at = pace->start + (int64_t)((double)simulated / pace->speed);
	late = (int64_t)weir__monotonic_ns() - at;
	if (late > LATE_NS) {
		pace->start += late;
		return;
	}
	until.tv_sec = at / 1000000000;
	until.tv_nsec = at % 1000000000;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
		;
}

static void run_screen(struct demo_traffic *traffic, struct demo_screen *screen, struct pace *pace)
{
	weir_ns step = pace->speed > 0 ? (weir_ns)(FRAME_NS * pace->speed) : STEP_UNPACED;

	weir__demo_screen_enter();
	weir__demo_screen_draw(screen, traffic);
	while (traffic->now < DEMO_END) {
		weir_ns next = traffic->now + step < DEMO_END ? traffic->now + step : DEMO_END;

		wait_until(pace, next);
		weir__demo_traffic_run(traffic, next);
		weir__demo_screen_draw(screen, traffic);
	}
	weir__demo_screen_leave();
	weir__demo_report_table(traffic, screen->coloured);
}

static void run_lines(struct demo_traffic *traffic, struct pace *pace)
{
	weir__demo_report_head(traffic);
	fflush(stdout);
	while (traffic->now < DEMO_END) {
		weir_ns next = traffic->now + DEMO_SECOND;

		wait_until(pace, next);
		weir__demo_traffic_run(traffic, next);
		weir__demo_report_second(traffic);
		fflush(stdout);
	}
	puts("");
	weir__demo_report_table(traffic, false);
	puts("");
}

int weir__demo(int argc, char **argv)
{
	static struct demo_traffic traffic;
	/* Holds a full frame, so that each goes out in one write and none appears half drawn. */
	static char buffer[1 << 16];
	struct pace pace = { 1, (int64_t)weir__monotonic_ns() };
	struct demo_screen screen;
	struct weir_message why;
	int code;

	if (argc > 1 && strcmp(argv[1], "redis") == 0)
		return weir__demo_redis(argc - 1, argv + 1);
	code = read_arguments(argc, argv, &pace.speed);
	if (code >= 0)
		return code;
	if (weir__demo_traffic_init(&traffic, &why) != WEIR_OK) {
		fprintf(stderr, "weir demo: %s\n", why.text);
		return 1;
	}
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	if (weir__demo_screen_init(&screen))
		run_screen(&traffic, &screen, &pace);
	else
		run_lines(&traffic, &pace);
	weir__demo_report_notes(&traffic);
	return 0;
}
