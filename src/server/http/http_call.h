/* http_call.h: what the HTTP files share: a request that is being served, and the table of routes. */
#ifndef WEIR_SERVER_HTTP_HTTP_CALL_H
#define WEIR_SERVER_HTTP_HTTP_CALL_H

#include <weir/guard.h>

#include "engine/operations.h"
#include "policy/address.h"
#include "wire/http.h"
#include "wire/http_reply.h"

enum { WEIR__PARAMETERS_MAX = 2 };

struct weir__http_call {
	struct weir__context *context;
	struct weir__client *client;        /* client->user is the user of this request */
	struct weir__http_request *request; /* NULL: the request waited, and only its response is written now */
	struct weir__http_slice parameters[WEIR__PARAMETERS_MAX]; /* of the path, decoded */
	struct weir__http_reply *reply;
	enum weir__protocol protocol;
	int socket;         /* of the connection */
	bool is_encrypted;  /* by TLS */
	bool is_of_metrics; /* accepted at an address of metrics_listen: only metrics and health */
	bool is_ending;     /* the server shuts down after responding to what has arrived */
	bool is_retiring;   /* the server will end soon */
};

typedef void weir__run_route(struct weir__http_call *call);

/* http_health.c */
weir__run_route weir__http_healthz, weir__http_readyz, weir__http_health, weir__http_healthcheck, weir__http_openapi;
/* http_authorize.c */
/* The peer of the connection. Returns false if it has no address. */
bool weir__http_peer_address(const struct weir__http_call *call, struct weir__address *ret_address);
/* The client of the request: the peer, or the client that trusted proxies name. Returns false if it has no address. */
bool weir__http_client_address(const struct weir__http_call *call, struct weir__address *ret_address);
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
	WEIR__ROUTE_OPEN = 2,     /* also for clients that have not authenticated */
	WEIR__ROUTE_ANY = 4,      /* a GET row that takes any other method, too */
	WEIR__ROUTE_METRICS = 16, /* also at the addresses of metrics_listen */
	WEIR__ROUTE_REFUNDS = 8,  /* also for users who may only refund: the handler checks each item */
};

enum {
	WEIR__REPLY_MOST = 64 * 1024,  /* bytes of a response, unless its row says more */
	WEIR__CHECK_MOST = 896 * 1024, /* bytes of a response to a batch */
};

/* A row for each path and method. A path may end with parameters, as in /v1/limits/{name}: their names are for readers
 * only. */
struct weir__route {
	llhttp_method_t method;
	enum weir__operation operation; /* says which role may use it */
	const char *path;
	weir__run_route *run;
	int flags;
	uint32_t most; /* bytes of a response, including its head; 0: WEIR__REPLY_MOST */
	const char *does;
};

extern const struct weir__route weir__routes[];
extern const size_t weir__routes_n;

/* The guard of the policy. Without a policy, writes the error response and returns NULL. (This and the next are in
 * http_check.c.) */
struct weir_guard *weir__http_guard(struct weir__http_call *call);

enum { WEIR__HTTP_ATTRIBUTES_MAX = 32, WEIR__BATCH_MAX = 1000 };

/* The attributes and the cost of a request. */
struct weir__http_query {
	struct weir_attribute attributes[WEIR__HTTP_ATTRIBUTES_MAX];
	size_t n;
	uint64_t cost;
	weir_ns wait;            /* how long it may wait at most, if has_wait */
	bool has_cost, has_wait; /* the request states them */
	char why[112];           /* buffer for an error that names a parameter */
};

/* Reads the query, whose names and values are decoded in place. Returns NULL, or what is wrong with it. */
const char *weir__http_read_query(struct weir__http_slice query, struct weir__http_query *ret_question);

/* The guard, and the query. Returns NULL, after writing the error response, if the policy is missing or the query is
 * wrong. */
struct weir_guard *weir__http_guard_and_query(struct weir__http_call *call, struct weir__http_query *ret_question);

/* Copies to the request what its response will need: keep-alive, and whether it has no body (HEAD). */
void weir__http_begin(const struct weir__http_call *call, struct weir__request *request);

/* Ends a run: writes the response of a request that is done, or 400 for a request that was rejected. A request that
 * waits gets its response later. */
void weir__http_end_run(struct weir__http_call *call, enum weir__run_result result, struct weir__request *request,
			const struct weir_message *why);

/* A decision to write, with the headers of its limit: 200 if allowed, else denied_status. If that is 429 and the limit
 * is closed because its store fails, the status is 503. `more` is added behind the members, before the closing brace.
 * How long the request waited is a member and a header. */
struct weir__http_decision {
	const struct weir_guard_answer *answer;
	unsigned denied_status;
	bool is_closed;
	bool is_for_visitors; /* proxies pass it on: it obeys denial_reveals and denial_body */
	const char *more;
	const weir_ns *waited; /* NULL: the request could not wait */
};
void weir__http_say(struct weir__http_call *call, const struct weir__http_decision *decision);

/* Decides by the policy, and writes the response. */
void weir__http_run_check(struct weir__http_call *call, struct weir_guard *guard,
			  const struct weir_attribute *attributes, size_t n, uint64_t cost, unsigned denied_status,
			  bool is_for_visitors);

/* The same for a request that may wait for limits that shape. `patience` may be NULL: the policy says how long. */
void weir__http_run_check_wait(struct weir__http_call *call, struct weir_guard *guard,
			       const struct weir_attribute *attributes, size_t n, uint64_t cost, unsigned denied_status,
			       bool is_for_visitors, const weir_ns *patience);

#define WEIR__HTTP_RIGHT_WAIT "use 0s to 1day, such as 500ms, 5s or 1min"

/* Writes the members of a decision, without braces; all of them, or only those of the limit that decided. */
void weir__http_add_answer(struct weir__http_reply *reply, const struct weir_guard_answer *answer, bool is_all);

/* Writes an error response for an error of errors.h, with `where` before it. Returns false. (http_json.c) */
struct weir__refusal;
bool weir__http_refuse_as(struct weir__http_call *call, const char *where, const struct weir__refusal *refusal);

/* Whether a web page sent the request through a browser. Writes the error response then. (http_origin.c) */
bool weir__http_is_from_page(struct weir__http_call *call, const struct weir__route *route);

/* Call it before the first request. */
void weir__routes_init(void);

/* The row for a request. Returns NULL after writing the error response. HEAD uses the row of GET. */
const struct weir__route *weir__routes_find(struct weir__http_call *call);

/* Whether the route is open to clients without a token. */
bool weir__routes_is_open(const struct weir__http_call *call, const struct weir__route *route);

/* Whether the client may use the route. Returns false after writing the error response. */
bool weir__routes_permit(struct weir__http_call *call, const struct weir__route *route);

/* Whether the user of the request has a role for the operation. Returns false after writing the error response. */
bool weir__http_permit_operation(struct weir__http_call *call, enum weir__operation operation);

/* The same before the body has arrived, for any route, if the server has users. */
bool weir__routes_permit_body(struct weir__http_call *call);

#endif
