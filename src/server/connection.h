/* connection.h: a connection, the worker that serves it, and the handler of a protocol.
 *
 * The worker reads, buffers replies that a client does not take yet, and knows which connections are idle, stalled or
 * late (worker.c). A protocol handler knows what the bytes mean: it finds requests in what was read and writes their
 * replies.
 * The reasons are in docs/internals/server.md. */
#ifndef WEIR_SERVER_CONNECTION_H
#define WEIR_SERVER_CONNECTION_H

#include "engine/context.h"
#include "observe/counters.h"
#include "observe/key_count.h"
#include "server/client_memory.h"
#include "server/output.h"
#include "server/worker.h"

enum {
	WEIR__IN_SIZE = 256 * 1024,
	WEIR__HTTP_READ = 16 * 1024,  /* by HTTP/1.1 */
	WEIR__HTTP2_READ = 8 * 1024,  /* by HTTP/2: frames of a flood cost much more than their bytes */
	WEIR__OUT_SIZE = 1024 * 1024, /* the longest reply, and some before it */
	/* The most bytes of unread replies of a client that has not authenticated, before its next request. */
	WEIR__UNAUTHENTICATED_OUTPUT = 1024,
	/* The most bytes of its incomplete request: more than the buffer for any HTTP head. */
	WEIR__UNAUTHENTICATED_INPUT = 96 * 1024,
};

struct weir__bytes {
	char *at;
	size_t n;
};

/* Bytes per second that a client must read on average over stall_ns, while replies are buffered for it. */
enum { WEIR__READ_RATE_LEAST = 1024 };

/* Events of a connection that the loop reports. */
enum { WEIR__HEAR_REQUESTS = 1, WEIR__HEAR_ROOM = 2, WEIR__HEAR_END = 4 };

struct weir__connection {
	struct weir__client client; /* must be first: a client is cast to its connection */
	/* Ring of the worker's connections of one protocol, longest silent first. */
	struct weir__connection *next, *previous;
	/* Connections with a deadline, oldest first: with an incomplete request, without a first request (HTTP), not
	 * authenticated (RESP), or lingering. NULL: not among them. */
	struct weir__connection *later, *earlier;
	weir_ns opened_at, heard_at;
	weir_ns active_at; /* its last activity was then, or a little later: see weir__worker_touch */
	weir_ns asked_at;  /* when the request that waits arrived; 0: none waits */
	weir_ns begun_at;  /* when it joined the connections with a deadline */
	const struct weir__protocol_handler *protocol;
	void *of_protocol;              /* state of an incomplete request, owned by the protocol handler; NULL: none */
	struct weir__tls *tls;          /* NULL: no TLS, or the client has sent nothing yet */
	size_t tls_bytes;               /* memory of tls, as estimated */
	size_t protocol_bytes;          /* memory of of_protocol, and of what the handler keeps in the client */
	struct weir__memory_use memory; /* all buffers, as of the last weir__worker_account */
	struct weir__connection *next_ready; /* next connection whose first request is done */
	bool is_ready;
	bool is_shaking;            /* the TLS handshake is not complete */
	enum weir__service service; /* of the address where it was accepted */
	int socket;
	unsigned interest;                   /* WEIR__HEAR_... */
	struct weir__address_count *address; /* of its peer; NULL: not counted */
	struct weir__bytes unread;           /* the beginning of a request, or what follows a request that waits */
	struct weir__output output;          /* buffered replies */
	bool has_requests; /* `unread` holds more requests: the output is full, or other connections have their turn */
	bool is_behind;    /* it has buffered replies, or requests that wait for a turn */
	/* For measuring how fast the client reads: at paced_at the kernel had `unsent` bytes for it, and has received
	 * `handed` more since. */
	weir_ns paced_at;
	size_t unsent, handed;
	bool lingers;       /* discard input after the last reply: closing at once could lose that reply */
	bool is_finished;   /* all replies are sent: nothing more will be written */
	uint32_t n_streams; /* HTTP/2: complete requests without a complete response */
};

/* Whether another server has taken over the worker's listeners. */
enum { WEIR__STAYS, WEIR__IS_TO_LEAVE, WEIR__HAS_LEFT };

struct weir__worker {
	pthread_t thread;
	struct weir__loop loop;
	struct weir__worker_options options;
	struct weir__context context;
	const struct weir__users *users; /* see user_reload.h; NULL: everyone may connect */
	uint64_t users_version;
	struct weir__key_count_cache key_count_cache;
	struct weir__connection connections[WEIR__PROTOCOLS]; /* head of a ring for each protocol */
	struct weir__connection begun;                        /* head of the list by later and earlier */
	uint32_t n_connections, n_behind;                     /* n_behind: how many of them are behind */
	weir_ns look_at;                                      /* when to look for stalled connections among them */
	struct weir__client_memory memory;                    /* of its connections */
	size_t output_mark; /* bytes of buffered replies at which a connection gets no more; at most output_max */
	uint64_t accepted;
	struct weir__connection *first_ready, *last_ready;
	_Atomic bool is_stopping, is_retiring;
	_Atomic int leaving; /* WEIR__STAYS... */
	bool is_full;        /* listeners are not polled until a connection closes */
	weir_ns accept_at;   /* or until this time */
	weir_ns now;         /* when the loop last returned */
	weir_ns shaken_ns;   /* time spent on TLS handshakes since then */
	weir_ns idle_at;     /* before this time no connection is idle */
	weir_ns alarm_at;
	weir_ns tick_at;    /* when the handlers with a tick run next; WEIR_NEVER: no connections need it */
	uint32_t n_watches; /* gRPC: streams that watch the health */
	void *of_protocols[WEIR__PROTOCOLS]; /* state that each protocol handler keeps per worker */
	char in[WEIR__IN_SIZE];
	char out[WEIR__OUT_SIZE];
};

struct weir__protocol_handler {
	enum weir__protocol number;
	bool asks_at_once;    /* a new connection must send its first request within late_ns */
	size_t read_most;     /* bytes to read at once, at most WEIR__IN_SIZE */
	bool answers_nothing; /* `answer` is called with n = 0 when a client has read its output */
	/* Allocates and frees what the handler keeps for a worker. start returns false if memory runs out. Both are
	 * NULL if the handler keeps nothing. */
	bool (*start)(struct weir__worker *worker);
	void (*stop)(struct weir__worker *worker);

	/* Runs the requests in the first n bytes of `in`, until one waits, the turn is over or the output is full.
	 * *ret_used is the number of bytes that are done. Returns false if the connection must be closed. */
	bool (*answer)(struct weir__worker *worker, struct weir__connection *connection, size_t n, size_t *ret_used);

	/* Called when the first request that waits is done. Writes its reply to `out`, and the replies after it that
	 * are done. It may send some of them. Returns the number of bytes of `out` that are left to send. *ret_is_alive
	 * becomes false if the connection is lost. */
	size_t (*answer_ready)(struct weir__worker *worker, struct weir__connection *connection, bool *ret_is_alive);

	/* Both report an error before the connection is closed. refuse_size: a request does not fit `in`. Only for a
	 * protocol that can leave that much unread. Returns false if the connection is lost. refuse_late: a request was
	 * not complete, or the client not authenticated, in time. Every protocol has it: if the server has users, each
	 * connection has a deadline for authenticating. */
	bool (*refuse_size)(struct weir__worker *worker, struct weir__connection *connection);
	void (*refuse_late)(struct weir__worker *worker, struct weir__connection *connection);

	/* Called when the connection closes. Frees its state, including connection->of_protocol. */
	void (*forget)(struct weir__connection *connection);

	/* For a protocol that can tell a client to send no more requests: called when the server shuts down or the connection
	 * is idle (is_last), or when a new server has taken over. May be NULL. */
	void (*leave)(struct weir__worker *worker, struct weir__connection *connection, bool is_last);

	/* Called when a client has been silent for idle_ns. One that waits is asked whether it is still there, any other to
	 * open a new connection. Returns false if it was asked before, and has said nothing since, or if the connection is
	 * lost. NULL: one that waits stays, and any other is closed. */
	bool (*stays)(struct weir__worker *worker, struct weir__connection *connection, bool waits);

	/* Called about once a second. Returns false if the connection is to be closed. May be NULL. */
	bool (*tick)(struct weir__worker *worker, struct weir__connection *connection);
};

extern const struct weir__protocol_handler weir__protocol_resp, weir__protocol_http,
	weir__protocol_http2; /* resp_connection.c, http_connection.c, h2_connection.c */
extern const struct weir__protocol_handler *const weir__protocol_handlers[WEIR__PROTOCOLS];

/* The worker's next connection, of any protocol; with NULL, the first. Returns NULL at the end. */
static inline struct weir__connection *weir__worker_next(struct weir__worker *worker,
							 const struct weir__connection *connection)
{
	size_t protocol = connection ? connection->protocol->number : 0;
	struct weir__connection *next = connection ? connection->next : worker->connections[0].next;

	while (next == &worker->connections[protocol]) {
		if (++protocol == WEIR__PROTOCOLS)
			return NULL;
		next = worker->connections[protocol].next;
	}
	return next;
}

/* Whether the buffered replies have reached the mark. Then no more requests are run until the client reads some. */
static inline bool weir__worker_holds_back(const struct weir__worker *worker, const struct weir__connection *connection)
{
	return weir__output_waiting(&connection->output) >= worker->output_mark;
}

/* worker_memory.c: sets the bytes that the connection takes now. If all connections take more than client_memory, the
 * largest ones give up their memory, and are closed before the loop waits again. Returns false if this one is among
 * them: close it. */
bool weir__worker_set_memory(struct weir__worker *worker, struct weir__connection *connection, size_t bytes);

/* worker_memory.c: closes connections that have given up their memory. */
void weir__worker_close_evicted(struct weir__worker *worker);

/* worker_memory.c: removes a connection that closes from the sum. */
void weir__worker_forget_memory(struct weir__worker *worker, struct weir__connection *connection);

/* worker.c: frees what was read from the client and what is buffered for it. */
void weir__worker_drop_buffers(struct weir__connection *connection);

/* Call it after each change of a connection's buffers. Returns false if it must be closed. */
static inline bool weir__worker_account(struct weir__worker *worker, struct weir__connection *connection)
{
	const size_t bytes = connection->unread.n + connection->output.size + connection->protocol_bytes +
			     connection->tls_bytes + connection->client.queue_bytes;

	return WEIR__LIKELY(bytes == connection->memory.bytes) || weir__worker_set_memory(worker, connection, bytes);
}

/* Whether a client that has not authenticated has too many unread replies: `written` bytes in `out`, and the buffered
 * ones. It gets these replies, and is closed. All protocols check this before each request. */
static inline bool weir__worker_is_owed_enough(const struct weir__worker *worker,
					       const struct weir__connection *connection, size_t written)
{
	return written + weir__output_waiting(&connection->output) > WEIR__UNAUTHENTICATED_OUTPUT &&
	       weir__client_is_unauthenticated(&worker->context, &connection->client);
}

/* Ends such a client. */
void weir__worker_leave_unauthenticated(struct weir__worker *worker, struct weir__connection *connection);

/* Whether a request of the connection is still in flight. Later ones then wait, since replies keep the order of
 * requests. */
static inline bool weir__worker_is_waiting(const struct weir__connection *connection)
{
	return weir__client_is_waiting(&connection->client);
}

/* How long requests of one connection are run before other connections have their turn. One pipeline may take seconds,
 * such as 40,000 times INFO. */
struct weir__turn {
	uint32_t n; /* requests */
	weir_ns since;
};

enum { WEIR__TURN_LOOKS = 16 /* requests between two looks at the clock */ };
#define WEIR__TURN_NS UINT64_C(1000000)

/* Call it after each request. */
static inline bool weir__turn_is_over(struct weir__turn *turn, struct weir_table *table)
{
	weir_ns now;

	if (++turn->n % WEIR__TURN_LOOKS != 0)
		return false;
	now = weir_table_now(table);
	if (turn->since == 0)
		turn->since = now;
	return now - turn->since > WEIR__TURN_NS;
}

/* Counts requests that a protocol handler has run. */
static inline void weir__worker_count(struct weir__worker *worker, enum weir__protocol protocol, int64_t n)
{
	if (worker->context.counters)
		weir__counters_add(&worker->context.counters->requests[protocol], n);
}

static inline void weir__worker_count_closed(struct weir__worker *worker, enum weir__counters_closed why)
{
	if (worker->context.counters)
		weir__counters_add(&worker->context.counters->closed[why], 1);
}

void weir__worker_close(struct weir__worker *worker, struct weir__connection *connection);

/* Closes a connection that has nothing more to write as soon as its client does, or takes too long: what the client still
 * sends would otherwise reset the connection, and with it the last reply. */
void weir__worker_close_slowly(struct weir__worker *worker, struct weir__connection *connection);

/* Writes the replies of requests that waited and are done, in order, and lets their connections go on. */
void weir__worker_answer_ready(struct weir__worker *worker);

/* Lets another handler serve the connection from now on. */
void weir__worker_change_protocol(struct weir__worker *worker, struct weir__connection *connection,
				  const struct weir__protocol_handler *protocol);

/* Adds a new connection to the worker. */
void weir__worker_join(struct weir__worker *worker, struct weir__connection *connection);

/* worker_accept.c. hear_listeners starts or stops polling the listeners. accept accepts at most `most` connections.
 * take_handed opens the connections that other workers have accepted. */
void weir__worker_hear_listeners(struct weir__worker *worker, bool hear);
void weir__worker_accept(struct weir__worker *worker, const struct weir__listener *listener, uint32_t most);
void weir__worker_take_handed(struct weir__worker *worker);

/* Notes that the connection is not idle: moves it to the end of its ring. To save time, it is moved at most once per
 * idle_ns / WEIR__IDLE_PARTS, so an idle connection may be closed that much later. */
enum { WEIR__IDLE_PARTS = 16 };
void weir__worker_touch(struct weir__worker *worker, struct weir__connection *connection);

/* worker_timers.c: begins to measure how fast the client reads. */
void weir__worker_pace(const struct weir__worker *worker, struct weir__connection *connection);

/* When a connection that was active then is idle. */
static inline weir_ns weir__worker_idle_at(const struct weir__worker *worker, size_t protocol, weir_ns active_at)
{
	const uint64_t idle_ns = worker->options.idle_ns[protocol];

	return idle_ns == 0 ? WEIR_NEVER : weir__add_saturating(active_at, idle_ns + idle_ns / WEIR__IDLE_PARTS);
}

/* worker_timers.c: calls the ticks of protocols each second, from a second on, as long as there are connections. */
void weir__worker_begin_ticks(struct weir__worker *worker);

/* worker_timers.c: does everything that is due by now, and sets the alarm for the next time. */
void weir__worker_do_what_is_due(struct weir__worker *worker);

/* Sends the first `length` bytes of `out`, or buffers them. Returns false if the connection is lost. */
bool weir__worker_flush(struct weir__worker *worker, struct weir__connection *connection, size_t length);

/* worker_tls.c: continues the handshake of a connection that is shaking, unless this turn of the loop has spent enough
 * time on others. Returns false if the connection must be closed. */
bool weir__worker_shake(struct weir__worker *worker, struct weir__connection *connection);

/* worker_tls.c: whether the loop must report room to write, for the handshake or to read what TLS has buffered. */
bool weir__worker_tls_writes(const struct weir__connection *connection, bool reads);

/* worker_tls.c: finds the user of the client's certificate again. */
void weir__worker_find_certificate_user(struct weir__worker *worker, struct weir__connection *connection);

/* worker_tls.c: announces that no more will be written. */
void weir__worker_end_writing(const struct weir__connection *connection);

/* worker_tls.c: ends TLS, before the socket is closed. */
void weir__worker_drop_tls(struct weir__connection *connection);

/* worker_users.c: copies the users again if they have changed. */
void weir__worker_take_users(struct weir__worker *worker);

/* request_begun starts the deadline of a connection, unless it runs already. request_complete ends it. */
void weir__worker_request_begun(struct weir__worker *worker, struct weir__connection *connection);
void weir__worker_request_complete(struct weir__connection *connection);

#endif
