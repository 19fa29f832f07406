/* top.c: weir top: a live view of a server's limits, in a terminal. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/command.h"
#include "cli/link.h"
#include "cli/password.h"
#include "cli/top_draw.h"
#include "cli/words.h"
#include "os/monotonic.h"

enum { DONE = 0, CALLED_WRONGLY = 2, FAILED = 3, GO_ON = -1, PATIENCE_MS = 2000 };

static const unsigned intervals_ms[] = { 250, 500, 1000, 2000, 5000, 10000 };

enum { INTERVALS = sizeof(intervals_ms) / sizeof(intervals_ms[0]), INTERVAL_FIRST = 2 };

/* Static, since it is too large for the stack. */
static struct top {
	const char *user, *password_file, *password;
	struct weir__tls_files files;
	bool is_once, is_json, is_open;
	bool is_partial;   /* the server has more limits than one document holds, so the server applies the filter */
	unsigned interval; /* index into intervals_ms */
	struct weir__top_state state;
	struct weir__top_view view;
	struct weir__top_screen screen;
	struct weir__link link;
} top;

/* --- arguments --------------------------------------------------------------------------------------------------- */

static int help(void)
{
	printf("usage: weir top [OPTION...]\n\n"
	       "Shows the current traffic of a server (weir serve): rates, denials and what is left of each limit,\n"
	       "and the top keys. The user needs the role read. Press ? for the keyboard commands.\n\n" WEIR__LINK_AT_HELP
	       "  --server WHERE        the same\n" WEIR__LINK_USER_HELP
	       "  --once                print one table and exit; the default without a terminal\n"
	       "  --json                print the live document and exit; docs/guides/observe.md describes it\n"
	       "  --help                show this\n"
	       "\n"
	       "NO_COLOR in the environment turns colours off. Exit status: 0 done; 2 wrong usage; 3 the server\n"
	       "cannot be reached, or replied with an error.\n");
	return DONE;
}

static int complain(const char *word, const char *right)
{
	fputs("weir top: ", stderr);
	weir__words_quoted(stderr, word, strlen(word));
	fprintf(stderr, ": %s\n", right);
	return CALLED_WRONGLY;
}

/* Where the value of an option goes, and the value if it is OPTION=VALUE. NULL: unknown option, which is compared with
 * the known ones, or an option without a value. */
static const char **place_of(const char *option, struct weir__nearest *nearest, const char **ret_value)
{
	const struct {
		const char *name;
		const char **place;
	} options[] = {
		{ "--at", &top.state.where },  { "--server", &top.state.where },
		{ "--user", &top.user },       { "--password-file", &top.password_file },
		{ "--cacert", &top.files.ca }, { "--cert", &top.files.certificate },
		{ "--key", &top.files.key },
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		if (weir__command_is_option(option, options[i].name, ret_value))
			return options[i].place;
		weir__nearest_offer(nearest, options[i].name);
	}
	weir__nearest_offer(nearest, "--once");
	weir__nearest_offer(nearest, "--json");
	weir__nearest_offer(nearest, "--help");
	return NULL;
}

static int read_arguments(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct weir__nearest nearest = weir__command_option_name(argv[i]);
		const char *value = NULL;
		const char **const place = place_of(argv[i], &nearest, &value);

		if (weir__command_is_help(argv[i]))
			return help();
		if (strcmp(argv[i], "--once") == 0) {
			top.is_once = true;
		} else if (strcmp(argv[i], "--json") == 0) {
			top.is_json = true;
		} else if (place == NULL) {
			weir__command_refuse_option(&nearest, "weir top", "--help lists them");
			return CALLED_WRONGLY;
		} else if (value == NULL && i + 1 == argc) {
			return complain(argv[i], "needs a value; see --help");
		} else {
			*place = value ? value : argv[++i];
		}
	}
	return GO_ON;
}

/* --- requests --------------------------------------------------------------------------------------------------- */

static void close_link(void)
{
	if (top.is_open)
		weir__link_close(&top.link);
	top.is_open = false;
}

/* Stores the reason in top.link.why. Always returns false. */
static bool fail(const char *why)
{
	(void)snprintf(top.link.why, sizeof(top.link.why), "%s", why);
	return false;
}

/* Sends a request whose reply is a JSON document. Returns false, also for an error reply, with the reason in
 * top.link.why. The document stays valid until the next request. */
static bool ask(const char *const *texts, size_t n, const char **ret_json, size_t *ret_length)
{
	struct weir__resp_slice words[8];
	const struct weir__resp_token *const answer = &top.link.tokens[0];
	char why[WEIR__LINK_WHY_SIZE];

	for (size_t i = 0; i < n; i++)
		words[i] = (struct weir__resp_slice){ texts[i], strlen(texts[i]) };
	if (weir__link_ask(&top.link, words, n) != WEIR__LINK_OK)
		return false;
	if (answer->type == WEIR__RESP_ERROR) {
		(void)snprintf(why, sizeof(why), "the server replied: %.*s", (int)answer->text.length,
			       answer->text.bytes);
		return fail(why);
	}
	if (answer->type != WEIR__RESP_BULK)
		return fail("the server's reply is not a live document");
	*ret_json = answer->text.bytes;
	*ret_length = answer->text.length;
	return true;
}

static enum weir__link_result open_link(void)
{
	const struct weir__tls_files files = weir__stream_files(&top.files);
	const enum weir__link_result result = weir__link_open(&top.link, top.state.where, top.user, top.password,
							      &files, PATIENCE_MS);

	top.is_open = result == WEIR__LINK_OK;
	if (!top.is_open && strstr(top.link.why, "NOAUTH"))
		(void)fail("authentication required: use --user with a user that has the role read, and set "
			   "WEIR_PASSWORD or use --password-file");
	return result;
}

/* Fetches the keys of the selected limit. A limit that no longer exists is not an error: its keys stay unknown. */
static bool ask_for_keys(void)
{
	const char *const words[] = { "WEIR.LIVE", "1", "KEYS", "20", "LIMIT", top.view.selected };
	const char *json;
	size_t length;

	if (weir__top_view_selected(&top.view) == NULL)
		return true;
	if (!ask(words, 6, &json, &length))
		return strstr(top.link.why, "NOLIMIT") != NULL;
	return weir__top_view_read_keys(&top.view, json, length) || fail("the server's reply is not a live document");
}

static bool ask_for_all(void)
{
	const char *const words[] = { "WEIR.LIVE", "60", "KEYS", "0", "FILTER", top.view.filter };
	const bool is_filtered = top.is_partial && top.view.filter[0] != '\0';
	const char *json;
	size_t length;

	if (!ask(words, is_filtered ? 6 : 4, &json, &length))
		return false;
	if (!weir__top_view_read(&top.view, json, length))
		return fail("the server's reply is not a live document");
	if (!is_filtered)
		top.is_partial = top.view.server.left_out > 0;
	weir__top_view_arrange(&top.view);
	return ask_for_keys();
}

/* Fetches everything again. On failure the last known state stays on the screen. */
static void refresh(void)
{
	const bool is_good = (top.is_open || open_link() == WEIR__LINK_OK) && ask_for_all();

	if (is_good)
		top.state.trouble[0] = '\0';
	else
		(void)snprintf(top.state.trouble, sizeof(top.state.trouble), "%.400s; retrying", top.link.why);
	if (!is_good)
		close_link();
}

/* --- once -------------------------------------------------------------------------------------------------------- */

static int say_failure(enum weir__link_result result)
{
	fputs("weir top: ", stderr);
	weir__words_safe(stderr, top.link.why);
	putc('\n', stderr);
	return result == WEIR__LINK_WRONG ? CALLED_WRONGLY : FAILED;
}

/* With `observe` off the server reports no rates. They are computed from two documents, one second apart. */
static bool look_once(void)
{
	const struct timespec second = { .tv_sec = 1 };

	if (!ask_for_all())
		return false;
	if (!top.view.server.is_blind)
		return true;
	(void)nanosleep(&second, NULL);
	return ask_for_all();
}

static int show_once(void)
{
	static const char *const words[] = { "WEIR.LIVE" };
	const enum weir__link_result result = open_link();
	const char *json;
	size_t length;
	bool is_good;

	if (result != WEIR__LINK_OK)
		return say_failure(result);
	if (top.is_json) {
		is_good = ask(words, 1, &json, &length);
		if (is_good)
			(void)fwrite(json, 1, length, stdout);
	} else {
		is_good = look_once();
		if (is_good)
			weir__top_print(&top.view, top.state.where, top.screen.is_utf8);
	}
	close_link();
	return is_good ? DONE : say_failure(WEIR__LINK_FAILED);
}

/* --- the screen -------------------------------------------------------------------------------------------------- */

/* UTF-8 continuation bytes belong to the character before them: typed characters arrive byte by byte. */
static void erase_character(char *text)
{
	size_t n = strlen(text);

	while (n > 0 && ((unsigned char)text[n - 1] & 0xc0) == 0x80)
		n--;
	if (n > 0)
		text[n - 1] = '\0';
}

static void type(int key)
{
	char *const filter = top.view.filter;
	const size_t n = strlen(filter);

	if (key == WEIR__TOP_KEY_ENTER || key == WEIR__TOP_KEY_ESCAPE)
		top.state.is_typing = false;
	if (key == WEIR__TOP_KEY_ESCAPE)
		filter[0] = '\0';
	else if (key == WEIR__TOP_KEY_ERASE)
		erase_character(filter);
	else if (key >= ' ' && key < 256 && n + 1 < sizeof(top.view.filter)) {
		filter[n] = (char)key;
		filter[n + 1] = '\0';
	}
	weir__top_view_arrange(&top.view);
}

static void move(long by)
{
	weir__top_view_move(&top.view, by);
	if (top.is_open && !ask_for_keys())
		close_link();
}

/* Handles a key outside of the filter line. Returns false to quit. */
static bool obey(int key)
{
	const long page = top.screen.rows / 2;

	switch (key) {
	case 'q':
	case 'Q':
	case WEIR__TOP_KEY_END:
		return false;
	case 'k':
	case WEIR__TOP_KEY_UP:
		move(-1);
		break;
	case 'j':
	case WEIR__TOP_KEY_DOWN:
		move(1);
		break;
	case WEIR__TOP_KEY_PAGE_UP:
		move(-page);
		break;
	case WEIR__TOP_KEY_PAGE_DOWN:
		move(page);
		break;
	case 'g':
	case WEIR__TOP_KEY_FIRST:
		move(-WEIR__TOP_LIMITS_MAX);
		break;
	case 'G':
	case WEIR__TOP_KEY_LAST:
		move(WEIR__TOP_LIMITS_MAX);
		break;
	case 's':
		weir__top_view_sort_next(&top.view, weir__top_draw_shown(top.screen.columns));
		weir__top_view_arrange(&top.view);
		break;
	case 'S':
		top.view.is_reversed = !top.view.is_reversed;
		weir__top_view_arrange(&top.view);
		break;
	case '/':
		top.state.is_typing = true;
		top.state.helps = false;
		break;
	case WEIR__TOP_KEY_ESCAPE:
		top.state.helps = false;
		top.view.filter[0] = '\0';
		weir__top_view_arrange(&top.view);
		break;
	case 'p':
	case ' ':
		top.state.is_paused = !top.state.is_paused;
		break;
	case '+':
	case '=':
		top.interval -= top.interval > 0;
		break;
	case '-':
		top.interval += top.interval + 1 < INTERVALS;
		break;
	case '?':
	case 'h':
		top.state.helps = !top.state.helps;
		break;
	default:
		break;
	}
	return true;
}

static bool draw(void)
{
	top.state.interval_ms = intervals_ms[top.interval];
	weir__top_screen_begin(&top.screen);
	weir__top_draw(&top.screen, &top.view, &top.state);
	return weir__top_screen_show(&top.screen);
}

/* Runs until the user quits. While paused, it reacts to keys but sends no periodic requests. */
static void watch(void)
{
	uint64_t next = 0;

	for (;;) {
		const uint64_t now = weir__monotonic_ms();
		int key;

		if (now >= next && !top.state.is_paused) {
			refresh();
			next = weir__monotonic_ms() + intervals_ms[top.interval];
		}
		if (!draw())
			return;
		key = weir__top_screen_key(next > weir__monotonic_ms() ? (unsigned)(next - weir__monotonic_ms()) :
					   top.state.is_paused         ? 1000 :
									 0);
		if (key == WEIR__TOP_KEY_NONE)
			continue;
		if (top.state.is_typing && key != WEIR__TOP_KEY_END)
			type(key);
		else if (!obey(key))
			return;
		if (next > weir__monotonic_ms() + intervals_ms[top.interval])
			next = weir__monotonic_ms() + intervals_ms[top.interval];
	}
}

int weir__top(int argc, char **argv)
{
	char memory[WEIR__PASSWORD_SIZE];
	const char *right, *word;
	bool can_show;
	int code;

	top.state.where = weir__link_default();
	top.interval = INTERVAL_FIRST;
	top.view.sort = WEIR__TOP_MINUTE;
	code = read_arguments(argc, argv);
	if (code != GO_ON)
		return code;
	right = weir__password_read(top.user, top.password_file, memory, &top.password, &word);
	if (right)
		return complain(word, right);
	can_show = weir__top_screen_init(&top.screen);
	if (top.is_once || top.is_json || !can_show)
		return show_once();
	if (open_link() == WEIR__LINK_WRONG)
		return say_failure(WEIR__LINK_WRONG);
	weir__top_screen_enter();
	watch();
	weir__top_screen_leave();
	close_link();
	return DONE;
}
