/* ticket_keys.c: the current key and the one before it, under a lock that only handshakes take. */
#include "os/ticket_keys.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "os/memory.h"

static const unsigned char version[8] = "weirtk1";

struct weir__ticket_keys {
	pthread_mutex_t lock;
	struct weir__ticket_key at[WEIR__TICKET_KEYS]; /* the current one first */
};

struct weir__ticket_keys *weir__ticket_keys_new(void)
{
	struct weir__ticket_keys *const keys = calloc(1, sizeof(*keys));

	if (keys && pthread_mutex_init(&keys->lock, NULL) != 0) {
		free(keys);
		return NULL;
	}
	return keys;
}

void weir__ticket_keys_free(struct weir__ticket_keys *keys)
{
	if (keys == NULL)
		return;
	(void)pthread_mutex_destroy(&keys->lock);
	weir__memory_wipe(keys, sizeof(*keys));
	free(keys);
}

/* A key from the future was made before the clock was set back: its age is unknown. */
static bool is_younger(const struct weir__ticket_key *key, uint64_t now_s, uint64_t age_s)
{
	return key->made_at_s > 0 && key->made_at_s <= now_s && now_s - key->made_at_s < age_s;
}

static bool rotate(struct weir__ticket_keys *keys, uint64_t now_s)
{
	struct weir__ticket_key next = { .made_at_s = now_s };

	if (weir__memory_random(next.name, sizeof(next.name)) != 0 ||
	    weir__memory_random(next.cipher, sizeof(next.cipher)) != 0 ||
	    weir__memory_random(next.mac, sizeof(next.mac)) != 0)
		return false;
	keys->at[1] = keys->at[0];
	keys->at[0] = next;
	weir__memory_wipe(&next, sizeof(next));
	return true;
}

bool weir__ticket_keys_current(struct weir__ticket_keys *keys, uint64_t now_s, struct weir__ticket_key *ret_key)
{
	bool is_there;

	(void)pthread_mutex_lock(&keys->lock);
	is_there = is_younger(&keys->at[0], now_s, WEIR__TICKET_PERIOD_S) || rotate(keys, now_s);
	if (is_there)
		*ret_key = keys->at[0];
	(void)pthread_mutex_unlock(&keys->lock);
	return is_there;
}

bool weir__ticket_keys_find(struct weir__ticket_keys *keys, const unsigned char name[WEIR__TICKET_NAME_BYTES],
			    uint64_t now_s, struct weir__ticket_key *ret_key, bool *ret_is_old)
{
	bool is_there = false;

	(void)pthread_mutex_lock(&keys->lock);
	for (int i = 0; i < WEIR__TICKET_KEYS && !is_there; i++) {
		const struct weir__ticket_key *const key = &keys->at[i];

		is_there = memcmp(key->name, name, sizeof(key->name)) == 0 &&
			   is_younger(key, now_s, (uint64_t)2 * WEIR__TICKET_PERIOD_S);
		if (is_there) {
			*ret_key = *key;
			*ret_is_old = i > 0 || !is_younger(key, now_s, WEIR__TICKET_PERIOD_S);
		}
	}
	(void)pthread_mutex_unlock(&keys->lock);
	return is_there;
}

void weir__ticket_keys_write(struct weir__ticket_keys *keys, unsigned char ret_bytes[WEIR__TICKET_KEYS_BYTES])
{
	_Static_assert(sizeof(version) + sizeof(keys->at) == WEIR__TICKET_KEYS_BYTES, "no padding");

	memcpy(ret_bytes, version, sizeof(version));
	(void)pthread_mutex_lock(&keys->lock);
	memcpy(ret_bytes + sizeof(version), keys->at, sizeof(keys->at));
	(void)pthread_mutex_unlock(&keys->lock);
}

bool weir__ticket_keys_read(struct weir__ticket_keys *keys, const unsigned char *bytes, size_t n)
{
	if (n != WEIR__TICKET_KEYS_BYTES || memcmp(bytes, version, sizeof(version)) != 0)
		return false;
	(void)pthread_mutex_lock(&keys->lock);
	memcpy(keys->at, bytes + sizeof(version), sizeof(keys->at));
	(void)pthread_mutex_unlock(&keys->lock);
	return true;
}
