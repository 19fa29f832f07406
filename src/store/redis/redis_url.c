/* redis_url.c: parses and displays URLs of Redis. A message never quotes what may be part of a password. */
#include "store/redis/redis_url.h"

#include <stdio.h>
#include <string.h>

#include "core/decimal.h"
#include "core/notation.h"
#include "core/percent.h"
#include "core/text.h"

enum { REDIS_PORT = 6379, SENTINEL_PORT = 26379, DATABASE_MAX = INT32_MAX, SOCKET_PATH_MAX = 107 };

static const weir_ns ms = 1000000, second = 1000000000;

/* The URL being parsed, and where messages go. */
struct reading {
	const char *text;
	struct weir__redis_url *url;
	struct weir_message *ret_message;
	bool is_unix, is_tls, has_database;
	unsigned seen; /* options seen: bit i is options[i] */
};

/* A part of the text, from `at` up to but not including `end`. */
struct part {
	size_t at, end;
};

static int refuse(const struct reading *reading, size_t at, const char *words)
{
	struct weir__text text = weir__text_of_message(reading->ret_message, at);

	weir__text_add(&text, words);
	return WEIR_ERR_SYNTAX;
}

static int refuse_quoted(const struct reading *reading, struct part part, const char *what, const char *words)
{
	struct weir__text text = weir__text_of_message(reading->ret_message, part.at);

	weir__text_add(&text, what);
	weir__text_add(&text, " ");
	weir__text_add_quoted(&text, reading->text + part.at, part.end - part.at);
	weir__text_add(&text, ": ");
	weir__text_add(&text, words);
	return WEIR_ERR_SYNTAX;
}

/* Returns the position of the first of these characters, or the end. */
static size_t find(const struct reading *reading, struct part part, const char *characters)
{
	while (part.at < part.end &&
	       (reading->text[part.at] == '\0' || strchr(characters, reading->text[part.at]) == NULL))
		part.at++;
	return part.at;
}

static bool is_word(const struct reading *reading, struct part part, const char *word)
{
	return part.end - part.at == strlen(word) && memcmp(reading->text + part.at, word, strlen(word)) == 0;
}

/* Decodes percent-encoding. */
static int read_word(const struct reading *reading, struct part part, char *ret_word, size_t size)
{
	size_t at;
	const char *const why = weir__percent_undo(reading->text + part.at, part.end - part.at, ret_word, size, &at);

	if (why == weir__percent_too_long)
		return refuse(reading, part.at, "too long; use at most 255 bytes");
	return why != NULL ? refuse(reading, part.at + at, why) : WEIR_OK;
}

/* Reads a number of digits only. */
static bool read_number(const struct reading *reading, struct part part, uint64_t most, uint64_t *ret_number)
{
	return weir__decimal_read(reading->text + part.at, part.end - part.at, most, ret_number);
}

static int read_database(struct reading *reading, struct part part)
{
	uint64_t number;

	if (reading->has_database)
		return refuse(reading, part.at, "database given twice; use it once");
	if (!read_number(reading, part, DATABASE_MAX, &number))
		return refuse(reading, part.at, "invalid database; use a number, such as 0");
	reading->has_database = true;
	reading->url->database = (uint32_t)number;
	return WEIR_OK;
}

/* --- options ----------------------------------------------------------------------------------------------------- */

static int read_pool(struct reading *reading, struct part part)
{
	uint64_t number;

	if (!read_number(reading, part, WEIR__REDIS_POOL_MAX, &number) || number == 0)
		return refuse_quoted(reading, part, "invalid pool", "use 1 to 16 connections");
	reading->url->pool = (uint32_t)number;
	return WEIR_OK;
}

static int read_duration(struct reading *reading, struct part part, weir_ns least, weir_ns most, const char *words,
			 weir_ns *ret_duration)
{
	const struct part digits = { part.at, find(reading, part, "numshd") }; /* where units begin */
	const struct part unit = { digits.end, part.end };
	uint64_t number;

	if (read_number(reading, digits, UINT32_MAX, &number))
		for (size_t i = 0; i < WEIR__PERIOD_WORDS; i++)
			if (is_word(reading, unit, weir__period_words[i].word) &&
			    number <= most / weir__period_words[i].period &&
			    number * weir__period_words[i].period >= least) {
				*ret_duration = number * weir__period_words[i].period;
				return WEIR_OK;
			}
	return refuse_quoted(reading, part, "invalid duration", words);
}

static int read_timeout(struct reading *reading, struct part part)
{
	return read_duration(reading, part, ms / 10, 10 * second, "use 100us to 10s, such as 100ms",
			     &reading->url->budget);
}

static int read_connect_timeout(struct reading *reading, struct part part)
{
	return read_duration(reading, part, ms, 60 * second, "use 1ms to 60s, such as 500ms",
			     &reading->url->connect_timeout);
}

static int read_verify(struct reading *reading, struct part part)
{
	if (!is_word(reading, part, "none") && !is_word(reading, part, "full"))
		return refuse_quoted(reading, part, "invalid verify", "use none or full");
	reading->url->verifies = is_word(reading, part, "full");
	return WEIR_OK;
}

/* An option without a function is a string, stored at offset `at` of the URL. */
static const struct option {
	const char *name;
	bool is_for_tls, is_for_sentinels;
	size_t at; /* offset in struct weir__redis_url */
	int (*read)(struct reading *reading, struct part part);
} options[] = {
	{ "prefix", false, false, offsetof(struct weir__redis_url, prefix), NULL },
	{ "pool", false, false, 0, read_pool },
	{ "timeout", false, false, 0, read_timeout },
	{ "connect_timeout", false, false, 0, read_connect_timeout },
	{ "database", false, false, 0, read_database },
	{ "sentinel_user", false, true, offsetof(struct weir__redis_url, sentinel_user), NULL },
	{ "sentinel_password", false, true, offsetof(struct weir__redis_url, sentinel_password), NULL },
	{ "ca", true, false, offsetof(struct weir__redis_url, ca), NULL },
	{ "cert", true, false, offsetof(struct weir__redis_url, certificate), NULL },
	{ "key", true, false, offsetof(struct weir__redis_url, key), NULL },
	{ "tls_name", true, false, offsetof(struct weir__redis_url, tls_name), NULL },
	{ "verify", true, false, 0, read_verify },
};

static int read_option(struct reading *reading, struct part part)
{
	const struct part name = { part.at, find(reading, part, "=") };
	const struct part value = { name.end + 1, part.end };
	size_t i = 0;

	if (name.end == part.end)
		return refuse(reading, part.at, "expected an option as name=value, such as pool=4");
	while (i < sizeof(options) / sizeof(options[0]) && !is_word(reading, name, options[i].name))
		i++;
	if (i == sizeof(options) / sizeof(options[0]))
		return refuse(reading, name.at,
			      "unknown option; use prefix, pool, timeout, connect_timeout, database, "
			      "sentinel_user, sentinel_password, ca, cert, key, tls_name or verify");
	if (reading->seen & 1U << i)
		return refuse_quoted(reading, name, "option", "given twice; use it once");
	reading->seen |= 1U << i;
	if (options[i].is_for_tls && !reading->is_tls)
		return refuse_quoted(reading, name, "option", "needs TLS; use rediss:// or rediss+sentinel://");
	if (options[i].is_for_sentinels && !reading->url->is_sentinel)
		return refuse_quoted(reading, name, "option", "only for redis+sentinel:// and rediss+sentinel://");
	if (options[i].read != NULL)
		return options[i].read(reading, value);
	return read_word(reading, value, (char *)reading->url + options[i].at, WEIR__REDIS_WORD_SIZE);
}

static int read_options(struct reading *reading, struct part part)
{
	const struct weir__redis_url *const url = reading->url;
	int error = WEIR_OK;

	while (error == WEIR_OK && part.at < part.end) {
		const struct part option = { part.at, find(reading, part, "&") };

		error = read_option(reading, option);
		part.at = option.end + (option.end < part.end);
	}
	if (error != WEIR_OK)
		return error;
	if ((url->certificate[0] == '\0') != (url->key[0] == '\0'))
		return refuse(reading, part.at, "a client certificate needs both cert=FILE and key=FILE");
	if (url->sentinel_user[0] != '\0' && url->sentinel_password[0] == '\0')
		return refuse(reading, part.at, "sentinel_user needs sentinel_password");
	return WEIR_OK;
}

/* --- user and hosts ---------------------------------------------------------------------------------------------- */

static int read_user(struct reading *reading, struct part part)
{
	const struct part user = { part.at, find(reading, part, ":") };
	const struct part password = { user.end + 1, part.end };
	int error;

	if (user.end == part.end || password.at == password.end)
		return refuse(reading, part.at, "expected user:password or :password before the @");
	error = read_word(reading, user, reading->url->user, WEIR__REDIS_WORD_SIZE);
	if (error != WEIR_OK)
		return error;
	return read_word(reading, password, reading->url->password, WEIR__REDIS_WORD_SIZE);
}

static bool is_in_host(char byte, bool is_address)
{
	return (byte >= '0' && byte <= '9') || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'z') || byte == '.' ||
	       (is_address ? byte == ':' || byte == '%' : byte == '-' || byte == '_');
}

static int read_place(struct reading *reading, struct part part)
{
	struct weir__redis_url *const url = reading->url;
	const bool is_address = part.at < part.end && reading->text[part.at] == '[';
	struct part host = { part.at + is_address, find(reading, part, is_address ? "]" : ":") };
	const struct part port = { host.end + is_address + 1, part.end };
	struct weir__redis_place *place;
	uint64_t number = url->is_sentinel ? SENTINEL_PORT : REDIS_PORT;

	if (url->n_places == WEIR__REDIS_PLACES_MAX)
		return refuse(reading, part.at, "too many sentinels; use at most 8, each of them knows the others");
	if (is_address && host.end == part.end)
		return refuse(reading, part.at, "missing ] of an IPv6 address");
	if (host.at >= host.end)
		return refuse(reading, part.at, "missing host, such as localhost:6379");
	for (size_t i = host.at; i < host.end; i++)
		if (!is_in_host(reading->text[i], is_address))
			return refuse(reading, i,
				      "invalid host; use letters, digits, '.', '-' and '_', or an IPv6 address in []");
	if (host.end - host.at >= WEIR__REDIS_HOST_SIZE)
		return refuse(reading, host.at, "host too long; use at most 255 bytes");
	if (port.at <= port.end &&
	    (reading->text[port.at - 1] != ':' || !read_number(reading, port, UINT16_MAX, &number) || number == 0))
		return refuse(reading, port.at, "invalid port; use a number from 1 to 65535");
	place = &url->places[url->n_places++];
	memcpy(place->host, reading->text + host.at, host.end - host.at);
	place->port = (uint16_t)number;
	place->is_tls = reading->is_tls;
	return WEIR_OK;
}

static int read_places(struct reading *reading, struct part part)
{
	for (;;) {
		const struct part place = { part.at, reading->url->is_sentinel ? find(reading, part, ",") : part.end };
		const int error = read_place(reading, place);

		if (error != WEIR_OK || place.end == part.end)
			return error;
		part.at = place.end + 1;
	}
}

/* The part before the path: user:password@ and hosts. */
static int read_authority(struct reading *reading, struct part part)
{
	const size_t sign = find(reading, part, "@");
	int error;

	if (sign < part.end) {
		error = read_user(reading, (struct part){ part.at, sign });
		if (error != WEIR_OK)
			return error;
		part.at = sign + 1;
	}
	if (!reading->is_unix)
		return read_places(reading, part);
	if (part.at < part.end)
		return refuse(reading, part.at,
			      "a socket has no host; use three slashes, as in redis+unix:///run/redis.sock");
	return WEIR_OK;
}

/* --- the path ---------------------------------------------------------------------------------------------------- */

static int read_socket(struct reading *reading, struct part part)
{
	struct weir__redis_place *const place = &reading->url->places[0];
	const int error = read_word(reading, part, place->host, sizeof(place->host));

	if (error != WEIR_OK)
		return error;
	if (strlen(place->host) < 2 || strlen(place->host) > SOCKET_PATH_MAX)
		return refuse(reading, part.at, "invalid path; use 2 to 107 bytes, as in redis+unix:///run/redis.sock");
	place->is_path = true;
	reading->url->n_places = 1;
	return WEIR_OK;
}

static int read_path(struct reading *reading, struct part part)
{
	struct part name;
	int error;

	if (reading->is_unix)
		return read_socket(reading, part);
	part.at += part.at < part.end; /* the slash */
	if (reading->url->is_sentinel) {
		name = (struct part){ part.at, find(reading, part, "/") };
		if (name.at == name.end)
			return refuse(reading, part.at,
				      "missing name of the primary; use redis+sentinel://host:26379/NAME");
		error = read_word(reading, name, reading->url->primary, WEIR__REDIS_WORD_SIZE);
		if (error != WEIR_OK)
			return error;
		part.at = name.end + (name.end < part.end);
	}
	return part.at < part.end ? read_database(reading, part) : WEIR_OK;
}

static const struct scheme {
	const char *words;
	bool is_tls, is_sentinel, is_unix;
} schemes[] = {
	{ "redis://", false, false, false },         { "rediss://", true, false, false },
	{ "redis+sentinel://", false, true, false }, { "rediss+sentinel://", true, true, false },
	{ "redis+unix://", false, false, true },     { "unix://", false, false, true },
};

static const struct scheme *scheme_of(const char *text, size_t length)
{
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (length >= strlen(schemes[i].words) && memcmp(text, schemes[i].words, strlen(schemes[i].words)) == 0)
			return &schemes[i];
	return NULL;
}

/* The parts after the scheme. A password with an unescaped slash ends the hosts too early. An @ after them reveals
 * that, before anything is quoted. */
static int read_parts(struct reading *reading, struct part all)
{
	const struct part authority = { all.at, find(reading, all, "/?#") };
	struct part path = { authority.end, 0 };
	const size_t sign = find(reading, authority, "@");
	int error;

	path.end = find(reading, (struct part){ authority.end, all.end }, "?");
	if (find(reading, (struct part){ sign < authority.end ? sign + 1 : authority.end, all.end }, "@") < all.end)
		return refuse(
			reading, all.at,
			"in users, passwords and options write / as %2F, ? as %3F, # as %23, & as %26 and @ as %40");
	if (find(reading, all, "#") < all.end)
		return refuse(reading, find(reading, all, "#"), "unexpected #; write it as %23");
	error = read_authority(reading, authority);
	if (error == WEIR_OK)
		error = read_path(reading, path);
	if (error == WEIR_OK && path.end < all.end)
		error = read_options(reading, (struct part){ path.end + 1, all.end });
	return error;
}

int weir__redis_url_read(const char *text, size_t length, struct weir__redis_url *ret_url,
			 struct weir_message *ret_message)
{
	struct weir__redis_url url = {
		.prefix = "weir:", .pool = 2, .connect_timeout = 500 * ms, .budget = 100 * ms, .verifies = true
	};
	struct reading reading = { .text = text, .url = &url, .ret_message = ret_message };
	const struct scheme *const scheme = scheme_of(text, length);
	int error;

	if (scheme == NULL)
		return refuse(&reading, 0,
			      "unknown scheme; use redis://, rediss://, redis+sentinel://, rediss+sentinel://, "
			      "redis+unix:// or unix://");
	reading.is_tls = scheme->is_tls;
	reading.is_unix = scheme->is_unix;
	url.is_sentinel = scheme->is_sentinel;
	error = read_parts(&reading, (struct part){ strlen(scheme->words), length });
	if (error == WEIR_OK)
		*ret_url = url;
	return error;
}

/* --- display ----------------------------------------------------------------------------------------------------- */

void weir__redis_place_show(const struct weir__redis_place *place, char *ret_text, size_t size)
{
	if (place->is_path)
		(void)snprintf(ret_text, size, "%s", place->host);
	else if (strchr(place->host, ':') != NULL)
		(void)snprintf(ret_text, size, "[%s]:%u", place->host, place->port);
	else
		(void)snprintf(ret_text, size, "%s:%u", place->host, place->port);
}

void weir__redis_url_show(const struct weir__redis_url *url, char *ret_text, size_t size)
{
	struct weir__text text = { ret_text, 0, size };
	char place[WEIR__REDIS_HOST_SIZE + 10];

	weir__text_add(&text, url->places[0].is_path ? "redis+unix" : url->places[0].is_tls ? "rediss" : "redis");
	weir__text_add(&text, url->is_sentinel ? "+sentinel://" : "://");
	if (url->password[0] != '\0') {
		weir__text_add(&text, url->user);
		weir__text_add(&text, ":***@");
	}
	for (uint32_t i = 0; i < url->n_places; i++) {
		weir__redis_place_show(&url->places[i], place, sizeof(place));
		weir__text_add(&text, i > 0 ? "," : "");
		weir__text_add(&text, place);
	}
	if (url->is_sentinel) {
		weir__text_add(&text, "/");
		weir__text_add(&text, url->primary);
	}
	if (url->database > 0) {
		weir__text_add(&text, url->places[0].is_path ? "?database=" : "/");
		weir__text_add_number(&text, url->database);
	}
}
