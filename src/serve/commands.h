/* commands.h: what a request says, and what is answered: the commands that Redis clients send. No sockets here.
 *
 * Requests that only ask a table are gathered, up to a group, and decided together, as pipelines send them; whatever must
 * come after their answers first ends the group. So answers have the order of the requests. */
#ifndef WEIR_SERVE_COMMANDS_H
#define WEIR_SERVE_COMMANDS_H

#include "guard/guard.h"
#include "serve/holds.h"
#include "serve/limits.h"
#include "serve/settings.h"
#include "serve/waiting.h"
#include "wire/resp.h"

enum {
	WEIR__GROUP = 32,
	WEIR__CLIENT_NAME_MAX = 63,
	/* Bytes of answers at once; who is owed more is cut off. The number is that of Redis, which minds it only beyond
	 * the first 16 KiB of a connection, and then sends nothing of them. */
	WEIR__STRANGER_OUTPUT = 1024,
};

/* How the answer to a decision looks. */
enum weir__answer_form {
	WEIR__ANSWER_CELL,     /* as redis-cell's */
	WEIR__ANSWER_THROTTLE, /* as throttlecrab's */
	WEIR__ANSWER_WEIR,
};

struct weir__errand;
struct weir__errand_door;
struct weir__glanced;
struct weir__policies;
struct weir__remote;
struct weir__seam;
struct weir__sight;
struct weir__sights;
struct weir__tallies;
struct weir__tally;
struct weir__log;
struct weir__witness;
struct weir__witnesses;

/* What the commands of one thread work with. */
struct weir__commands {
	struct weir_table *table;
	const struct weir__settings *settings; /* NULL: none to show */
	const struct weir__users *users;       /* NULL: there are none, as if it were empty */
	struct weir__limits limits;
	struct weir_claim claims[WEIR__GROUP];
	enum weir__answer_form forms[WEIR__GROUP];
	size_t n;
	/* Keys of the policy's limits, of those that were gathered and of one request, if they had to be written. */
	char keys[2 * WEIR__GUARD_KEY_ROOM];
	size_t keys_used;
	struct weir__holds *holds;       /* of all threads; NULL after init: there is room for none */
	struct weir__waiting *waiting;   /* likewise, of this thread */
	struct weir__policies *policies; /* of all threads; NULL after init: there is no policy */
	struct weir__tallies *tallies;   /* of all threads, and its own; NULL after init: nothing is counted */
	struct weir__tally *tally;
	struct weir__sights *sights; /* likewise; NULL after init: nothing is looked at */
	struct weir__sight *sight;
	struct weir__witnesses *witnesses; /* likewise; NULL after init: nobody hears of decisions */
	struct weir__witness *witness;
	struct weir__log *log;          /* of all threads; NULL after init: there is none */
	struct weir__errand_door *door; /* of this thread; NULL after init: it has none */
	struct weir__glanced *glanced;  /* likewise; NULL after init: a part of the table tells of all of it */
	struct weir__remote *remote;    /* likewise; NULL after init: the table decides */
	struct weir__seam *seam;        /* that of the remote, or NULL */
};

/* A client. */
struct weir__client {
	int protocol; /* 2 or 3 */
	uint64_t number;
	const int *socket;                     /* NULL: it has none */
	bool is_leaving;                       /* after what is being written */
	struct weir__waiter *waiter;           /* its last request is answered later; no other may be answered before */
	struct weir__errand *errand;           /* likewise, when what it asked for was done elsewhere */
	const struct weir__user *user;         /* NULL: has not said who it is */
	struct weir__transaction *transaction; /* between MULTI and EXEC; NULL: it is not */
	bool is_in_exec;                       /* a command of it is run: it is answered at once */
	char name[WEIR__CLIENT_NAME_MAX + 1];  /* as it calls itself */
};

/* Whether it must say who it is before it gets an answer to anything else. */
bool weir__commands_is_stranger(const struct weir__commands *commands, const struct weir__client *client);

void weir__commands_init(struct weir__commands *commands, struct weir_table *table,
			 const struct weir_table_limit *counted_as);

/* Answers a request, or gathers it: what it points to must stay until the group has ended. False: there was no room for
 * the answer, and nothing was done: end the group, make room and ask again. */
bool weir__commands_do(struct weir__commands *commands, struct weir__client *client,
		       const struct weir__resp_slice *arguments, uint32_t n, struct weir__resp_writer *writer);

/* Decides what was gathered and answers. */
void weir__commands_end_group(struct weir__commands *commands, struct weir__client *client,
			      struct weir__resp_writer *writer);

/* Bytes that an answer takes at most, beside what it repeats of the request; one of few commands; and one to a decision. */
enum { WEIR__ANSWER_MOST = 65536, WEIR__ANSWER_LONG = 224 * 1024, WEIR__DECISION_MOST = 512 };

#endif
