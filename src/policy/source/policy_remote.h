/* policy_remote.h: a policy under a key of a server (etcd or Redis). A thread watches it, so that the threads that
 * decide never wait for a network.
 *
 * While the server is unreachable the policy stays as it is. The loss is reported once, and the thread retries after
 * pauses that grow to a second. The value is the text of one policy file, which may not name other files. */
#ifndef WEIR_POLICY_SOURCE_POLICY_REMOTE_H
#define WEIR_POLICY_SOURCE_POLICY_REMOTE_H

#include <stdatomic.h>
#include <stdio.h>

#include "os/loop.h"
#include "policy/source/policy_source.h"

enum {
	WEIR__POLICY_REMOTE_MOST = 16 * 1024 * 1024, /* bytes of a policy; a longer one is an error */
	WEIR__POLICY_REMOTE_WHY = 512,
	WEIR__POLICY_REMOTE_NAME = 1280,
	WEIR__POLICY_REMOTE_CHECK_MS = 5000,   /* how often the policy is read even if no change was reported */
	WEIR__POLICY_REMOTE_POLL_MS = 1000,    /* how often if the server does not report changes */
	WEIR__POLICY_REMOTE_CONNECT_MS = 5000, /* timeout of a connection */
	WEIR__POLICY_REMOTE_ANSWER_MS = 10000, /* timeout of a reply */
};

enum weir__policy_remote_found {
	WEIR__POLICY_REMOTE_FOUND,   /* the server has a text */
	WEIR__POLICY_REMOTE_INVALID, /* the server replied, but has no valid text */
	WEIR__POLICY_REMOTE_LOST,    /* the server did not reply */
};

/* The result of reading the policy. */
struct weir__policy_remote_answer {
	enum weir__policy_remote_found found;
	char *text; /* only if FOUND; freed by the caller */
	size_t length;
	char why[WEIR__POLICY_REMOTE_WHY]; /* only if not FOUND */
};

/* A connection to a server, used by one thread at a time. Made by policy_etcd.c and policy_redis.c. */
struct weir__policy_remote {
	/* Reads the policy. Takes a few seconds at most. If FOUND, sets `text`, followed by a NUL; else sets `why`. */
	void (*ask)(struct weir__policy_remote *remote, struct weir__policy_remote_answer *ret_answer);
	/* Waits until the policy may have changed, at most CHECK_MS, or until the loop is woken. Returns false if the
	 * server does not report changes, at least now. The caller then polls each second. */
	bool (*wait)(struct weir__policy_remote *remote);
	void (*free)(struct weir__policy_remote *remote);
	char name[WEIR__POLICY_REMOTE_NAME]; /* for messages: without passwords */
	struct weir__loop *loop;             /* the caller's, which also wakes it; set before the first request */
	_Atomic bool is_stopping;            /* the caller does not want a result any more */
};

/* Whether the text is a URL, not a path. */
bool weir__policy_remote_is(const char *text);

/* Writes a URL without its password. */
void weir__policy_remote_show(const char *url, char *ret_text, size_t size);

/* Checks a URL. Returns WEIR_OK or an error with a message. */
int weir__policy_remote_check(const char *url, struct weir_message *ret_message);

/* Makes the source for a valid URL. Reports losses to `errors`. NULL: no memory, or no descriptor. */
struct weir__policy_source *weir__policy_source_of_url(const char *url, FILE *errors);

/* In policy_etcd.c and policy_redis.c. NULL as above. */
struct weir__policy_remote *weir__policy_etcd_new(const char *url);
struct weir__policy_remote *weir__policy_redis_new(const char *url);
int weir__policy_redis_check(const char *url, struct weir_message *ret_message);

#endif
