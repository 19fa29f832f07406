/* redis_driver.c: a socket for each link of the client. */
#include "store/redis/redis_driver.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "os/net.h"
#include "os/resolve.h"
#include "os/tls.h"

enum {
	READ_BYTES = 1 << 16,
	WISHES = 64, /* wishes fulfilled in a row, before events get their turn */
	WHY_SIZE = 400,
};

enum state { IDLE, LOOKING_UP, CONNECTING, SHAKING, OPEN };

struct link {
	uint32_t number;
	enum state state;
	struct weir__redis_place place;
	struct weir__resolve *resolve;
	struct weir__net_address addresses[WEIR__RESOLVE_ADDRESSES];
	unsigned n_addresses;
	unsigned tried; /* addresses tried so far */
	/* Index of the address to begin with. It advances with each attempt, so that an address that does not respond
	 * is not always the first one tried. */
	unsigned first;
	int socket;
	uint64_t since; /* turn in which the socket was added: events of that turn belong to the previous socket */
	struct weir__tls *tls;
	bool is_full;       /* the socket has no room to write */
	bool hears_of_room; /* the loop reports when there is room */
};

struct weir__redis_driver {
	const struct weir__redis_url *url;
	struct weir__redis_client *client;
	struct weir__loop *loop;
	struct weir__tls_context *tls;
	uint64_t turn;
	struct link links[WEIR__REDIS_LINKS_MAX];
	char bytes[READ_BYTES];
};

/* --- opening and closing a connection ----------------------------------------------------------------------------- */

static void close_socket(struct weir__redis_driver *driver, struct link *link)
{
	weir__tls_free(link->tls);
	link->tls = NULL;
	if (link->socket >= 0) {
		weir__loop_remove(driver->loop, link->socket);
		weir__net_close(link->socket);
	}
	link->socket = -1;
	link->is_full = link->hears_of_room = false;
}

static void close_link(struct weir__redis_driver *driver, struct link *link)
{
	close_socket(driver, link);
	weir__resolve_free(link->resolve);
	link->resolve = NULL;
	link->state = IDLE;
}

static void lose(struct weir__redis_driver *driver, struct link *link, const char *why, weir_ns now)
{
	char words[WHY_SIZE];

	(void)snprintf(words, sizeof(words), "%s", why); /* `why` may point into what is closed now */
	close_link(driver, link);
	weir__redis_client_lost(driver->client, link->number, words, now);
}

static void lose_by_errno(struct weir__redis_driver *driver, struct link *link, int error, weir_ns now)
{
	lose(driver, link, strerror(error), now);
}

static void opened(struct weir__redis_driver *driver, struct link *link, weir_ns now)
{
	link->state = OPEN;
	weir__redis_client_opened(driver->client, link->number, now);
}

/* Sets whether the loop reports room to write. Cannot fail: the socket is registered with the loop. */
static void hear(struct weir__redis_driver *driver, struct link *link, bool of_room)
{
	if (link->hears_of_room == of_room)
		return;
	link->hears_of_room = of_room;
	(void)weir__loop_change(driver->loop, link->socket, link, true, of_room);
}

static void shake(struct weir__redis_driver *driver, struct link *link, weir_ns now)
{
	const int error = weir__tls_shake(link->tls);

	if (error == 0) {
		hear(driver, link, false);
		opened(driver, link, now);
	} else if (error == EAGAIN) {
		hear(driver, link, weir__tls_wants_to_write(link->tls));
	} else {
		lose(driver, link, weir__tls_why(link->tls), now);
	}
}

static void connected(struct weir__redis_driver *driver, struct link *link, weir_ns now)
{
	const char *const name = *driver->url->tls_name ? driver->url->tls_name : link->place.host;

	if (!link->place.is_tls) {
		hear(driver, link, false);
		opened(driver, link, now);
		return;
	}
	link->tls = driver->tls ? weir__tls_new(driver->tls, link->socket, name) : NULL;
	if (link->tls == NULL) {
		lose(driver, link, "TLS cannot start: no memory, or an invalid name for a certificate", now);
		return;
	}
	link->state = SHAKING;
	shake(driver, link, now);
}

/* Tries the next addresses until one does not fail at once. */
static void connect_to_next(struct weir__redis_driver *driver, struct link *link, int error, weir_ns now)
{
	while (link->tried < link->n_addresses) {
		const unsigned at = (link->first + link->tried++) % link->n_addresses;

		error = weir__net_begin_to_connect(&link->addresses[at], &link->socket);
		if (error != 0) {
			link->socket = -1;
			continue;
		}
		error = weir__loop_add(driver->loop, link->socket, link);
		if (error == 0) {
			link->state = CONNECTING;
			link->since = driver->turn;
			hear(driver, link, true);
			return;
		}
		close_socket(driver, link);
	}
	lose_by_errno(driver, link, error, now);
}

static void begin_to_connect(struct weir__redis_driver *driver, struct link *link, weir_ns now)
{
	link->tried = 0;
	link->first++;
	connect_to_next(driver, link, EHOSTUNREACH, now);
}

static void resolved(struct weir__redis_driver *driver, struct link *link, weir_ns now)
{
	char words[WHY_SIZE];
	const char *why;

	if (!weir__resolve_is_over(link->resolve, link->addresses, &link->n_addresses, &why))
		return;
	if (link->n_addresses > 0) {
		weir__resolve_free(link->resolve);
		link->resolve = NULL;
		begin_to_connect(driver, link, now);
		return;
	}
	(void)snprintf(words, sizeof(words), "unknown host name: %s", why);
	lose(driver, link, words, now);
}

static void open_link(struct weir__redis_driver *driver, struct link *link, weir_ns now)
{
	int error;

	link->n_addresses = 0;
	if (link->place.is_path) {
		error = weir__net_address_of_path(link->place.host, &link->addresses[0]);
		if (error == 0) {
			link->n_addresses = 1;
			begin_to_connect(driver, link, now);
		}
	} else {
		error = weir__resolve_new(link->place.host, link->place.port, driver->loop, &link->resolve);
		if (error == 0) {
			link->state = LOOKING_UP;
			resolved(driver, link, now); /* a numeric address needs no lookup */
		}
	}
	if (error != 0)
		lose_by_errno(driver, link, error, now);
}

/* --- wishes ------------------------------------------------------------------------------------------------------ */

/* Called whenever the client may have wishes, because the driver must not report on a link that the client wants
 * closed. Returns false if wishes are left. */
static bool fulfil_wishes(struct weir__redis_driver *driver, weir_ns now)
{
	struct weir__redis_wish wish;

	for (unsigned n = 0; n < WISHES; n++) {
		struct link *link;

		if (!weir__redis_client_wish(driver->client, &wish))
			return true;
		link = &driver->links[wish.link];
		close_link(driver, link);
		if (wish.kind == WEIR__REDIS_OPEN) {
			link->place = wish.place;
			open_link(driver, link, now);
		}
	}
	return false;
}

/* --- bytes ------------------------------------------------------------------------------------------------------- */

static ssize_t read_some(struct weir__redis_driver *driver, struct link *link)
{
	return link->tls ? weir__tls_read(link->tls, driver->bytes, sizeof(driver->bytes)) :
			   weir__net_read(link->socket, driver->bytes, sizeof(driver->bytes));
}

static ssize_t write_some(struct link *link, struct weir__resp_slice output)
{
	return link->tls ? weir__tls_write(link->tls, output.bytes, output.length) :
			   weir__net_write(link->socket, output.bytes, output.length);
}

static void lose_by(struct weir__redis_driver *driver, struct link *link, ssize_t error, weir_ns now)
{
	if (error == 0)
		lose(driver, link, "the connection was closed by Redis", now);
	else if (link->tls)
		lose(driver, link, weir__tls_why(link->tls), now);
	else
		lose_by_errno(driver, link, (int)-error, now);
}

/* The loop reports again what the socket still has. Bytes that TLS has already taken from the socket must be read
 * now. */
static void receive(struct weir__redis_driver *driver, struct link *link, weir_ns now)
{
	do {
		const ssize_t n = read_some(driver, link);

		if (n > 0)
			weir__redis_client_received(driver->client, link->number, driver->bytes, (size_t)n, now);
		else if (n != -EAGAIN && n != -EINTR)
			lose_by(driver, link, n, now);
		(void)fulfil_wishes(driver, now);
	} while (link->state == OPEN && link->tls && weir__tls_has_unread(link->tls));
}

static void send_output(struct weir__redis_driver *driver, struct link *link, weir_ns now)
{
	while (link->state == OPEN && !link->is_full) {
		const struct weir__resp_slice output = weir__redis_client_output(driver->client, link->number);
		ssize_t n;

		if (output.length == 0) {
			hear(driver, link, false);
			return;
		}
		n = write_some(link, output);
		if (n > 0) {
			weir__redis_client_sent(driver->client, link->number, (size_t)n);
		} else if (n == -EAGAIN) {
			link->is_full = true;
			hear(driver, link, !link->tls || weir__tls_wants_to_write(link->tls));
		} else if (n != -EINTR) {
			lose_by(driver, link, n, now);
		}
	}
}

static void finish_connecting(struct weir__redis_driver *driver, struct link *link, bool can_write, weir_ns now)
{
	const int error = weir__net_connected(link->socket);

	if (error == 0 && can_write) {
		connected(driver, link, now);
	} else if (error != 0) {
		close_socket(driver, link);
		connect_to_next(driver, link, error, now);
	}
}

/* --- turns of the loop ------------------------------------------------------------------------------------------- */

void weir__redis_driver_event(struct weir__redis_driver *driver, const struct weir__loop_event *event, weir_ns now)
{
	struct link *const link = event->what;

	if (link->since == driver->turn)
		return;
	if (link->state == CONNECTING) {
		finish_connecting(driver, link, event->can_write, now);
	} else if (link->state == SHAKING) {
		shake(driver, link, now);
	} else if (link->state == OPEN) {
		link->is_full = false; /* TLS may have needed to read before it could write */
		if (event->can_read)
			receive(driver, link, now);
	}
	(void)fulfil_wishes(driver, now);
}

bool weir__redis_driver_settle(struct weir__redis_driver *driver, weir_ns now)
{
	bool is_settled = fulfil_wishes(driver, now);

	for (uint32_t i = 0; i < WEIR__REDIS_LINKS_MAX; i++) {
		struct link *const link = &driver->links[i];

		if (link->state == LOOKING_UP)
			resolved(driver, link, now);
		send_output(driver, link, now);
		is_settled = fulfil_wishes(driver, now) && is_settled;
	}
	driver->turn++;
	return is_settled;
}

/* --- the driver -------------------------------------------------------------------------------------------------- */

static int prepare_tls(struct weir__redis_driver *driver, struct weir_message *ret_message)
{
	const struct weir__redis_url *const url = driver->url;
	const struct weir__tls_files files = { .ca = url->ca, .certificate = url->certificate, .key = url->key };
	char why[WEIR__TLS_WHY_SIZE];
	struct weir__text text;

	for (uint32_t i = 0; i < url->n_places; i++) {
		if (!url->places[i].is_tls)
			continue;
		if (weir__tls_context_new(&files, url->verifies, &driver->tls, why) == 0)
			return WEIR_OK;
		text = weir__text_of_message(ret_message, 0);
		weir__text_add(&text, why);
		return WEIR_ERR_LIMIT;
	}
	return WEIR_OK;
}

int weir__redis_driver_new(const struct weir__redis_url *url, struct weir__redis_client *client,
			   struct weir__loop *loop, struct weir__redis_driver **ret_driver,
			   struct weir_message *ret_message)
{
	struct weir__redis_driver *const driver = calloc(1, sizeof(*driver));
	struct weir__text text;
	int error;

	if (driver == NULL) {
		text = weir__text_of_message(ret_message, 0);
		weir__text_add(&text, "no memory for connections to Redis");
		return WEIR_ERR_SYSTEM;
	}
	driver->url = url;
	driver->client = client;
	driver->loop = loop;
	for (uint32_t i = 0; i < WEIR__REDIS_LINKS_MAX; i++) {
		driver->links[i].number = i;
		driver->links[i].socket = -1;
		driver->links[i].first = UINT32_MAX; /* begin_to_connect increments it to 0 */
	}
	error = prepare_tls(driver, ret_message);
	if (error != WEIR_OK)
		weir__redis_driver_free(driver);
	else
		*ret_driver = driver;
	return error;
}

void weir__redis_driver_free(struct weir__redis_driver *driver)
{
	if (driver == NULL)
		return;
	for (uint32_t i = 0; i < WEIR__REDIS_LINKS_MAX; i++)
		close_link(driver, &driver->links[i]);
	weir__tls_context_free(driver->tls);
	free(driver);
}
