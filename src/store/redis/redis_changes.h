/* redis_changes.h: changes of limits that all servers with one prefix share: the scripts that store and read them, and
 * their form in Redis. Pure.
 *
 * Each server has a place in the sorted set PREFIX~servers, by when it was last seen on Redis's clock: the identity of
 * its policy, 16 digits, and its own id. Changes are in the hash PREFIX~changes. A field is the identity of the policy
 * that the change was made under and the name of the limit. The field `version` grows with each change, so that a
 * server sees by one small reply whether there is anything to read. The script that decides reads neither key.
 * The reasons are in docs/internals/redis.md. */
#ifndef WEIR_STORE_REDIS_REDIS_CHANGES_H
#define WEIR_STORE_REDIS_REDIS_CHANGES_H

#include <weir/limit.h>

#include "wire/resp.h"

enum {
	WEIR__REDIS_CHANGES_MAX = 2048, /* fields of the hash */
	WEIR__REDIS_CHANGE_NAME = 64,   /* this and the next are bytes with the NUL */
	WEIR__REDIS_CHANGE_USER = 64,
	WEIR__REDIS_CHANGE_PEER = 64,
	WEIR__REDIS_CHANGE_VALUE = 384,
	WEIR__REDIS_IDENTITY_LENGTH = 16,
	/* Bytes of all changes in one reply. */
	WEIR__REDIS_CHANGES_BYTES = WEIR__REDIS_CHANGES_MAX * (WEIR__REDIS_CHANGE_NAME + WEIR__REDIS_CHANGE_VALUE + 32),
};

struct weir__redis_change {
	char name[WEIR__REDIS_CHANGE_NAME];
	struct weir_limit limit;
	char user[WEIR__REDIS_CHANGE_USER], peer[WEIR__REDIS_CHANGE_PEER]; /* bytes that are not visible become ? */
	weir_ns at;                                                        /* Unix time, by Redis's clock */
	uint64_t version;                                                  /* at least 1 */
};

/* Records that a server runs a policy. KEYS: servers, changes. ARGV: id, identity, the identity before or empty, and 1
 * if the server has just begun to run this policy. Replies with the version, as a text. If the server has just begun,
 * or another was not seen for a minute, it also deletes changes of policies that no server runs. */
extern const char weir__redis_changes_beat[];

/* Stores a change. KEYS: changes. ARGV: field, limit, user, peer, the most fields. Replies with version and Unix time
 * in ms, as texts. */
extern const char weir__redis_changes_store[];

/* Stores a change again that Redis has lost. KEYS: changes. ARGV: field, value, version, the most fields. */
extern const char weir__redis_changes_restore[];

/* Reads the changes of a policy. KEYS: changes. ARGV: identity, most bytes of a field, most bytes of a value, the most
 * fields. Replies with the version, and all fields and values in one text (weir__redis_changes_next). */
extern const char weir__redis_changes_read[];

/* Reads a version or a time. 0: it is damaged. */
uint64_t weir__redis_changes_number(struct weir__resp_slice text);

/* Takes the next field and value from the text. Returns false at its end, or if the rest is damaged. */
bool weir__redis_changes_next(struct weir__resp_slice *rest, struct weir__resp_slice *ret_field,
			      struct weir__resp_slice *ret_value);

/* Reads a change. Returns false if it is damaged. */
bool weir__redis_change_read(struct weir__resp_slice field, struct weir__resp_slice value,
			     struct weir__redis_change *ret_change);

/* Writes the value of a change, with a NUL. Returns its length. */
size_t weir__redis_change_write(const struct weir__redis_change *change, char ret_value[WEIR__REDIS_CHANGE_VALUE]);

#endif
