/* redis_handshake.c: the commands sent on a new connection, and the replies they must get. */
#include <stdio.h>
#include <string.h>

#include "store/redis/redis_link.h"

static struct weir__resp_slice slice_of(const char *text)
{
	return (struct weir__resp_slice){ text, strlen(text) };
}

static bool is_text(const struct weir__resp_token *token, const char *text)
{
	return (token->type == WEIR__RESP_BULK || token->type == WEIR__RESP_SIMPLE) &&
	       token->text.length == strlen(text) && memcmp(token->text.bytes, text, strlen(text)) == 0;
}

bool weir__redis_is_error(const struct weir__resp_token *token, const char *code)
{
	const size_t length = strlen(code);

	return token->type == WEIR__RESP_ERROR && token->text.length >= length &&
	       memcmp(token->text.bytes, code, length) == 0;
}

/* --- commands ---------------------------------------------------------------------------------------------------- */

/* HELLO needs a user: "default" if the URL has none. AUTH omits it, because Redis before version 6 has no users. */
static size_t credentials(const struct weir__redis_link *link, const struct weir__redis_url *url, bool needs_user,
			  struct weir__resp_slice *ret_words)
{
	const char *const user = link->is_sentinel ? url->sentinel_user : url->user;
	const char *const password = link->is_sentinel ? url->sentinel_password : url->password;
	size_t n = 0;

	if (password[0] == '\0')
		return 0;
	ret_words[n++] = slice_of("AUTH");
	if (user[0] != '\0' || needs_user)
		ret_words[n++] = slice_of(user[0] != '\0' ? user : "default");
	ret_words[n++] = slice_of(password);
	return n;
}

/* Returns the number of words of a handshake command; 0: it is not needed on this link. */
static size_t words_of(const struct weir__redis_link *link, const struct weir__redis_url *url,
		       enum weir__redis_command command, char database[12], struct weir__resp_slice *ret_words)
{
	size_t n = 0;

	switch (command) {
	case WEIR__REDIS_HELLO:
		ret_words[n++] = slice_of("HELLO");
		ret_words[n++] = slice_of("3");
		n += credentials(link, url, true, ret_words + n);
		ret_words[n++] = slice_of("SETNAME");
		ret_words[n++] = slice_of("weir");
		break;
	case WEIR__REDIS_AUTH:
		n = link->protocol == 2 ? credentials(link, url, false, ret_words) : 0;
		break;
	case WEIR__REDIS_SET_NAME:
		if (link->protocol == 2) {
			ret_words[n++] = slice_of("CLIENT");
			ret_words[n++] = slice_of("SETNAME");
			ret_words[n++] = slice_of("weir");
		}
		break;
	case WEIR__REDIS_SELECT:
		if (!link->is_sentinel && url->database > 0) {
			(void)snprintf(database, 12, "%u", url->database);
			ret_words[n++] = slice_of("SELECT");
			ret_words[n++] = slice_of(database);
		}
		break;
	case WEIR__REDIS_ROLE:
		if (!link->is_sentinel && (!link->is_for_queries || url->is_sentinel))
			ret_words[n++] = slice_of("ROLE");
		break;
	case WEIR__REDIS_LOAD:
		if (!link->is_sentinel && !link->is_for_queries) {
			ret_words[n++] = slice_of("SCRIPT");
			ret_words[n++] = slice_of("LOAD");
			ret_words[n++] = (struct weir__resp_slice){ weir__redis_script.text,
								    weir__redis_script.length };
		}
		break;
	case WEIR__REDIS_SUBSCRIBE: /* in RESP2 a sentinel cannot be queried after SUBSCRIBE */
		if (link->channel != NULL && (!link->is_sentinel || link->protocol == 3)) {
			ret_words[n++] = slice_of("SUBSCRIBE");
			ret_words[n++] = slice_of(link->channel);
		}
		break;
	default:
		break;
	}
	return n;
}

enum weir__redis_command weir__redis_link_greet(struct weir__redis_link *link, const struct weir__redis_url *url,
						int after, weir_ns now)
{
	struct weir__resp_slice words[8];
	char database[12];

	for (int command = after + 1; command < WEIR__REDIS_GREETED; command++) {
		const enum weir__redis_command next = (enum weir__redis_command)command;
		const size_t n = words_of(link, url, next, database, words);

		/* If the command does not fit, no reply comes, and the link is closed for its timeout. */
		if (n > 0) {
			(void)weir__redis_link_say(link, next, words, n, now);
			return next;
		}
	}
	return WEIR__REDIS_GREETED;
}

/* --- replies ----------------------------------------------------------------------------------------------------- */

static const char *const command_words[] = {
	[WEIR__REDIS_HELLO] = "HELLO",         [WEIR__REDIS_AUTH] = "AUTH", [WEIR__REDIS_SET_NAME] = "CLIENT SETNAME",
	[WEIR__REDIS_SELECT] = "SELECT",       [WEIR__REDIS_ROLE] = "ROLE", [WEIR__REDIS_LOAD] = "SCRIPT LOAD",
	[WEIR__REDIS_SUBSCRIBE] = "SUBSCRIBE",
};

static bool is_right(struct weir__redis_link *link, enum weir__redis_command command,
		     const struct weir__resp_token *tokens, uint32_t n)
{
	switch (command) {
	case WEIR__REDIS_HELLO: /* Redis before version 6 does not have it, and an ACL may deny it before AUTH */
		if (weir__redis_is_error(tokens, "ERR unknown command") || weir__redis_is_error(tokens, "NOPROTO") ||
		    weir__redis_is_error(tokens, "NOPERM"))
			link->protocol = 2;
		return link->protocol == 2 || tokens->type == WEIR__RESP_MAP;
	case WEIR__REDIS_AUTH:
	case WEIR__REDIS_SELECT:
		return is_text(tokens, "OK");
	case WEIR__REDIS_ROLE: /* an ACL may deny it; a replica will then reply READONLY to calls */
		return weir__redis_is_error(tokens, "NOPERM") || (n > 1 && is_text(&tokens[1], "master"));
	case WEIR__REDIS_LOAD:
		return is_text(tokens, weir__redis_script.sha1);
	case WEIR__REDIS_SUBSCRIBE: /* optional for a sentinel, which is also queried every second */
		return link->is_sentinel || tokens->type != WEIR__RESP_ERROR;
	default: /* the client name is optional */
		return true;
	}
}

size_t weir__redis_link_show_error(enum weir__redis_command command, struct weir__resp_slice error, char *ret_text,
				   size_t size)
{
	const bool is_secret = command == WEIR__REDIS_HELLO || command == WEIR__REDIS_AUTH;
	size_t n = 0;

	while (n + 1 < size && n < error.length && (!is_secret || (error.bytes[n] >= 'A' && error.bytes[n] <= 'Z'))) {
		ret_text[n] = (char)(error.bytes[n] < ' ' || error.bytes[n] > '~' ? '?' : error.bytes[n]);
		n++;
	}
	ret_text[n] = '\0';
	return n;
}

static void explain_error(enum weir__redis_command command, struct weir__resp_slice error, char *ret_why, size_t size)
{
	char said[64];

	(void)weir__redis_link_show_error(command, error, said, sizeof(said));
	(void)snprintf(ret_why, size, "%s failed with the error %s", command_words[command], said);
}

static void explain(enum weir__redis_command command, const struct weir__resp_token *tokens, uint32_t n, char *ret_why,
		    size_t size)
{
	if (command == WEIR__REDIS_ROLE && n > 1 && is_text(&tokens[1], "slave"))
		(void)snprintf(ret_why, size, "this is a replica; the primary is needed");
	else if (command == WEIR__REDIS_ROLE && n > 1 && is_text(&tokens[1], "sentinel"))
		(void)snprintf(ret_why, size, "this is a sentinel; use redis+sentinel:// to find the primary");
	else if (weir__redis_is_error(tokens, "ERR max number of clients"))
		(void)snprintf(ret_why, size, "it has reached maxclients");
	else if (tokens->type == WEIR__RESP_ERROR)
		explain_error(command, tokens->text, ret_why, size);
	else
		(void)snprintf(ret_why, size, "unexpected reply to %s", command_words[command]);
}

bool weir__redis_link_greeted(struct weir__redis_link *link, enum weir__redis_command command,
			      const struct weir__resp_token *tokens, uint32_t n, char *ret_why, size_t size)
{
	if (is_right(link, command, tokens, n))
		return true;
	explain(command, tokens, n, ret_why, size);
	return false;
}
