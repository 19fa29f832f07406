/* demo_screen.c: frames, colours, and restoring the terminal. */
#include "cli/demo_screen.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define HIDE "\033[?25l\033[?7l" /* hides the cursor and turns line wrapping off */
#define SHOW "\033[0m\033[?7h\033[?25h"

#define LABEL_COLUMNS 22
#define CELLS_MIN 20
#define FRAME_LINES (5 + 2 * DEMO_LANES)
#define CELL_FINE (100 * DEMO_MS)
#define CELL_COARSE (200 * DEMO_MS)

/* The range of time that a frame shows, and the duration of a column. */
struct timeline {
	weir_ns cell, from, now;
	unsigned cells;
};

/* Remembers the current ink, so that a run of one colour costs one escape sequence. */
struct pen {
	bool coloured;
	enum demo_ink ink;
};

static volatile sig_atomic_t was_stopped; /* other programs may have written below the frame meanwhile */

/* --- terminal --------------------------------------------------------------------------------------------------- */

static void tell_terminal(const char *text)
{
	/* The result is ignored: this runs in signal handlers, and a terminal that is gone cannot be helped. */
	ssize_t ignored = write(STDOUT_FILENO, text, strlen(text));

	(void)ignored;
}

static void on_end(int signal_number)
{
	tell_terminal(SHOW "\n");
	raise(signal_number); /* SA_RESETHAND restored the default action: this time the signal ends the process */
}

static void on_stop(int signal_number)
{
	(void)signal_number;
	tell_terminal(SHOW);
	raise(SIGSTOP);
	was_stopped = 1;
	tell_terminal(HIDE);
}

static bool size_of_terminal(unsigned *ret_columns, unsigned *ret_rows)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
		return false;
	*ret_columns = size.ws_col;
	*ret_rows = size.ws_row;
	return true;
}

bool weir__demo_screen_init(struct demo_screen *screen)
{
	const char *terminal = getenv("TERM"), *no_colour = getenv("NO_COLOR");

	memset(screen, 0, sizeof(*screen));
	if (!isatty(STDOUT_FILENO) || terminal == NULL || terminal[0] == '\0' || strcmp(terminal, "dumb") == 0)
		return false;
	screen->coloured = no_colour == NULL || no_colour[0] == '\0';
	return size_of_terminal(&screen->columns, &screen->rows) && screen->rows > FRAME_LINES &&
	       screen->columns > LABEL_COLUMNS + CELLS_MIN;
}

void weir__demo_screen_enter(void)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_handler = on_end;
	action.sa_flags = (int)SA_RESETHAND;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		sigaction(ends[i], &action, NULL);
	action.sa_handler = on_stop;
	action.sa_flags = SA_RESTART;
	sigaction(SIGTSTP, &action, NULL);
	tell_terminal(HIDE);
}

void weir__demo_screen_leave(void)
{
	fflush(stdout);
	tell_terminal(SHOW);
}

const char *weir__demo_screen_ink(bool coloured, enum demo_ink ink)
{
	static const char *const escapes[] = {
		[DEMO_INK_NONE] = "\033[0m",    [DEMO_INK_BOLD] = "\033[1m",     [DEMO_INK_DIM] = "\033[2m",
		[DEMO_INK_HEAD] = "\033[4m",    [DEMO_INK_THROUGH] = "\033[32m", [DEMO_INK_QUEUED] = "\033[36m",
		[DEMO_INK_DENIED] = "\033[31m", [DEMO_INK_OVER] = "\033[1;33m",
	};

	return coloured ? escapes[ink] : "";
}

/* --- cells ------------------------------------------------------------------------------------------------------ */

static void ink(struct pen *pen, enum demo_ink next)
{
	if (next == pen->ink)
		return;
	if (pen->ink != DEMO_INK_NONE)
		fputs(weir__demo_screen_ink(pen->coloured, DEMO_INK_NONE), stdout);
	if (next != DEMO_INK_NONE)
		fputs(weir__demo_screen_ink(pen->coloured, next), stdout);
	pen->ink = next;
}

static void put(struct pen *pen, enum demo_ink with, const char *text)
{
	ink(pen, with);
	fputs(text, stdout);
}

static void end_line(struct pen *pen)
{
	put(pen, DEMO_INK_NONE, "\033[K\n");
}

/* Exact up to 5, coarser above. The legend shows this scale. */
static const char *bar(size_t n)
{
	static const char *const bars[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };

	return bars[n <= 5 ? n : n < 10 ? 6 : n < 16 ? 7 : 8];
}

/* Draws the number of instants in each cell as a bar, or as `mark` if it is not NULL. Without a mark, a cell that
 * starts a second and has no instants gets a faint dot. Cells in the future stay blank. */
static void draw_cells(struct pen *pen, const struct timeline *line, const struct demo_instants *instants,
		       enum demo_ink with, const char *mark)
{
	for (unsigned i = 0; i < line->cells; i++) {
		weir_ns from = line->from + i * line->cell, until = from + line->cell;
		size_t n = weir__demo_instants_within(instants, from, until < line->now ? until : line->now);

		if (n > 0)
			put(pen, with, mark ? mark : bar(n));
		else if (from % DEMO_SECOND == 0 && !mark)
			put(pen, DEMO_INK_DIM, "·");
		else
			fputs(" ", stdout);
	}
	end_line(pen);
}

static void draw_axis(struct pen *pen, const struct timeline *line)
{
	unsigned i = 0;

	ink(pen, DEMO_INK_DIM);
	printf("%*s", LABEL_COLUMNS, "seconds ");
	while (i < line->cells) {
		weir_ns at = line->from + i * line->cell;

		if (at % DEMO_SECOND == 0) {
			i += (unsigned)printf("%u", (unsigned)(at / DEMO_SECOND));
		} else {
			fputs(" ", stdout);
			i++;
		}
	}
	end_line(pen);
}

/* Draws a name and a number in `width` columns, trailing blanks included. The widths of one line add up to
 * LABEL_COLUMNS. */
static void draw_count(struct pen *pen, const char *name, enum demo_ink with, size_t n, int width)
{
	put(pen, DEMO_INK_DIM, name);
	ink(pen, n > 0 ? with : DEMO_INK_NONE);
	printf(" %-*zu", width - (int)strlen(name) - 1, n);
}

static void draw_lane(struct pen *pen, const struct timeline *line, struct demo_traffic *traffic, enum demo_lane_name i)
{
	const struct demo_lane *lane = &traffic->lanes[i];

	put(pen, DEMO_INK_BOLD, "");
	printf("%-*s", LABEL_COLUMNS, lane->text);
	ink(pen, DEMO_INK_NONE);
	draw_cells(pen, line, &lane->through, lane->shapes ? DEMO_INK_QUEUED : DEMO_INK_THROUGH, NULL);
	draw_count(pen, "ok", DEMO_INK_THROUGH, lane->through.n, 7);
	draw_count(pen, "no", DEMO_INK_DENIED, lane->denied.n, 7);
	draw_count(pen, "left", DEMO_INK_NONE, weir__demo_traffic_left(traffic, i), LABEL_COLUMNS - 14);
	draw_cells(pen, line, &lane->denied, DEMO_INK_DENIED, "×");
}

/* --- frames ----------------------------------------------------------------------------------------------------- */

/* Shows all of the demo if it fits, in fine columns if those fit; else the latest part of it. */
static struct timeline fit(const struct demo_screen *screen, weir_ns now)
{
	unsigned least = LABEL_COLUMNS + 1 + CELLS_MIN;
	unsigned room = (screen->columns > least ? screen->columns : least) - LABEL_COLUMNS - 1;
	struct timeline line = { CELL_FINE, 0, now, (unsigned)(DEMO_END / CELL_FINE) };
	unsigned reached;

	if (room >= line.cells)
		return line;
	line.cell = CELL_COARSE;
	line.cells = (unsigned)(DEMO_END / CELL_COARSE);
	if (room >= line.cells)
		return line;
	line.cells = room;
	reached = (unsigned)((now + CELL_COARSE - 1) / CELL_COARSE);
	if (reached > room)
		line.from = (reached - room) * CELL_COARSE;
	return line;
}

static void draw_head(struct pen *pen, const struct timeline *line, const struct demo_traffic *traffic)
{
	put(pen, DEMO_INK_BOLD, "weir demo");
	put(pen, DEMO_INK_NONE, "");
	printf("  the same %zu requests, five ways to allow %d a second", traffic->arrivals.n, DEMO_RATE);
	end_line(pen);
	put(pen, DEMO_INK_DIM, "");
	printf("allowed in %.1f s: ▁1 ▂2 ▃3 ▄4 ▅5 ▆6+ ▇10+ █16+  × denied  left: remaining",
	       (double)line->cell / (double)DEMO_SECOND);
	end_line(pen);
	put(pen, DEMO_INK_BOLD, "");
	printf("arrivals %-*zu", LABEL_COLUMNS - 9, traffic->decided);
	ink(pen, DEMO_INK_NONE);
	draw_cells(pen, line, &traffic->arrivals, DEMO_INK_NONE, NULL);
}

static void draw_caption(struct pen *pen, weir_ns now)
{
	if (now < DEMO_END) {
		put(pen, DEMO_INK_OVER, "");
		printf("%4.1f s  %s", (double)now / (double)DEMO_SECOND, weir__demo_traffic_says(now));
	}
	end_line(pen);
}

void weir__demo_screen_draw(struct demo_screen *screen, struct demo_traffic *traffic)
{
	struct pen pen = { screen->coloured, DEMO_INK_NONE };
	unsigned columns = screen->columns, rows = screen->rows;
	struct timeline line;

	size_of_terminal(&columns, &rows);
	if (columns != screen->columns || rows != screen->rows || rows <= FRAME_LINES || was_stopped)
		fputs("\033[H\033[2J",
		      stdout); /* the terminal may have moved, wrapped or cut the last frame, so clear it */
	else if (screen->lines > 0)
		printf("\033[%uA\r", screen->lines);
	was_stopped = 0;
	screen->columns = columns;
	screen->rows = rows;
	line = fit(screen, traffic->now);
	draw_head(&pen, &line, traffic);
	for (unsigned i = 0; i < DEMO_LANES; i++)
		draw_lane(&pen, &line, traffic, (enum demo_lane_name)i);
	draw_axis(&pen, &line);
	draw_caption(&pen, traffic->now);
	fflush(stdout);
	screen->lines = FRAME_LINES;
}
