/* policy_remote.h: a policy that a server has under a key. A thread watches it, so that those who decide by policies never
 * wait for a network.
 *
 * While the server is out of reach the policy stays as it is; that is told once, and tried again after pauses that grow to a
 * second. What the server has is the text of one file of limits, which names no others. */
#ifndef WEIR_POLICY_SOURCE_POLICY_REMOTE_H
#define WEIR_POLICY_SOURCE_POLICY_REMOTE_H

#include <stdatomic.h>
#include <stdio.h>

#include "os/loop.h"
#include "policy/source/policy_source.h"

enum {
	WEIR__POLICY_REMOTE_MOST = 16 * 1024 * 1024, /* bytes of a policy; a longer one is wrong */
	WEIR__POLICY_REMOTE_WHY = 512,
	WEIR__POLICY_REMOTE_NAME = 1280,
	WEIR__POLICY_REMOTE_CHECK_MS = 5000,   /* how often it is asked for, whatever has been told */
	WEIR__POLICY_REMOTE_POLL_MS = 1000,    /* how often if the server does not tell of changes */
	WEIR__POLICY_REMOTE_CONNECT_MS = 5000, /* to wait for a connection, */
	WEIR__POLICY_REMOTE_ANSWER_MS = 10000, /* and for an answer */
};

enum weir__policy_remote_found {
	WEIR__FAR_FOUND, /* a text */
	WEIR__FAR_WRONG, /* the server has answered, and there is none */
	WEIR__FAR_LOST,  /* it has not */
};

/* What came of asking. */
struct weir__policy_remote_answer {
	enum weir__policy_remote_found found;
	char *text; /* of one that is FOUND, to be freed */
	size_t length;
	char why[WEIR__POLICY_REMOTE_WHY]; /* of others */
};

/* A conversation with a server, used by one thread at a time. policy_etcd.c and policy_redis.c make them. */
struct weir__policy_remote {
	/* Asks; takes some seconds at most. `why` is set; so is `text`, with a NUL behind it, if it is FOUND. */
	void (*ask)(struct weir__policy_remote *remote, struct weir__policy_remote_answer *ret_answer);
	/* Waits until there may be another one, for CHECK_MS at most, or until the loop is woken. False: the server does not
	 * tell of changes, at least not now; then whoever wants to know asks each second. */
	bool (*wait)(struct weir__policy_remote *remote);
	void (*free)(struct weir__policy_remote *remote);
	char name[WEIR__POLICY_REMOTE_NAME]; /* for people: without passwords */
	struct weir__loop *loop;             /* its user's, which also wakes it; set before anything is asked */
	_Atomic bool is_stopping;            /* an answer is not wanted any more */
};

/* Whether it is written as a URL is, and no path. */
bool weir__policy_remote_is(const char *text);

/* A URL without its password. */
void weir__policy_remote_show(const char *url, char *ret_text, size_t size);

/* What is wrong with a URL; WEIR_OK: nothing. */
int weir__policy_remote_check(const char *url, struct weir_message *ret_message);

/* The source that is at a URL which is right. Tells of losses to `errors`. NULL: no memory, and whatever else there is not. */
struct weir__policy_source *weir__policy_source_of_url(const char *url, FILE *errors);

/* policy_etcd.c, policy_redis.c: NULL as above. */
struct weir__policy_remote *weir__policy_etcd_new(const char *url);
struct weir__policy_remote *weir__policy_redis_new(const char *url);
int weir__policy_redis_check(const char *url, struct weir_message *ret_message);

#endif
