/* etcd_url.c: parses from left to right and reports the first error. */
#include "policy/source/etcd_url.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/decimal.h"
#include "core/percent.h"
#include "core/text.h"

/* A range of the URL, from `at` up to but not including `end`. */
struct part {
	size_t at, end;
};

struct reading {
	const char *text;
	struct weir__etcd_url *url;
	struct weir_message *message;
};

static int refuse(const struct reading *reading, size_t at, const char *words)
{
	struct weir__text why = weir__text_of_message(reading->message, at);

	weir__text_add(&why, "at ");
	weir__text_add_number(&why, at);
	weir__text_add(&why, ": ");
	weir__text_add(&why, words);
	return WEIR_ERR_SYNTAX;
}

/* Returns the position of a byte in a part, or the part's end. */
static size_t find(const struct reading *reading, struct part part, char byte)
{
	const char *const found = memchr(reading->text + part.at, byte, part.end - part.at);

	return found ? (size_t)(found - reading->text) : part.end;
}

static bool is_word(const struct reading *reading, struct part part, const char *word)
{
	return strlen(word) == part.end - part.at && memcmp(reading->text + part.at, word, part.end - part.at) == 0;
}

/* Decodes %XX. */
static int read_word(const struct reading *reading, struct part part, char ret_word[WEIR__ETCD_WORD_SIZE])
{
	size_t at = 0;
	const char *const why = weir__percent_undo(reading->text + part.at, part.end - part.at, ret_word,
						   WEIR__ETCD_WORD_SIZE, &at);

	return why ? refuse(reading, part.at + at, why) : WEIR_OK;
}

static bool is_host_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
	       c == '_';
}

/* Returns the end of the host at the start of a part; 0: not a host. */
static size_t end_of_host(const struct reading *reading, struct part part)
{
	size_t at = part.at;

	if (at < part.end && reading->text[at] == '[') {
		while (++at < part.end && (is_host_byte(reading->text[at]) || reading->text[at] == ':'))
			;
		return at < part.end && at > part.at + 1 && reading->text[at] == ']' ? at + 1 : 0;
	}
	while (at < part.end && is_host_byte(reading->text[at]))
		at++;
	return at > part.at ? at : 0;
}

static bool read_port(const struct reading *reading, struct part part, unsigned *ret_port)
{
	uint64_t port;

	if (!weir__decimal_read(reading->text + part.at, part.end - part.at, 65535, &port))
		return false;
	*ret_port = (unsigned)port;
	return port > 0;
}

static int read_place(const struct reading *reading, struct part part)
{
	struct weir__etcd_url *const url = reading->url;
	const size_t end = end_of_host(reading, part);
	unsigned port = WEIR__ETCD_PORT;

	if (end == 0 || end - part.at > 255)
		return refuse(reading, part.at, "expected a host: a name or an address, an IPv6 address in brackets");
	if (end < part.end &&
	    (reading->text[end] != ':' || !read_port(reading, (struct part){ end + 1, part.end }, &port)))
		return refuse(reading, end, "expected a port after the host, such as :2379, or nothing");
	if (url->n_places == WEIR__ETCD_PLACES_MAX)
		return refuse(reading, part.at, "too many hosts; use at most 8");
	(void)snprintf(url->places[url->n_places++], WEIR__ETCD_PLACE_SIZE, "%.*s:%u", (int)(end - part.at),
		       reading->text + part.at, port);
	return WEIR_OK;
}

static int read_places(const struct reading *reading, struct part part)
{
	for (;;) {
		const struct part place = { part.at, find(reading, part, ',') };
		const int error = read_place(reading, place);

		if (error != WEIR_OK || place.end == part.end)
			return error;
		part.at = place.end + 1;
	}
}

static int read_user(const struct reading *reading, struct part part)
{
	const struct part name = { part.at, find(reading, part, ':') };
	int error;

	if (name.end == part.end || name.at == name.end || name.end + 1 == part.end)
		return refuse(reading, part.at, "expected user:password before @");
	error = read_word(reading, name, reading->url->user);
	return error == WEIR_OK ? read_word(reading, (struct part){ name.end + 1, part.end }, reading->url->password) :
				  error;
}

static int read_option(const struct reading *reading, struct part part)
{
	static const struct {
		const char *name;
		size_t at; /* offset in the struct */
	} files[] = { { "ca", offsetof(struct weir__etcd_url, ca) },
		      { "cert", offsetof(struct weir__etcd_url, certificate) },
		      { "key", offsetof(struct weir__etcd_url, private_key) } };
	const struct part name = { part.at, find(reading, part, '=') };
	const struct part value = { name.end + 1, part.end };
	struct weir__etcd_url *const url = reading->url;

	if (name.end == part.end || value.at == value.end)
		return refuse(reading, part.at, "expected an option as name=value, such as ca=FILE");
	if (!url->is_tls)
		return refuse(reading, part.at, "options need TLS; use etcds://");
	if (is_word(reading, name, "verify")) {
		url->verifies = !is_word(reading, value, "none");
		return url->verifies && !is_word(reading, value, "full") ?
			       refuse(reading, value.at, "invalid verify; use none or full") :
			       WEIR_OK;
	}
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (is_word(reading, name, files[i].name))
			return read_word(reading, value, (char *)url + files[i].at);
	return refuse(reading, name.at, "unknown option; use ca, cert, key or verify");
}

static int read_options(const struct reading *reading, struct part part)
{
	int error = WEIR_OK;

	while (error == WEIR_OK && part.at < part.end) {
		const struct part option = { part.at, find(reading, part, '&') };

		error = read_option(reading, option);
		part.at = option.end + (option.end < part.end);
	}
	if (error == WEIR_OK && (reading->url->certificate[0] == '\0') != (reading->url->private_key[0] == '\0'))
		return refuse(reading, part.at, "a client certificate needs both cert=FILE and key=FILE");
	return error;
}

int weir__etcd_url_read(const char *text, struct weir__etcd_url *ret_url, struct weir_message *ret_message)
{
	static const char schemes[2][9] = { "etcd://", "etcds://" };
	const struct reading reading = { text, ret_url, ret_message };
	struct part all = { 0, strlen(text) }, hosts, key;
	size_t sign;
	int error;

	*ret_url = (struct weir__etcd_url){ .is_tls = strncmp(text, schemes[1], strlen(schemes[1])) == 0,
					    .verifies = true };
	if (!ret_url->is_tls && strncmp(text, schemes[0], strlen(schemes[0])) != 0)
		return refuse(&reading, 0, "wrong scheme; use etcd:// or etcds://");
	all.at = strlen(schemes[ret_url->is_tls]);
	hosts = (struct part){ all.at, find(&reading, all, '/') };
	key = (struct part){ hosts.end + (hosts.end < all.end),
			     find(&reading, (struct part){ hosts.end, all.end }, '?') };
	if (key.end <= key.at)
		return refuse(&reading, hosts.end,
			      "missing key; put it after the host, as in etcd://127.0.0.1:2379/weir/policy");
	sign = find(&reading, hosts, '@');
	error = sign < hosts.end ? read_user(&reading, (struct part){ hosts.at, sign }) : WEIR_OK;
	if (error == WEIR_OK)
		error = read_places(&reading, (struct part){ sign < hosts.end ? sign + 1 : hosts.at, hosts.end });
	if (error == WEIR_OK)
		error = read_word(&reading, key, ret_url->key);
	return error == WEIR_OK ? read_options(&reading, (struct part){ key.end + (key.end < all.end), all.end }) :
				  error;
}
