/* ticket_keys.h: the keys that encrypt session tickets, so that clients reconnect without a full handshake.
 *
 * All workers share one set, and a server hands its set to the next one. A key encrypts for WEIR__TICKET_PERIOD_S, and
 * decrypts for as long after that. So a stolen key opens the sessions of two periods at most. */
#ifndef WEIR_OS_TICKET_KEYS_H
#define WEIR_OS_TICKET_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	WEIR__TICKET_PERIOD_S = 4 * 3600,
	WEIR__TICKET_KEYS = 2,
	WEIR__TICKET_NAME_BYTES = 16,
	WEIR__TICKET_KEY_BYTES = 32
};

struct weir__ticket_key {
	unsigned char name[WEIR__TICKET_NAME_BYTES];
	unsigned char cipher[WEIR__TICKET_KEY_BYTES], mac[WEIR__TICKET_KEY_BYTES];
	uint64_t made_at_s; /* 0: no key */
};

struct weir__ticket_keys;

/* NULL: no memory. */
struct weir__ticket_keys *weir__ticket_keys_new(void);
void weir__ticket_keys_free(struct weir__ticket_keys *keys); /* wipes them; NULL is allowed */

/* The key to encrypt with at this time, which is made if the last one is too old. False: no random bytes. */
bool weir__ticket_keys_current(struct weir__ticket_keys *keys, uint64_t now_s, struct weir__ticket_key *ret_key);

/* The key of this name. *ret_is_old: it decrypts, but the client should get a new ticket. False: unknown, or too old. */
bool weir__ticket_keys_find(struct weir__ticket_keys *keys, const unsigned char name[WEIR__TICKET_NAME_BYTES],
			    uint64_t now_s, struct weir__ticket_key *ret_key, bool *ret_is_old);

/* For another process: all keys as bytes, and back. Reading returns false, and changes nothing, if they are not keys of
 * this version. */
enum { WEIR__TICKET_KEYS_BYTES = 8 + WEIR__TICKET_KEYS * (WEIR__TICKET_NAME_BYTES + 2 * WEIR__TICKET_KEY_BYTES + 8) };
void weir__ticket_keys_write(struct weir__ticket_keys *keys, unsigned char ret_bytes[WEIR__TICKET_KEYS_BYTES]);
bool weir__ticket_keys_read(struct weir__ticket_keys *keys, const unsigned char *bytes, size_t n);

#endif
