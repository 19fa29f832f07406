/* top_draw.c: the lines of weir top. */
#include "cli/top_draw.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define PLAIN "\033[0m"
#define BOLD "\033[1m"
#define DIM "\033[2m"
#define REVERSE "\033[7m"
#define RED "\033[31m"
#define GREEN "\033[32m"
#define YELLOW "\033[33m"

enum {
	NAME_LEAST = 16,
	NAME_MOST = 40,
	KEYS_LEAST = 3, /* lines of keys on a screen that is not low */
	KEYS_MOST = 10,
	FRAME = 2,   /* lines that are always shown: the heading of the limits, the last line */
	NARROW = 60, /* fewer columns: short heads, one list of keys, the name may be shorter */
	LOW = 15,    /* fewer rows: fewer lines for the server and for keys */
	LOWER = 12,  /* fewer rows: no keys */
	LOWEST = 8,  /* fewer rows: one line for the server */
};

/* How lines are drawn. */
struct style {
	bool is_coloured, is_narrow;
	unsigned widths[WEIR__TOP_COLUMNS]; /* 0: the column is not shown */
};

struct column {
	const char *head;
	unsigned width;
};

static const struct column wide_columns[WEIR__TOP_COLUMNS] = {
	[WEIR__TOP_NAME] = { "LIMIT", NAME_LEAST },  [WEIR__TOP_MODE] = { "MODE", 7 },
	[WEIR__TOP_ALGORITHM] = { "ALGORITHM", 13 }, [WEIR__TOP_ALLOWED] = { "ALLOWED/s", 9 },
	[WEIR__TOP_REJECTED] = { "DENIED/s", 10 },   [WEIR__TOP_SHARE] = { "DEN%", 5 },
	[WEIR__TOP_DELAYED] = { "DELAYED/s", 9 },    [WEIR__TOP_FILL] = { "LEFT", 10 },
	[WEIR__TOP_MINUTE] = { "MINUTE", 10 },
};

static const struct column narrow_columns[WEIR__TOP_COLUMNS] = {
	[WEIR__TOP_NAME] = { "LIMIT", 8 },           [WEIR__TOP_MODE] = { "MODE", 7 },
	[WEIR__TOP_ALGORITHM] = { "ALGORITHM", 13 }, [WEIR__TOP_ALLOWED] = { "ALLOW/s", 7 },
	[WEIR__TOP_REJECTED] = { "DEN/s", 6 },       [WEIR__TOP_SHARE] = { "DEN%", 5 },
	[WEIR__TOP_DELAYED] = { "DELAY/s", 7 },      [WEIR__TOP_FILL] = { "LEFT", 10 },
	[WEIR__TOP_MINUTE] = { "MINUTE", 10 },
};

static const struct column *columns_of(const struct style *style)
{
	return style->is_narrow ? narrow_columns : wide_columns;
}

static bool is_number(enum weir__top_column column)
{
	return column >= WEIR__TOP_ALLOWED && column <= WEIR__TOP_DELAYED;
}

static void ink(struct weir__top_text *text, const struct style *style, const char *escape)
{
	if (style->is_coloured)
		weir__top_text_ink(text, escape);
}

/* --- which columns ----------------------------------------------------------------------------------------------- */

/* Adds columns in order of importance while they fit. The rest of the width goes to the names up to 24 columns, then to
 * the minute's chart, then to the names. */
static void choose_columns(struct style *style, unsigned room)
{
	static const enum weir__top_column by_worth[] = { WEIR__TOP_NAME,  WEIR__TOP_REJECTED, WEIR__TOP_ALLOWED,
							  WEIR__TOP_SHARE, WEIR__TOP_FILL,     WEIR__TOP_MINUTE,
							  WEIR__TOP_MODE,  WEIR__TOP_DELAYED,  WEIR__TOP_ALGORITHM };
	const struct column *columns;
	unsigned left = room - 2; /* the mark of the selected limit */

	style->is_narrow = room < NARROW;
	columns = columns_of(style);
	memset(style->widths, 0, sizeof(style->widths));
	for (size_t i = 0; i < WEIR__TOP_COLUMNS; i++) {
		const enum weir__top_column column = by_worth[i];

		if (columns[column].width + 1 > left)
			continue;
		style->widths[column] = columns[column].width;
		left -= columns[column].width + 1;
	}
	for (; left > 0 && style->widths[WEIR__TOP_NAME] < 24; left--)
		style->widths[WEIR__TOP_NAME]++;
	for (; left > 0 && style->widths[WEIR__TOP_MINUTE] > 0 && style->widths[WEIR__TOP_MINUTE] < WEIR__TOP_SECONDS;
	     left--)
		style->widths[WEIR__TOP_MINUTE]++;
	for (; left > 0 && style->widths[WEIR__TOP_NAME] < NAME_MOST; left--)
		style->widths[WEIR__TOP_NAME]++;
}

unsigned weir__top_draw_shown(unsigned room)
{
	struct style style = { .is_coloured = false };
	unsigned shown = 0;

	choose_columns(&style, room < WEIR__TOP_COLUMNS_LEAST ? WEIR__TOP_COLUMNS_LEAST : room);
	for (unsigned i = 0; i < WEIR__TOP_COLUMNS; i++)
		shown |= style.widths[i] > 0 ? 1U << i : 0;
	return shown;
}

/* --- the server -------------------------------------------------------------------------------------------------- */

static void add_number(struct weir__top_text *text, const char *before, uint64_t number, const char *after)
{
	char digits[WEIR__TOP_NUMBER_SIZE];

	weir__top_number(number, digits);
	weir__top_text_put(text, before, (unsigned)strlen(before));
	weir__top_text_put(text, digits, (unsigned)strlen(digits));
	weir__top_text_put(text, after, (unsigned)strlen(after));
}

static void add_words(struct weir__top_text *text, const char *words)
{
	weir__top_text_put(text, words, (unsigned)strlen(words));
}

/* Adds a number and a noun, with a plural s if the number is not 1. */
static void add_some(struct weir__top_text *text, const char *before, uint64_t number, const char *what)
{
	add_number(text, before, number, what);
	if (number != 1)
		add_words(text, "s");
}

static void add_title(struct weir__top_text *text, const struct style *style, const struct weir__top_view *view,
		      const char *where)
{
	char age[WEIR__TOP_NUMBER_SIZE];

	ink(text, style, BOLD);
	add_words(text, "weir top  ");
	weir__top_text_add(text, view->server.service, 24);
	ink(text, style, PLAIN);
	if (view->server.at_ms > 0) {
		weir__top_age(view->server.uptime_s, age);
		add_words(text, "  ");
		weir__top_text_add(text, view->server.version, 16);
		add_words(text, ", up ");
		add_words(text, age);
	}
	add_words(text, "  ");
	weir__top_text_add(text, where, 40);
}

static void add_protocols(struct weir__top_text *text, const struct weir__top_view *view)
{
	static const char *const names[2] = { "RESP ", "HTTP " };
	char digits[WEIR__TOP_NUMBER_SIZE];

	for (int i = 0; i < 2; i++) {
		add_words(text, names[i]);
		if (view->has_rates) {
			weir__top_tenths(view->rates[i], digits);
			add_words(text, digits);
			add_words(text, "/s on ");
		}
		if (i == 0)
			add_number(text, "", view->server.connections[i], ", ");
		else
			add_some(text, "", view->server.connections[i], " connection");
	}
}

static void add_table(struct weir__top_text *text, const struct weir__top_view *view)
{
	add_some(text, "", view->server.live_keys, " key");
	add_number(text, " of ", view->server.capacity_keys, "");
	if (view->server.evicted > 0)
		add_number(text, ", ", view->server.evicted, " evicted");
	if (view->server.folded > 0)
		add_number(text, ", ", view->server.folded, " folded");
}

/* Adds a rate per second. `sum` is the total of the last WEIR__TOP_RATE_SECONDS. */
static void add_rate(struct weir__top_text *text, uint64_t sum, unsigned width)
{
	char digits[WEIR__TOP_NUMBER_SIZE];

	weir__top_tenths(sum * 10 / WEIR__TOP_RATE_SECONDS, digits);
	weir__top_text_right(text, digits, width);
}

/* Adds the rates of allowed, denied and delayed requests. */
static void add_requests(struct weir__top_text *text, const struct weir__top_view *view)
{
	const struct weir__top_server *const server = &view->server;
	const unsigned share = weir__top_share(server->allowed, server->rejected);
	char words[32];

	if (server->is_blind)
		add_words(text, "observe is off: ");
	if (!server->has_all && !(server->is_blind && view->has_rates)) {
		add_words(text, server->is_blind ? "rates follow with the next refresh" : "");
		return;
	}
	add_words(text, "allowed ");
	add_rate(text, server->allowed, 0);
	add_words(text, "/s, denied ");
	add_rate(text, server->rejected, 0);
	(void)snprintf(words, sizeof(words), "/s, %u.%u %%", share / 10, share % 10);
	add_words(text, words);
	if (server->is_blind) {
		add_words(text, " by limits");
		return;
	}
	add_words(text, ", delayed ");
	add_rate(text, server->delayed, 0);
	add_words(text, "/s");
}

static void add_duration(struct weir__top_text *text, const char *before, uint64_t ns)
{
	char words[48];

	if (ns < 10000000)
		(void)snprintf(words, sizeof(words), "%s%" PRIu64 " us", before, (ns + 999) / 1000);
	else
		(void)snprintf(words, sizeof(words), "%s%" PRIu64 " ms", before, ns / 1000000);
	add_words(text, words);
}

static void add_state(struct weir__top_text *text, const struct weir__top_view *view)
{
	const struct weir__top_server *const server = &view->server;

	if (server->has_policy) {
		add_some(text, "policy of ", server->policy_limits, " limit");
		if (server->policy_changes > 0)
			add_some(text, ", changed ", server->policy_changes, " time");
		if (server->is_policy_refused)
			add_words(text, ", the latest version has errors");
		else if (server->policy_failures > 0)
			add_number(text, ", ", server->policy_failures, " had errors before");
		if (server->unmatched > 0) {
			add_some(text, ", ", server->unmatched, " request");
			add_words(text, " matched no limit");
		}
	} else {
		add_words(text, "no policy");
	}
	if (server->has_store) {
		add_words(text, "; store ");
		weir__top_text_add(text, server->store, 12);
		add_some(text, ", ", server->store_nodes, " node");
		if (server->store_deferred > 0) {
			add_some(text, ", ", server->store_deferred, " key");
			add_words(text, " with deferred charges");
		}
		add_some(text, ", ", server->store_calls_per_1000, " call");
		add_words(text, " per 1,000 decisions");
		add_some(text, ", ", server->lease_held, " unit");
		add_words(text, " held");
		if (server->eventual_waiting > 0) {
			add_some(text, ", ", server->eventual_waiting, " unit");
			add_words(text, " waiting");
		}
	}
	if (server->has_latency) {
		add_duration(text, "; p50 ", server->answer_p50_ns);
		add_duration(text, ", p99 ", server->answer_p99_ns);
	}
}

/* --- limits ------------------------------------------------------------------------------------------------------ */

/* Marks the column that the limits are sorted by. The mark follows the name of a text column and replaces the blank
 * after a number column. */
static void add_head(struct weir__top_text *text, const struct style *style, const struct weir__top_view *view)
{
	add_words(text, "  ");
	for (unsigned i = 0; i < WEIR__TOP_COLUMNS; i++) {
		const char *const sign = i != view->sort ? "" : view->is_reversed ? "^" : "v";
		const bool is_right = is_number((enum weir__top_column)i);
		char head[32];

		if (style->widths[i] == 0)
			continue;
		(void)snprintf(head, sizeof(head), "%s%s", columns_of(style)[i].head, is_right ? "" : sign);
		ink(text, style, *sign ? BOLD : DIM);
		if (is_right)
			weir__top_text_right(text, head, style->widths[i]);
		else
			weir__top_text_cell(text, head, style->widths[i]);
		add_words(text, is_right && *sign ? sign : " ");
		ink(text, style, PLAIN);
	}
}

static void add_fill(struct weir__top_text *text, int fill, unsigned width)
{
	char digits[16];

	if (fill < 0) {
		weir__top_text_cell(text, "-", width);
		return;
	}
	(void)snprintf(digits, sizeof(digits), "%d%%", fill / 10);
	weir__top_text_bar(text, (unsigned)fill, width - 5);
	weir__top_text_right(text, digits, 5); /* up to 100%, with a blank before it */
}

/* A limit that is not enforced only would deny, so its count has another colour. */
static const char *colour_of_denied(const struct weir__top_limit *limit)
{
	return strcmp(limit->mode, "enforce") == 0 ? RED : YELLOW;
}

/* One column per second: its height is the decisions relative to the busiest second of the minute, in another colour if
 * any were denied. */
static void add_minute(struct weir__top_text *text, const struct style *style, const struct weir__top_limit *limit,
		       unsigned width)
{
	uint32_t most = 1;
	bool is_red = false;

	for (unsigned i = 0; i < WEIR__TOP_SECONDS; i++)
		most = limit->decided[i] > most ? limit->decided[i] : most;
	for (unsigned i = WEIR__TOP_SECONDS - width; i < WEIR__TOP_SECONDS; i++) {
		const bool is_denied = limit->denied[i] > 0;

		if (is_denied != is_red)
			ink(text, style, is_denied ? colour_of_denied(limit) : PLAIN);
		is_red = is_denied;
		weir__top_text_height(text, (unsigned)(((uint64_t)limit->decided[i] * 8 + most - 1) / most));
	}
	if (is_red)
		ink(text, style, PLAIN);
}

/* If the mode column does not fit, a limit that is not enforced shows its mode after its name. */
static void add_name(struct weir__top_text *text, const struct style *style, const struct weir__top_limit *limit)
{
	const unsigned width = style->widths[WEIR__TOP_NAME], end = text->columns + width;
	const unsigned mode = (unsigned)strlen(limit->mode);

	if (style->widths[WEIR__TOP_MODE] > 0 || strcmp(limit->mode, "enforce") == 0 || mode + 2 > width) {
		weir__top_text_cell(text, limit->name, width);
		return;
	}
	weir__top_text_add(text, limit->name, width - mode - 1);
	add_words(text, " ");
	weir__top_text_add(text, limit->mode, mode);
	weir__top_text_to(text, end);
}

static void add_cell(struct weir__top_text *text, const struct style *style, const struct weir__top_limit *limit,
		     enum weir__top_column column)
{
	const unsigned width = style->widths[column], share = weir__top_share(limit->allowed, limit->rejected);
	char digits[16];

	switch (column) {
	case WEIR__TOP_NAME:
		add_name(text, style, limit);
		break;
	case WEIR__TOP_MODE:
		weir__top_text_cell(text, limit->mode, width);
		break;
	case WEIR__TOP_ALGORITHM:
		weir__top_text_cell(text, limit->algorithm, width);
		break;
	case WEIR__TOP_ALLOWED:
		add_rate(text, limit->allowed, width);
		break;
	case WEIR__TOP_REJECTED:
		add_rate(text, limit->rejected, width);
		break;
	case WEIR__TOP_SHARE:
		(void)snprintf(digits, sizeof(digits), "%u.%u", share / 10, share % 10);
		weir__top_text_right(text, digits, width);
		break;
	case WEIR__TOP_DELAYED:
		add_rate(text, limit->delayed, width);
		break;
	case WEIR__TOP_FILL:
		add_fill(text, limit->fill, width);
		break;
	default:
		add_minute(text, style, limit, width);
	}
}

static void add_limit(struct weir__top_text *text, const struct style *style, const struct weir__top_limit *limit,
		      bool is_selected)
{
	add_words(text, is_selected ? "> " : "  ");
	for (unsigned i = 0; i < WEIR__TOP_COLUMNS; i++) {
		const char *const colour = i == WEIR__TOP_NAME && is_selected ? REVERSE :
					   i == WEIR__TOP_MODE && strcmp(limit->mode, "enforce") != 0 ?
										YELLOW :
					   (i == WEIR__TOP_REJECTED || i == WEIR__TOP_SHARE) && limit->rejected > 0 ?
										colour_of_denied(limit) :
					   i == WEIR__TOP_FILL && limit->fill >= 0 ? limit->fill < 100 ? RED : GREEN :
										     NULL;

		if (style->widths[i] == 0)
			continue;
		if (colour)
			ink(text, style, colour);
		add_cell(text, style, limit, (enum weir__top_column)i);
		if (colour)
			ink(text, style, PLAIN);
		add_words(text, " ");
	}
}

/* --- keys -------------------------------------------------------------------------------------------------------- */

/* A ~ marks a count that may be too high. */
static void add_key(struct weir__top_text *text, const struct weir__top_busy_keys *busy_keys, size_t i, unsigned width)
{
	char digits[WEIR__TOP_NUMBER_SIZE];

	if (i >= busy_keys->n)
		return;
	weir__top_number(busy_keys->of[i].count, digits);
	weir__top_text_right(text, digits, 8);
	add_words(text, busy_keys->of[i].error > 0 ? "~ " : "  ");
	weir__top_text_add(text, busy_keys->of[i].key, width - 10);
}

static void add_keys_title(struct weir__top_text *text, const struct style *style, const struct weir__top_view *view,
			   unsigned half)
{
	const struct weir__top_limit *const limit = weir__top_view_selected(view);
	unsigned room = half - 14; /* of the name */
	char words[64], consistency[48] = "";

	if (limit == NULL)
		return;
	if (limit->lease_bound > 0)
		(void)snprintf(consistency, sizeof(consistency), ", leased up to %" PRIu64 " units",
			       limit->lease_bound);
	else if (limit->is_eventual)
		(void)snprintf(consistency, sizeof(consistency), ", eventual within %" PRIu64 " units",
			       limit->eventual_bound);
	else if (limit->is_exact)
		(void)snprintf(consistency, sizeof(consistency), ", exact");
	if (strlen(limit->name) + strlen(consistency) > room)
		consistency[0] = '\0';
	room -= (unsigned)strlen(consistency);
	ink(text, style, BOLD);
	weir__top_text_add(text, limit->name, room);
	ink(text, style, PLAIN);
	add_words(text, consistency);
	add_words(text, ": top keys");
	weir__top_text_to(text, half);
	(void)snprintf(words, sizeof(words), "denied most, in %" PRIu64 " s", view->keys_for_s);
	add_words(text, view->keys_for_s > 0 ? words : "denied most");
}

/* A narrow screen has one list: the keys that are denied most or, if none is denied, the keys with the most
 * requests. */
static const struct weir__top_busy_keys *narrow_keys(const struct weir__top_view *view)
{
	return view->denied.n > 0 ? &view->denied : &view->busy;
}

static void add_keys(struct weir__top_text *text, const struct weir__top_view *view, size_t i, unsigned half)
{
	add_key(text, &view->busy, i, half - 1);
	weir__top_text_to(text, half);
	add_key(text, &view->denied, i, half);
}

static void draw_keys(struct weir__top_screen *screen, const struct style *style, const struct weir__top_view *view,
		      unsigned lines)
{
	const bool is_denied = narrow_keys(view) == &view->denied;
	struct weir__top_text text = weir__top_screen_line(screen);

	if (!style->is_narrow) {
		add_keys_title(&text, style, view, screen->columns / 2);
	} else if (weir__top_view_selected(view)) {
		ink(&text, style, BOLD);
		weir__top_text_add(&text, is_denied ? "denied most" : "top keys", screen->columns);
		ink(&text, style, PLAIN);
	}
	for (size_t i = 0; i < lines; i++) {
		text = weir__top_screen_line(screen);
		if (style->is_narrow)
			add_key(&text, narrow_keys(view), i, screen->columns);
		else
			add_keys(&text, view, i, screen->columns / 2);
	}
}

/* --- the screen -------------------------------------------------------------------------------------------------- */

static void draw_title(struct weir__top_screen *screen, const struct style *style, const struct weir__top_view *view,
		       const struct weir__top_state *state)
{
	struct weir__top_text text = weir__top_screen_line(screen);

	if (!(state->is_paused && style->is_narrow))
		add_title(&text, style, view, state->where);
	if (state->is_paused) {
		ink(&text, style, YELLOW);
		add_words(&text, style->is_narrow ? "paused" : "  paused");
		ink(&text, style, PLAIN);
	}
}

static void draw_trouble(struct weir__top_screen *screen, const struct style *style,
			 const struct weir__top_state *state)
{
	struct weir__top_text text = weir__top_screen_line(screen);

	ink(&text, style, RED);
	weir__top_text_add(&text, state->trouble, screen->columns);
	ink(&text, style, PLAIN);
}

/* Draws 1, 2 or 4 lines. Errors are shown however few there are. */
static void draw_server(struct weir__top_screen *screen, const struct style *style, const struct weir__top_view *view,
			const struct weir__top_state *state, unsigned lines)
{
	const bool is_known = view->server.at_ms > 0, is_wrong = state->trouble[0] != '\0';
	struct weir__top_text text;

	if (lines > 1 || !is_wrong)
		draw_title(screen, style, view, state);
	if (lines == 4) {
		text = weir__top_screen_line(screen);
		if (is_known) {
			add_protocols(&text, view);
			add_words(&text, "; ");
			add_table(&text, view);
		}
	}
	if (lines == 4 || (lines == 2 && !is_wrong)) {
		text = weir__top_screen_line(screen);
		if (is_known)
			add_requests(&text, view);
	}
	if (is_wrong) {
		draw_trouble(screen, style, state);
	} else if (lines == 4) {
		text = weir__top_screen_line(screen);
		if (is_known)
			add_state(&text, view);
	}
}

/* Says that no limit matches the filter, and how many limits the server left out of the document. */
static void add_none(struct weir__top_text *text, const struct weir__top_view *view)
{
	if (view->server.left_out > 0)
		add_some(text, "  no match among these; ", view->server.left_out, " more limit");
	else
		add_words(text, "  no limit matches: Esc shows all");
}

/* Draws `lines` lines of limits, the selected limit among them. */
static void draw_limits(struct weir__top_screen *screen, const struct style *style, const struct weir__top_view *view,
			unsigned lines)
{
	const size_t first = view->at < lines ? 0 : view->at - lines + 1;
	struct weir__top_text text = weir__top_screen_line(screen);

	add_head(&text, style, view);
	for (size_t i = first; i < first + lines; i++) {
		text = weir__top_screen_line(screen);
		if (i < view->n_ordered)
			add_limit(&text, style, &view->limits[view->order[i]], i == view->at);
		else if (i == 0 && view->filter[0] != '\0')
			add_none(&text, view);
	}
}

static void draw_help(struct weir__top_screen *screen, const struct style *style, unsigned lines)
{
	static const char *const wide[] = {
		"up, down, j, k      select a limit; its keys are shown below (PageUp, PageDown, g, G)",
		"s, S                sort by the next column; reverse the order",
		"/                   show limits whose names contain this; Esc shows all",
		"p, space            pause, and resume",
		"+, -                refresh more often, less often",
		"?                   show or close this help",
		"q                   quit",
		"",
		"Rates are means of the last 5 s. LEFT is the mean of what decisions of the last 10 s left of",
		"the limit. A key's count with ~ may be too high, never too low.",
	};
	static const char *const narrow[] = { "j, k  select",    "s, S  sort",       "/     filter", "p     pause",
					      "+, -  how often", "?     close help", "q     quit" };
	const char *const *const words = style->is_narrow ? narrow : wide;
	const size_t n = style->is_narrow ? sizeof(narrow) / sizeof(narrow[0]) : sizeof(wide) / sizeof(wide[0]);

	for (unsigned i = 0; i < lines; i++) {
		struct weir__top_text text = weir__top_screen_line(screen);

		if (i < n) {
			add_words(&text, "  ");
			weir__top_text_add(&text, words[i], screen->columns - 2);
		}
	}
}

static void add_left_out(struct weir__top_text *text, const char *before, const struct weir__top_view *view)
{
	add_some(text, before, view->server.left_out, " limit");
	add_words(text, " not shown");
}

static void draw_last(struct weir__top_screen *screen, const struct style *style, const struct weir__top_view *view,
		      const struct weir__top_state *state)
{
	struct weir__top_text text = weir__top_screen_line(screen);
	char words[96];

	if (state->is_typing || view->filter[0] != '\0') {
		add_words(&text, "/");
		weir__top_text_add(&text, view->filter, screen->columns - (style->is_narrow ? 2 : 20));
		add_words(&text, state->is_typing ? "_  Enter, or Esc for all" : "  Esc shows all");
		return;
	}
	ink(&text, style, DIM);
	(void)snprintf(words, sizeof(words),
		       style->is_narrow ? "? help  q quit  every %u.%02u s" :
					  "q quit  s sort  / filter  p pause  +- every %u.%02u s  ? help",
		       state->interval_ms / 1000, state->interval_ms % 1000 / 10);
	weir__top_text_add(&text, words, screen->columns);
	if (view->server.left_out > 0)
		add_left_out(&text, "  ", view);
	ink(&text, style, PLAIN);
}

/* How the rows of the screen are divided. The limits get what is left. */
struct parts {
	unsigned server, keys; /* keys: without their title; 0: no keys */
};

static struct parts divide(unsigned columns, unsigned rows)
{
	const unsigned third = (rows - 4 - FRAME) / 3;

	if (rows < LOWEST || (rows < LOWER && columns < NARROW))
		return (struct parts){ 1, 0 };
	if (rows < LOWER)
		return (struct parts){ 2, 0 };
	if (rows < LOW)
		return (struct parts){ columns < NARROW ? 1 : 2, 2 };
	return (struct parts){ 4, third < KEYS_LEAST ? KEYS_LEAST : third > KEYS_MOST ? KEYS_MOST : third };
}

void weir__top_draw(struct weir__top_screen *screen, const struct weir__top_view *view,
		    const struct weir__top_state *state)
{
	struct style style = { .is_coloured = screen->is_coloured };
	struct weir__top_text text;
	struct parts parts;
	unsigned rest;

	if (screen->columns < WEIR__TOP_COLUMNS_LEAST || screen->rows < WEIR__TOP_ROWS_LEAST) {
		text = weir__top_screen_line(screen);
		_Static_assert((int)WEIR__TOP_COLUMNS_LEAST == 20 && (int)WEIR__TOP_ROWS_LEAST == 5,
			       "the text says it");
		weir__top_text_add(&text, "terminal too small: 20x5 at least", screen->columns);
		return;
	}
	choose_columns(&style, screen->columns);
	parts = divide(screen->columns, screen->rows);
	draw_server(screen, &style, view, state, parts.server);
	rest = screen->rows - parts.server - FRAME;
	if (state->helps) {
		draw_help(screen, &style, rest + 1);
	} else if (parts.keys == 0) {
		draw_limits(screen, &style, view, rest);
	} else {
		draw_limits(screen, &style, view, rest - parts.keys - 1);
		draw_keys(screen, &style, view, parts.keys);
	}
	draw_last(screen, &style, view, state);
}

/* --- once -------------------------------------------------------------------------------------------------------- */

static void print_line(struct weir__top_text *text)
{
	while (text->length > 0 && text->bytes[text->length - 1] == ' ')
		text->bytes[--text->length] = '\0';
	(void)puts(text->bytes);
	*text = weir__top_text_of(text->bytes, text->is_utf8);
}

void weir__top_print(const struct weir__top_view *view, const char *where, bool is_utf8)
{
	enum { WIDE = 130, HALF = 60 };
	struct style style = { .is_coloured = false };
	char bytes[WEIR__TOP_LINE_SIZE];
	struct weir__top_text text = weir__top_text_of(bytes, is_utf8);

	choose_columns(&style, WIDE);
	style.widths[WEIR__TOP_NAME] = NAME_MOST;
	style.widths[WEIR__TOP_MINUTE] = 0;
	add_title(&text, &style, view, where);
	print_line(&text);
	add_protocols(&text, view);
	add_words(&text, "; ");
	add_table(&text, view);
	print_line(&text);
	add_requests(&text, view);
	print_line(&text);
	add_state(&text, view);
	print_line(&text);
	add_head(&text, &style, view);
	print_line(&text);
	for (size_t i = 0; i < view->n_ordered; i++) {
		add_limit(&text, &style, &view->limits[view->order[i]], i == view->at);
		print_line(&text);
	}
	if (view->server.left_out > 0) {
		add_left_out(&text, "  ", view);
		print_line(&text);
	}
	add_keys_title(&text, &style, view, HALF);
	print_line(&text);
	for (size_t i = 0; i < view->busy.n || i < view->denied.n; i++) {
		add_keys(&text, view, i, HALF);
		print_line(&text);
	}
}
