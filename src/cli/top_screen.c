/* top_screen.c: escape sequences that all current terminals support, signals, and keys. */
#include "cli/top_screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* Alternate screen, no cursor, no line wrapping. */
#define ENTER "\033[?1049h\033[?25l\033[?7l\033[H\033[2J"
#define LEAVE "\033[0m\033[?7h\033[?25h\033[?1049l"

static struct termios as_found;
static bool has_keys;                  /* standard input is a terminal */
static volatile sig_atomic_t is_stale; /* the content of the screen is unknown: redraw all of it */

/* --- the terminal ------------------------------------------------------------------------------------------------ */

/* Also called in signal handlers. The result is ignored: a terminal that is gone cannot be helped. */
static void tell(const char *text)
{
	const ssize_t ignored = write(STDOUT_FILENO, text, strlen(text));

	(void)ignored;
}

/* Turns line buffering and echo off. Keys that send signals still do. */
static void take_terminal(void)
{
	struct termios raw = as_found;

	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	if (has_keys)
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	tell(ENTER);
}

static void give_terminal_back(void)
{
	tell(LEAVE);
	if (has_keys)
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &as_found);
}

static void on_end(int number)
{
	give_terminal_back();
	(void)raise(number); /* SA_RESETHAND restored the default action: this time the signal ends the process */
}

static void on_stop(int number)
{
	const int before = errno;

	(void)number;
	give_terminal_back();
	(void)raise(SIGSTOP);
	errno = before;
}

/* SIGCONT: after SIGTSTP, and after a SIGSTOP, which cannot be caught. */
static void on_go_on(int number)
{
	const int before = errno;

	(void)number;
	take_terminal();
	is_stale = 1;
	errno = before;
}

static void on_size(int number)
{
	(void)number;
	is_stale = 1;
}

static void handle(int number, void (*handler)(int), int flags)
{
	struct sigaction action;

	memset(&action, 0, sizeof(action));
	action.sa_handler = handler;
	action.sa_flags = flags;
	(void)sigfillset(&action.sa_mask);
	(void)sigdelset(&action.sa_mask, number); /* so that raise() in the handler takes effect at once */
	(void)sigaction(number, &action, NULL);
}

bool weir__top_screen_init(struct weir__top_screen *screen)
{
	const char *const terminal = getenv("TERM"), *const no_colour = getenv("NO_COLOR");

	memset(screen, 0, sizeof(*screen));
	screen->is_utf8 = weir__top_text_locale();
	screen->is_coloured = no_colour == NULL || no_colour[0] == '\0';
	return isatty(STDOUT_FILENO) && terminal && terminal[0] != '\0' && strcmp(terminal, "dumb") != 0;
}

void weir__top_screen_enter(void)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

	has_keys = tcgetattr(STDIN_FILENO, &as_found) == 0;
	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
		handle(ends[i], on_end, (int)SA_RESETHAND);
	/* Restarted, so that standard output is not marked as failed. The wait for keys ends all the same. */
	handle(SIGTSTP, on_stop, SA_RESTART);
	handle(SIGCONT, on_go_on, SA_RESTART);
	handle(SIGWINCH, on_size, SA_RESTART);
	take_terminal();
	is_stale = 1;
}

void weir__top_screen_leave(void)
{
	give_terminal_back();
}

/* --- frames ------------------------------------------------------------------------------------------------------ */

/* A size of 0 is unknown. */
static unsigned within(unsigned number, unsigned usual, unsigned most)
{
	return number == 0 ? usual : number > most ? most : number;
}

void weir__top_screen_begin(struct weir__top_screen *screen)
{
	const unsigned columns = screen->columns, rows = screen->rows;
	struct winsize size = { .ws_col = 0, .ws_row = 0 };

	(void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	screen->columns = within(size.ws_col, 80, WEIR__TOP_COLUMNS_MAX);
	screen->rows = within(size.ws_row, 24, WEIR__TOP_ROWS_MAX);
	if (screen->columns != columns || screen->rows != rows)
		is_stale = 1;
	screen->n = 0;
}

struct weir__top_text weir__top_screen_line(struct weir__top_screen *screen)
{
	static char unseen[WEIR__TOP_LINE_SIZE];
	struct weir__top_text text = weir__top_text_of(screen->n < screen->rows ? screen->lines[screen->n++] : unseen,
						       screen->is_utf8);

	text.most = screen->columns;
	return text;
}

bool weir__top_screen_show(struct weir__top_screen *screen)
{
	while (screen->n < screen->rows)
		screen->lines[screen->n++][0] = '\0';
	if (is_stale) {
		is_stale = 0;
		memset(screen->shown, 0, sizeof(screen->shown));
		(void)fputs("\033[H\033[2J", stdout);
	}
	for (unsigned i = 0; i < screen->rows; i++) {
		if (strcmp(screen->lines[i], screen->shown[i]) == 0)
			continue;
		(void)printf("\033[%u;1H%s\033[K", i + 1, screen->lines[i]);
		memcpy(screen->shown[i], screen->lines[i], WEIR__TOP_LINE_SIZE);
	}
	return fflush(stdout) == 0;
}

/* --- keys -------------------------------------------------------------------------------------------------------- */

/* Returns the next byte, -1 if none came in time, -2 at the end of input. */
static int next_byte(int wait_ms)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	unsigned char byte;

	if (poll(&input, 1, wait_ms) <= 0)
		return -1;
	return read(STDIN_FILENO, &byte, 1) == 1 ? byte : -2;
}

/* Called after an escape byte. Returns the key of a known escape sequence, WEIR__TOP_KEY_ESCAPE if no byte follows, and
 * WEIR__TOP_KEY_NONE for an unknown sequence. */
static int read_sequence(void)
{
	static const struct {
		const char *bytes;
		int key;
	} rows[] = { { "[A", WEIR__TOP_KEY_UP },       { "OA", WEIR__TOP_KEY_UP },
		     { "[B", WEIR__TOP_KEY_DOWN },     { "OB", WEIR__TOP_KEY_DOWN },
		     { "[5~", WEIR__TOP_KEY_PAGE_UP }, { "[6~", WEIR__TOP_KEY_PAGE_DOWN },
		     { "[H", WEIR__TOP_KEY_FIRST },    { "OH", WEIR__TOP_KEY_FIRST },
		     { "[1~", WEIR__TOP_KEY_FIRST },   { "[F", WEIR__TOP_KEY_LAST },
		     { "OF", WEIR__TOP_KEY_LAST },     { "[4~", WEIR__TOP_KEY_LAST } };
	enum { PATIENCE_MS = 25 }; /* the bytes of one key arrive together, also over a slow connection */
	char bytes[8] = "";
	size_t n = 0;
	int byte = next_byte(PATIENCE_MS);

	if (byte < 0)
		return WEIR__TOP_KEY_ESCAPE;
	for (; byte >= 0 && n + 1 < sizeof(bytes); byte = next_byte(PATIENCE_MS)) {
		bytes[n++] = (char)byte;
		if (n > 1 && byte >= 0x40)
			break;
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (strcmp(bytes, rows[i].bytes) == 0)
			return rows[i].key;
	return WEIR__TOP_KEY_NONE;
}

int weir__top_screen_key(unsigned wait_ms)
{
	int byte;

	if (!has_keys) {
		(void)poll(NULL, 0, (int)wait_ms);
		return WEIR__TOP_KEY_NONE;
	}
	byte = next_byte((int)wait_ms);
	if (byte == 27)
		return read_sequence();
	if (byte == '\r')
		return WEIR__TOP_KEY_ENTER;
	if (byte == 8)
		return WEIR__TOP_KEY_ERASE;
	return byte == -2 ? WEIR__TOP_KEY_END : byte < 0 ? WEIR__TOP_KEY_NONE : byte;
}
