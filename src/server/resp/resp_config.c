/* resp_config.c: CONFIG, which shows the settings that the server was started with. */
#include "server/resp/resp_command.h"
#include "server/settings.h"

#include <ctype.h>
#include <string.h>

/* --- patterns --------------------------------------------------------------------------------------------------- */

struct pattern {
	const char *at, *end;
};

static int letter(char c)
{
	return tolower((unsigned char)c);
}

/* Whether a set in brackets contains the character. *set is behind its opening bracket, and moves behind the closing
 * one. As in Redis, a set without a closing bracket ends with the pattern, and the ends of a range may be swapped. */
static bool has(struct pattern *set, int c)
{
	const bool is_not = set->at < set->end && *set->at == '^';
	bool found = false;

	for (set->at += is_not; set->at < set->end && *set->at != ']'; set->at++) {
		if (*set->at == '\\' && set->end - set->at >= 2) {
			found |= letter(*++set->at) == c;
		} else if (set->end - set->at >= 3 && set->at[1] == '-') {
			const int first = letter(set->at[0]), last = letter(set->at[2]);

			found |= first <= last ? c >= first && c <= last : c >= last && c <= first;
			set->at += 2;
		} else {
			found |= letter(*set->at) == c;
		}
	}
	set->at += set->at < set->end;
	return found != is_not;
}

/* Whether one step of the pattern, other than a star, matches the character. *pattern moves behind the step. */
static bool takes(struct pattern *pattern, int c)
{
	const char step = *pattern->at++;

	if (step == '?')
		return true;
	if (step == '[')
		return has(pattern, c);
	if (step == '\\' && pattern->at < pattern->end)
		return letter(*pattern->at++) == c;
	return letter(step) == c;
}

/* Only the last star ever has to match more. So this takes at most (length of the pattern) * (length of the name)
 * steps. */
bool weir__matches(const struct weir__resp_slice *wanted, const char *name)
{
	struct pattern pattern = { wanted->bytes, wanted->bytes + wanted->length };
	const char *star = NULL, *taken = NULL;

	while (*name) {
		if (pattern.at < pattern.end && *pattern.at == '*') {
			star = ++pattern.at;
			taken = name;
		} else if (pattern.at < pattern.end && takes(&pattern, letter(*name))) {
			name++;
		} else if (star) {
			pattern.at = star;
			name = ++taken;
		} else {
			return false;
		}
	}
	while (pattern.at < pattern.end && *pattern.at == '*')
		pattern.at++;
	return pattern.at == pattern.end;
}

/* --- CONFIG GET ------------------------------------------------------------------------------------------------- */

/* redis-cli and redis-benchmark read these from any server. Weir saves nothing the way Redis does. */
static const struct {
	const char *name, *value;
} of_redis[] = { { "save", "" }, { "appendonly", "no" } };

enum { OF_REDIS = sizeof(of_redis) / sizeof(of_redis[0]) };

/* A lower bound: two long values, three texts and 1 KiB for the rest. CONFIG GET * now has more of both, which fit as
 * well. */
_Static_assert(2 * (int)WEIR__SETTING_SHOWN + 3 * (int)WEIR__SETTING_TEXT_SIZE + 1024 <= (int)WEIR__ANSWER_MOST,
	       "all of them fit an answer");

static bool is_wanted(const struct weir__call *call, const char *name)
{
	for (uint32_t i = 2; i < call->n; i++)
		if (weir__matches(&call->arguments[i], name))
			return true;
	return false;
}

/* Shows the current users, but all other settings as they were at the start. */
static size_t show(const struct weir__call *call, const struct weir__setting *setting, char text[WEIR__SETTING_SHOWN])
{
	return setting->kind == WEIR__SETTING_USERS && call->context->users ?
		       weir__settings_show_users(call->context->users, text) :
		       weir__settings_show(call->context->settings, setting, text);
}

static void config_get(struct weir__call *call)
{
	const struct weir__settings *const settings = call->context->settings;
	bool shows[WEIR__SETTINGS] = { false }, shows_redis[OF_REDIS] = { false };
	char text[WEIR__SETTING_SHOWN];
	uint64_t n = 0;

	for (size_t i = 0; settings && i < WEIR__SETTINGS; i++)
		n += shows[i] = is_wanted(call, weir__setting_rows[i].name);
	for (size_t i = 0; i < OF_REDIS; i++)
		n += shows_redis[i] = is_wanted(call, of_redis[i].name);
	weir__resp_write_map(call->writer, n);
	for (size_t i = 0; i < WEIR__SETTINGS; i++)
		if (shows[i]) {
			const size_t length = show(call, &weir__setting_rows[i], text);

			weir__say_word(call, weir__setting_rows[i].name);
			weir__resp_write_bulk(call->writer, text, length);
		}
	for (size_t i = 0; i < OF_REDIS; i++)
		if (shows_redis[i]) {
			weir__say_word(call, of_redis[i].name);
			weir__say_word(call, of_redis[i].value);
		}
}

static void config_set(struct weir__call *call)
{
	weir__refuse(call, WEIR__ERROR_CONFIG_SET);
}

void weir__config(struct weir__call *call)
{
	static const struct weir__subcommand rows[] = {
		{ "get", "PATTERN...: settings whose names match", config_get, 3, UINT32_MAX },
		{ "set", "NAME VALUE...: an error, because settings cannot be changed at run time", config_set, 4,
		  UINT32_MAX },
	};

	weir__run_subcommand(call, "config", rows, sizeof(rows) / sizeof(rows[0]));
}
