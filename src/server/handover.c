/* handover.c: writes and reads the variable, and watches the next server until it serves.
 *
 * WEIR_HANDOVER=PIPE,PROTOCOL,SETTING,NAME,SOCKET SOCKET ...,PROTOCOL,SETTING,... No listen address contains a comma.
 * The service of a lent socket is followed by +. PIPE is followed by a space and the pipe to the parent, if the server
 * has a parent. An older version would not report to the parent, and rejects this form.
 *
 * WEIR_TICKETS=DESCRIPTOR is a file in memory with the keys of session tickets. The keys themselves are not in the
 * environment, where programs that the server starts would find them. An older version ignores the variable.
 *
 * Sockets from systemd are received as well: LISTEN_FDS of them, from descriptor 3 on, if LISTEN_PID is this
 * process. */
#include "server/handover.h"

#include <weir/clock.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/memory.h"
#include "os/process.h"

#define VARIABLE "WEIR_HANDOVER"
#define TICKETS "WEIR_TICKETS"

static const weir_ns patience_ns = UINT64_C(60000000000);

/* --- the next server -------------------------------------------------------------------------------------------- */

static bool read_descriptor(const char *text, int *ret_descriptor)
{
	char *end;
	long number;

	errno = 0;
	number = strtol(text, &end, 10);
	if (end == text || *end != '\0' || errno != 0 || number < 3 || number > INT32_MAX)
		return false;
	*ret_descriptor = (int)number;
	return fcntl(*ret_descriptor, F_SETFD, FD_CLOEXEC) == 0;
}

static bool read_sockets(char *text, struct weir__listen_address *address)
{
	char *rest = text;

	for (char *word = strsep(&rest, " "); word; word = strsep(&rest, " "))
		if (address->n == WEIR__WORKERS_MAX || !read_descriptor(word, &address->sockets[address->n]) ||
		    !weir__net_is_listener(address->sockets[address->n++]))
			return false;
	return address->n > 0;
}

static bool read_service(char *word, struct weir__listen_address *address)
{
	char *const plus = strchr(word, '+');

	address->is_lent = plus != NULL;
	if (plus)
		*plus = '\0';
	for (enum weir__service service = 0; service < WEIR__SERVICES; service++)
		if (strcmp(word, weir__service_word(service)) == 0) {
			address->service = service;
			return true;
		}
	return false;
}

static bool read_where(const char *word, char where[WEIR__NET_NAME_SIZE])
{
	if (word == NULL || *word == '\0' || strlen(word) >= WEIR__NET_NAME_SIZE)
		return false;
	memcpy(where, word, strlen(word) + 1);
	return true;
}

static bool read_listeners(char *rest, struct weir__listeners *listeners)
{
	for (char *word = strsep(&rest, ","); word; word = strsep(&rest, ",")) {
		struct weir__listen_address *const address = &listeners->at[listeners->n];
		char *sockets;

		if (listeners->n == WEIR__LISTEN_ADDRESSES_MAX || !read_service(word, address) ||
		    !read_where(strsep(&rest, ","), address->setting) || !read_where(strsep(&rest, ","), address->name))
			return false;
		sockets = strsep(&rest, ",");
		if (sockets == NULL || !read_sockets(sockets, address))
			return false;
		listeners->n++;
	}
	return true;
}

/* A number from the environment; 0 if it is not set. */
static unsigned long number_of(const char *variable)
{
	const char *const text = getenv(variable);

	return text ? strtoul(text, NULL, 10) : 0;
}

/* The services of lent sockets are still unknown here. The setting with the same address decides. */
static bool receive_lent(struct weir__listeners *listeners, FILE *errors)
{
	enum { FIRST = 3 };
	const unsigned long n = number_of("LISTEN_PID") == (unsigned long)getpid() ? number_of("LISTEN_FDS") : 0;

	for (unsigned long i = 0; i < n; i++) {
		struct weir__listen_address *const address = &listeners->at[listeners->n];
		const int socket = FIRST + (int)i;

		if (listeners->n == WEIR__LISTEN_ADDRESSES_MAX || !weir__net_is_listener(socket) ||
		    !weir__net_name(socket, address->name) || fcntl(socket, F_SETFD, FD_CLOEXEC) != 0) {
			fprintf(errors,
				"weir serve: LISTEN_FDS: found %lu, and descriptor %d is not a listening socket; use up to "
				"%d listening stream sockets\n",
				n, socket, WEIR__LISTEN_ADDRESSES_MAX);
			return false;
		}
		memcpy(address->setting, address->name, sizeof(address->setting));
		address->sockets[0] = socket;
		address->n = 1;
		address->is_lent = true;
		listeners->n++;
	}
	return true;
}

static bool read_pipes(char *text, int *ret_pipe, int *ret_parent)
{
	char *const pipe = strsep(&text, " ");

	return read_descriptor(pipe, ret_pipe) && (text == NULL || read_descriptor(text, ret_parent));
}

static bool receive_handed(struct weir__listeners *ret_listeners, int *ret_pipe, int *ret_parent, FILE *errors)
{
	const char *const value = getenv(VARIABLE);
	const bool is_set = value && *value; /* empty counts as unset */
	char *const text = is_set ? strdup(value) : NULL;
	char *rest = text;
	bool is_right = true;

	*ret_pipe = *ret_parent = -1;
	if (is_set)
		is_right = text && read_pipes(strsep(&rest, ","), ret_pipe, ret_parent) &&
			   read_listeners(rest, ret_listeners);
	if (!is_right)
		fputs("weir serve: " VARIABLE
		      ": unexpected value; Weir sets this variable itself when it upgrades, so unset it\n",
		      errors);
	free(text);
	(void)unsetenv(VARIABLE);
	return is_right;
}

bool weir__handover_receive(struct weir__listeners *ret_listeners, int *ret_pipe, int *ret_parent, FILE *errors)
{
	return receive_handed(ret_listeners, ret_pipe, ret_parent, errors) && receive_lent(ret_listeners, errors);
}

struct weir__ticket_keys *weir__handover_take_tickets(void)
{
	const char *const value = getenv(TICKETS);
	struct weir__ticket_keys *tickets = NULL;
	unsigned char bytes[WEIR__TICKET_KEYS_BYTES];
	int file;

	if (value && *value && read_descriptor(value, &file)) {
		const ssize_t n = pread(file, bytes, sizeof(bytes), 0);

		tickets = weir__ticket_keys_new();
		if (tickets && (n < 0 || !weir__ticket_keys_read(tickets, bytes, (size_t)n))) {
			weir__ticket_keys_free(tickets);
			tickets = NULL;
		}
		weir__memory_wipe(bytes, sizeof(bytes));
		close(file);
	}
	(void)unsetenv(TICKETS);
	return tickets;
}

bool weir__handover_tell(int pipe)
{
	ssize_t n;

	if (pipe < 0)
		return true;
	do
		n = write(pipe, "", 1);
	while (n < 0 && errno == EINTR);
	close(pipe);
	return n == 1;
}

/* --- the running server ------------------------------------------------------------------------------------------- */

static char *write_variable(int pipe, int parent, const struct weir__listeners *listeners)
{
	char *text = NULL;
	size_t size;
	FILE *const out = open_memstream(&text, &size);

	if (out == NULL)
		return NULL;
	fprintf(out, VARIABLE "=%d", pipe);
	if (parent >= 0)
		fprintf(out, " %d", parent);
	for (size_t i = 0; i < listeners->n; i++) {
		const struct weir__listen_address *const address = &listeners->at[i];

		fprintf(out, ",%s%s,%s,%s,", weir__service_word(address->service), address->is_lent ? "+" : "",
			address->setting, address->name);
		for (uint32_t j = 0; j < address->n; j++)
			fprintf(out, "%s%d", j ? " " : "", address->sockets[j]);
	}
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

/* The sockets and the variable that the next server is started with. */
struct luggage {
	char *variable;
	char tickets[sizeof(TICKETS) + 16];
	char **environment;
	int *kept;
	size_t n;
};

static void luggage_fini(struct luggage *luggage)
{
	free(luggage->variable);
	free((void *)luggage->environment);
	free(luggage->kept);
}

static bool luggage_init(struct luggage *luggage, int pipe, int parent, int tickets,
			 const struct weir__listeners *listeners)
{
	size_t variables = 0, sockets = 0;

	while (environ[variables])
		variables++;
	for (size_t i = 0; i < listeners->n; i++)
		sockets += listeners->at[i].n;
	*luggage = (struct luggage){ .variable = write_variable(pipe, parent, listeners),
				     .environment = calloc(variables + 3, sizeof(char *)),
				     .kept = calloc(sockets + 3, sizeof(int)) };
	if (luggage->variable == NULL || luggage->environment == NULL || luggage->kept == NULL) {
		luggage_fini(luggage);
		return false;
	}
	memcpy((void *)luggage->environment, (const void *)environ, variables * sizeof(char *));
	luggage->environment[variables] = luggage->variable;
	luggage->kept[luggage->n++] = pipe;
	if (parent >= 0)
		luggage->kept[luggage->n++] = parent;
	if (tickets >= 0) {
		(void)snprintf(luggage->tickets, sizeof(luggage->tickets), TICKETS "=%d", tickets);
		luggage->environment[variables + 1] = luggage->tickets;
		luggage->kept[luggage->n++] = tickets;
	}
	for (size_t i = 0; i < listeners->n; i++)
		for (uint32_t j = 0; j < listeners->at[i].n; j++)
			luggage->kept[luggage->n++] = listeners->at[i].sockets[j];
	return true;
}

/* Returns a file in memory, or -1: without it clients only make full handshakes. */
static int write_tickets(struct weir__ticket_keys *tickets)
{
	unsigned char bytes[WEIR__TICKET_KEYS_BYTES];
	int file = tickets ? memfd_create("weir-tickets", MFD_CLOEXEC) : -1;

	if (file < 0)
		return -1;
	weir__ticket_keys_write(tickets, bytes);
	if (pwrite(file, bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
		close(file);
		file = -1;
	}
	weir__memory_wipe(bytes, sizeof(bytes));
	return file;
}

static int start(struct weir__handover *handover, char *const argv[], int pipe, int parent,
		 struct weir__ticket_keys *tickets, const struct weir__listeners *listeners)
{
	const int file = write_tickets(tickets);
	struct luggage luggage;
	int error = ENOMEM;

	if (luggage_init(&luggage, pipe, parent, file, listeners)) {
		error = weir__process_start(argv, luggage.environment, luggage.kept, luggage.n, &handover->next);
		luggage_fini(&luggage);
	}
	if (file >= 0)
		close(file);
	return error;
}

bool weir__handover_begin(struct weir__handover *handover, char *const argv[], const struct weir__listeners *listeners,
			  int parent, struct weir__ticket_keys *tickets, FILE *errors)
{
	int ends[2], error = pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0 ? 0 : errno;

	*handover = (struct weir__handover){ .next = 0, .pipe = -1 };
	if (error == 0) {
		error = start(handover, argv, ends[1], parent, tickets, listeners);
		close(ends[1]);
		if (error != 0)
			close(ends[0]);
	}
	if (error != 0) {
		handover->next = 0;
		fprintf(errors, "weir serve: upgrade failed: %s: %s; this server keeps running\n", argv[0],
			strerror(error));
		return false;
	}
	handover->pipe = ends[0];
	handover->until = weir_clock_now() + patience_ns;
	return true;
}

/* Whether the next process has exited, which usually closed the pipe. The exit may become visible a moment after
 * that. */
static bool is_gone(struct weir__handover *handover, FILE *errors)
{
	char how[64];

	if (!weir__process_has_ended(handover->next, how, sizeof(how)))
		return false;
	fprintf(errors,
		"weir serve: upgrade failed: the next server, process %d, exited before it served: %s; this server keeps running\n",
		(int)handover->next, how);
	return true;
}

static bool is_late(struct weir__handover *handover, FILE *errors)
{
	if (weir_clock_now() < handover->until)
		return false;
	weir__process_kill(handover->next);
	fprintf(errors,
		"weir serve: upgrade failed: the next server, process %d, did not serve within 60 s and was killed; this server keeps running\n",
		(int)handover->next);
	return true;
}

enum weir__handover_state weir__handover_look(struct weir__handover *handover, FILE *errors)
{
	char byte;
	const ssize_t n = read(handover->pipe, &byte, 1);

	if (n != 1 && !is_gone(handover, errors) && !is_late(handover, errors))
		return WEIR__HANDOVER_WAITS;
	close(handover->pipe);
	if (n == 1)
		return WEIR__HANDOVER_DONE;
	handover->next = 0;
	return WEIR__HANDOVER_FAILED;
}

void weir__handover_cancel(struct weir__handover *handover)
{
	weir__process_kill(handover->next);
	close(handover->pipe);
	handover->next = 0;
}
