/* http_call.h: what the files of HTTP share: a request that is being answered, and the rows of the routes. */
#ifndef WEIR_SERVER_HTTP_HTTP_CALL_H
#define WEIR_SERVER_HTTP_HTTP_CALL_H

#include <weir/guard.h>

#include "engine/operations.h"
#include "wire/http.h"
#include "wire/http_reply.h"

enum { WEIR__PARAMETERS_MAX = 2 };

struct weir__http_call {
	struct weir__context *context;
	struct weir__client *client;        /* its user is who asks now */
	struct weir__http_request *request; /* NULL: it was answered later, and only its reply is written */
	struct weir__http_slice parameters[WEIR__PARAMETERS_MAX]; /* of the path, decoded */
	struct weir__http_reply *reply;
	int socket;       /* of who is connected */
	bool is_ending;   /* the server answers what has come, and ends */
	bool is_retiring; /* it will end soon */
};

typedef void weir__run_route(struct weir__http_call *call);

/* http_health.c */
weir__run_route weir__http_healthz, weir__http_readyz, weir__http_health, weir__http_openapi;
/* http_authorize.c */
weir__run_route weir__http_authorize;
/* http_check.c */
weir__run_route weir__http_get_check, weir__http_post_check;
/* http_take.c, http_hold.c */
weir__run_route weir__http_take, weir__http_hold, weir__http_settle, weir__http_release;
/* http_keys.c */
weir__run_route weir__http_get_key, weir__http_delete_key;
/* http_limits.c */
weir__run_route weir__http_get_limits, weir__http_get_limit, weir__http_put_limit;
/* http_throttle.c, http_envoy.c */
weir__run_route weir__http_throttle, weir__http_envoy;
/* http_policy.c */
weir__run_route weir__http_get_policy, weir__http_put_policy, weir__http_validate_policy;
/* http_page.c */
weir__run_route weir__http_page;
/* http_metrics.c */
weir__run_route weir__http_metrics;
/* http_live.c */
weir__run_route weir__http_live, weir__http_live_key;
/* http_explain.c */
weir__run_route weir__http_get_explain, weir__http_post_explain;

enum {
	WEIR__ROUTE_OPEN = 2, /* also for clients that have not authenticated */
	WEIR__ROUTE_ANY = 4,  /* of GET: also for any other method */
};

enum {
	WEIR__REPLY_MOST = 64 * 1024,  /* bytes of an answer, if its row does not say more */
	WEIR__CHECK_MOST = 896 * 1024, /* of one to a batch */
};

/* One for each path and method. A path may end with parameters, as in /v1/limits/{name}: their names are for people. */
struct weir__route {
	llhttp_method_t method;
	enum weir__operation operation; /* which says who may use it */
	const char *path;
	weir__run_route *run;
	int flags;
	uint32_t most; /* bytes of an answer, with its head; 0 is WEIR__REPLY_MOST */
	const char *does;
};

extern const struct weir__route weir__routes[];
extern const size_t weir__routes_n;

/* The guard of the policy. NULL: there is none, and that was answered. (http_check.c, with all that follows.) */
struct weir_guard *weir__http_guard(struct weir__http_call *call);

enum { WEIR__HTTP_ATTRIBUTES_MAX = 32, WEIR__BATCH_MAX = 1000 };

/* What a request says of itself. */
struct weir__http_query {
	struct weir_attribute attributes[WEIR__HTTP_ATTRIBUTES_MAX];
	size_t n;
	uint64_t cost;
	bool has_cost; /* it was said, in a query */
	char why[112]; /* what is wrong with a query, if that has a name in it */
};

/* What the query says, whose names and values are decoded where they lie: NULL, or what is wrong with it. */
const char *weir__http_read_query(struct weir__http_slice query, struct weir__http_query *ret_question);

/* The same, and the guard to ask. NULL: there is none, or the
 * query is wrong, and that was answered. */
struct weir_guard *weir__http_guard_and_query(struct weir__http_call *call, struct weir__http_query *ret_question);

/* The reply to a request that is run: what is known of it that its reply needs. */
void weir__http_begin(const struct weir__http_call *call, struct weir__request *request);

/* An operation that is done is answered, one that is refused with 400; one that is neither will be answered later. */
void weir__http_end_run(struct weir__http_call *call, enum weir__run_result result, struct weir__request *request,
			const struct weir_message *why);

/* A decision, with the headers of its limit: 200, or this status if that is a denial; 503 if a limit is closed since its store
 * fails. `more` is put behind the members that it has, before the brace. */
struct weir__http_decision {
	const struct weir_guard_answer *answer;
	unsigned denied_status;
	bool is_closed;
	const char *more;
};
void weir__http_say(struct weir__http_call *call, const struct weir__http_decision *decision);

/* Decides by the policy, and says so. (http_check.c) */
void weir__http_run_check(struct weir__http_call *call, struct weir_guard *guard,
			  const struct weir_attribute *attributes, size_t n, uint64_t cost, unsigned denied_status);

/* The members of a decision, from the brace on to the last. */
void weir__http_add_answer(struct weir__http_reply *reply, const struct weir_guard_answer *answer);

/* Answers with an error that other wires say, too; `where` comes before it. Returns false. (http_json.c) */
struct weir__refusal;
bool weir__http_refuse_as(struct weir__http_call *call, const char *where, const struct weir__refusal *refusal);

/* Before the first request. */
void weir__routes_init(void);

/* The row for a request. NULL: that was answered. HEAD is done as GET. */
const struct weir__route *weir__routes_find(struct weir__http_call *call);

/* Whether who asks may. False: that was answered. */
bool weir__routes_permit(struct weir__http_call *call, const struct weir__route *route);

#endif
