/* redis_sentinel.c: parses addresses in a sentinel's replies. */
#include "store/redis/redis_sentinel.h"

#include <string.h>

#include "wire/resp_line.h"

static bool is_text(const struct weir__resp_token *token, const char *text)
{
	return token->type == WEIR__RESP_BULK && token->text.length == strlen(text) &&
	       memcmp(token->text.bytes, text, strlen(text)) == 0;
}

/* An address or a name. Other characters must not reach the resolver. */
static bool is_host(struct weir__resp_slice host)
{
	if (host.length == 0 || host.length >= WEIR__REDIS_HOST_SIZE)
		return false;
	for (size_t i = 0; i < host.length; i++)
		if (host.bytes[i] <= ' ' || host.bytes[i] > '~' || host.bytes[i] == '/')
			return false;
	return true;
}

static bool make_place(struct weir__resp_slice host, struct weir__resp_slice port, bool is_tls,
		       struct weir__redis_place *ret_place)
{
	struct weir__redis_place place = { .is_tls = is_tls };
	int64_t number;

	if (!is_host(host) || !weir__resp_number(port.bytes, port.length, &number) || number < 1 || number > UINT16_MAX)
		return false;
	memcpy(place.host, host.bytes, host.length);
	place.port = (uint16_t)number;
	*ret_place = place;
	return true;
}

bool weir__redis_sentinel_told(const struct weir__resp_token *tokens, uint32_t n, bool is_tls,
			       struct weir__redis_place *ret_place)
{
	return n == 3 && tokens[0].type == WEIR__RESP_ARRAY && tokens[1].type == WEIR__RESP_BULK &&
	       tokens[2].type == WEIR__RESP_BULK && make_place(tokens[1].text, tokens[2].text, is_tls, ret_place);
}

/* Removes the next word, up to a space or the end. */
static struct weir__resp_slice next_word(struct weir__resp_slice *rest)
{
	const char *const space = memchr(rest->bytes, ' ', rest->length);
	const struct weir__resp_slice word = { rest->bytes,
					       space != NULL ? (size_t)(space - rest->bytes) : rest->length };
	const size_t used = word.length + (space != NULL);

	rest->bytes += used;
	rest->length -= used;
	return word;
}

/* The message is: NAME OLD-HOST OLD-PORT NEW-HOST NEW-PORT */
bool weir__redis_sentinel_switched(const struct weir__resp_token *tokens, uint32_t n, const char *primary, bool is_tls,
				   struct weir__redis_place *ret_place)
{
	struct weir__resp_slice rest, name, host;

	if (n != 4 || tokens[0].type != WEIR__RESP_PUSH || !is_text(&tokens[1], "message") ||
	    !is_text(&tokens[2], "+switch-master") || tokens[3].type != WEIR__RESP_BULK)
		return false;
	rest = tokens[3].text;
	name = next_word(&rest);
	if (name.length != strlen(primary) || memcmp(name.bytes, primary, name.length) != 0)
		return false;
	next_word(&rest);
	next_word(&rest);
	host = next_word(&rest);
	return make_place(host, rest, is_tls, ret_place);
}
