/* connection.h: a connection, the worker that serves it, and what a wire does for both.
 *
 * The worker reads, keeps answers that a client does not take, and knows who is idle, stalled or late (worker.c). A wire
 * knows what the bytes mean: it finds requests in what was read and writes answers to what is to be sent. */
#ifndef WEIR_SERVER_CONNECTION_H
#define WEIR_SERVER_CONNECTION_H

#include "engine/context.h"
#include "observe/counters.h"
#include "observe/key_count.h"
#include "server/output.h"
#include "server/worker.h"

enum {
	WEIR__IN_SIZE = 256 * 1024,
	WEIR__OUT_SIZE = 1024 * 1024, /* the longest answer, and some before it */
};

struct weir__bytes {
	char *at;
	size_t n;
};

/* What the loop is to tell of a connection. */
enum { WEIR__HEAR_REQUESTS = 1, WEIR__HEAR_ROOM = 2, WEIR__HEAR_END = 4 };

struct weir__connection {
	struct weir__client client; /* the first: so it leads here */
	/* Among those of the worker and the wire: who has been silent for longest comes first. */
	struct weir__connection *next, *previous;
	/* Among those whose request is not whole or, over HTTP, has not begun since they came, or who linger: who began first comes first. NULL: it is none of them. */
	struct weir__connection *later, *earlier;
	weir_ns opened_at, heard_at;
	weir_ns active_at; /* or a little later: see weir__worker_touch */
	weir_ns asked_at;  /* when the request that waits came; 0: none does */
	weir_ns begun_at;  /* when that was */
	const struct weir__protocol_handler *protocol;
	void *of_protocol;                   /* what the wire keeps of a request that is not whole; NULL: nothing */
	struct weir__connection *next_ready; /* of those whose first request is done */
	bool is_ready;
	int socket;
	unsigned interest;          /* WEIR__HEAR_... */
	struct weir__bytes unread;  /* the beginning of a request; whatever is behind one that waits */
	bool has_requests;          /* there are more in it: too much waits for the client, or others have their turn */
	struct weir__output output; /* answers that wait */
	bool is_behind;             /* it has to take some before it gets more, */
	weir_ns taken_at;           /* and when it last did, or they began to wait */
	bool lingers;     /* it has more to say that nobody will read: to close at once could lose the last answer */
	bool is_finished; /* all is answered: nothing will be written any more */
};

/* Whether another server listens in the worker's place. */
enum { WEIR__STAYS, WEIR__IS_TO_LEAVE, WEIR__HAS_LEFT };

struct weir__worker {
	pthread_t thread;
	struct weir__loop loop;
	struct weir__worker_options options;
	struct weir__context context;
	struct weir__users users; /* a copy, and which version of them */
	uint64_t users_version;
	struct weir__key_count_cache key_count_cache;
	struct weir__connection connections[WEIR__PROTOCOLS]; /* a ring for each wire, of which this one is none */
	struct weir__connection begun;    /* likewise, by later and earlier; who began first comes first */
	uint32_t n_connections, n_behind; /* of those, who are behind */
	weir_ns look_at;                  /* whether they take them */
	uint64_t accepted;
	struct weir__connection *first_ready, *last_ready;
	_Atomic bool is_stopping, is_retiring;
	_Atomic int leaving; /* WEIR__STAYS and so on */
	bool is_full;        /* listeners are not asked until a connection is closed, */
	weir_ns accept_at;   /* or this instant has come */
	weir_ns now;         /* when the loop last told something */
	weir_ns alarm_at;
	void *of_protocols[WEIR__PROTOCOLS]; /* what each wire keeps for all connections of the worker */
	char in[WEIR__IN_SIZE];
	char out[WEIR__OUT_SIZE];
};

struct weir__protocol_handler {
	enum weir__protocol number;
	bool asks_at_once; /* the first request of a connection is late if it is not whole so long after that has come */
	/* What it keeps for a worker; false: no memory. Both may be NULL, if it keeps nothing. */
	bool (*start)(struct weir__worker *worker);
	void (*stop)(struct weir__worker *worker);

	/* Answers the requests in the first n bytes of `in`, up to one that waits, or as many as may; *ret_used are done
	 * with. False: the connection is to be closed. */
	bool (*answer)(struct weir__worker *worker, struct weir__connection *connection, size_t n, size_t *ret_used);

	/* The first request of the connection is done: writes its reply, and those of others behind it that are, to `out`; some of
	 * it may be sent. Returns what is left to be sent. *ret_is_alive is false if the connection is lost. */
	size_t (*answer_ready)(struct weir__worker *worker, struct weir__connection *connection, bool *ret_is_alive);

	/* Tells, before the connection is closed, that a request does not fit `in`, for a wire that may leave so much of it
	 * unread (false: the connection is lost); or that it took too long to be whole, or to say who asks, for one that tells
	 * when that begins (weir__worker_request_begun). */
	bool (*refuse_size)(struct weir__worker *worker, struct weir__connection *connection);
	void (*refuse_late)(struct weir__worker *worker, struct weir__connection *connection);

	/* The connection closes: forgets what is kept of it, connection->of_wire among that. */
	void (*forget)(struct weir__connection *connection);
};

extern const struct weir__protocol_handler weir__protocol_resp,
	weir__protocol_http; /* resp_connection.c, http_connection.c */
extern const struct weir__protocol_handler *const weir__protocol_handlers[WEIR__PROTOCOLS];

/* The connection of the worker, of any wire, that comes behind this one, or the first one if that is NULL. NULL: there is
 * none. */
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

/* So much waits for it that it gets no more answers until it takes some. */
static inline bool weir__worker_holds_back(const struct weir__worker *worker, const struct weir__connection *connection)
{
	return weir__output_waiting(&connection->output) >= worker->options.output_max;
}

/* Requests of it are answered later: none behind them may be answered before. */
static inline bool weir__worker_is_waiting(const struct weir__connection *connection)
{
	return weir__client_is_waiting(&connection->client);
}

/* How long requests of one connection are answered before others have their turn: what is asked for at once may take
 * seconds, as 40,000 times INFO. */
struct weir__turn {
	uint32_t n; /* requests */
	weir_ns since;
};

enum { WEIR__TURN_LOOKS = 16 /* requests from one look at the clock to the next */ };
#define WEIR__TURN_NS UINT64_C(1000000)

/* After each request. */
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

/* Counts requests that a wire has answered. */
static inline void weir__worker_count(struct weir__worker *worker, enum weir__protocol protocol, int64_t n)
{
	if (worker->context.counters)
		weir__counters_add(&worker->context.counters->requests[protocol], n);
}

void weir__worker_close(struct weir__worker *worker, struct weir__connection *connection);

/* Requests that were answered later: those that are done are answered, in order, and the connections go on. */
void weir__worker_answer_ready(struct weir__worker *worker);

/* A connection is the worker's from now on. */
void weir__worker_join(struct weir__worker *worker, struct weir__connection *connection);

/* worker_accept.c: whether those who connect are accepted; accepts so many at most; and takes those that other workers have
 * accepted. */
void weir__worker_hear_listeners(struct weir__worker *worker, bool hear);
void weir__worker_accept(struct weir__worker *worker, const struct weir__listener *listener, uint32_t most);
void weir__worker_take_handed(struct weir__worker *worker);

/* The connection is not idle. It changes its place, which costs, only if it has been there for a part of the span after
 * which it is: so who is idle is closed that much later. */
enum { WEIR__IDLE_PARTS = 16 };
void weir__worker_touch(struct weir__worker *worker, struct weir__connection *connection);

/* worker_timers.c: all that is due by now; the loop is told when to do so next. */
void weir__worker_do_what_is_due(struct weir__worker *worker);

/* Sends so many bytes of `out`, or keeps them. False: the connection is lost. */
bool weir__worker_flush(struct weir__worker *worker, struct weir__connection *connection, size_t length);

/* worker_users.c: takes users anew if they have changed. */
void weir__worker_take_users(struct weir__worker *worker);

/* The connection has the beginning of a request, since now if it had none; or no more. */
void weir__worker_request_begun(struct weir__worker *worker, struct weir__connection *connection);
void weir__worker_request_complete(struct weir__connection *connection);

#endif
