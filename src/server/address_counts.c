/* address_counts.c: a hash table of addresses, in chains. */
#include "server/address_counts.h"

#include <pthread.h>
#include <stdlib.h>

#include "os/memory.h"
#include "server/forwarded.h"
#include "store/table/hash.h"

enum { NETWORK_V6 = 64, PLACES_LEAST = 64, PLACES_MOST = 1 << 20 };

struct weir__address_count {
	struct weir__address_count *next;
	size_t place;
	struct weir__address address;
	uint32_t n;
};

struct weir__address_counts {
	pthread_mutex_t lock;
	uint32_t most;
	const struct weir__proxies *proxies;
	struct weir__hash_secret secret; /* so that clients cannot choose addresses that collide */
	size_t places;                   /* a power of two */
	struct weir__address_count *chains[];
};

struct weir__address_counts *weir__address_counts_new(uint32_t most, uint64_t connections,
						      const struct weir__proxies *proxies)
{
	struct weir__address_counts *counts;
	size_t places = PLACES_LEAST;

	while (places < connections && places < PLACES_MOST)
		places *= 2;
	counts = calloc(1, sizeof(*counts) + places * sizeof(counts->chains[0]));
	if (counts == NULL)
		return NULL;
	if (weir__memory_random(&counts->secret, sizeof(counts->secret)) != 0 ||
	    pthread_mutex_init(&counts->lock, NULL) != 0) {
		free(counts);
		return NULL;
	}
	counts->most = most;
	counts->proxies = proxies;
	counts->places = places;
	return counts;
}

void weir__address_counts_free(struct weir__address_counts *counts)
{
	if (counts == NULL)
		return;
	for (size_t i = 0; i < counts->places; i++)
		while (counts->chains[i]) {
			struct weir__address_count *const count = counts->chains[i];

			counts->chains[i] = count->next;
			free(count);
		}
	(void)pthread_mutex_destroy(&counts->lock);
	free(counts);
}

static bool is_loopback(const struct weir__address *address)
{
	static const unsigned char v6[WEIR__ADDRESS_BYTES] = { [15] = 1 };

	return address->is_v6 ? memcmp(address->bytes, v6, sizeof(v6)) == 0 : address->bytes[0] == 127;
}

/* Finds the count of an address, or makes one. NULL: no memory. */
static struct weir__address_count *count_of(struct weir__address_counts *counts, const struct weir__address *address)
{
	const size_t place = (size_t)weir__hash(&counts->secret, address->bytes, weir__address_length(address)) &
			     (counts->places - 1);
	struct weir__address_count *count = counts->chains[place];

	for (; count; count = count->next)
		if (count->address.is_v6 == address->is_v6 &&
		    memcmp(count->address.bytes, address->bytes, sizeof(address->bytes)) == 0)
			return count;
	count = malloc(sizeof(*count));
	if (count == NULL)
		return NULL;
	*count = (struct weir__address_count){ counts->chains[place], place, *address, 0 };
	counts->chains[place] = count;
	return count;
}

bool weir__address_counts_join(struct weir__address_counts *counts, const struct weir__address *address,
			       struct weir__address_count **ret_count)
{
	struct weir__address_count *count;
	struct weir__address network;
	bool has_room;

	*ret_count = NULL;
	if (counts == NULL || is_loopback(address) || weir__proxies_have(counts->proxies, address))
		return true;
	network = address->is_v6 ? weir__address_mask(address, NETWORK_V6) : *address;
	(void)pthread_mutex_lock(&counts->lock);
	count = count_of(counts, &network);
	has_room = count == NULL || count->n < counts->most;
	if (count && has_room)
		count->n++;
	(void)pthread_mutex_unlock(&counts->lock);
	if (has_room)
		*ret_count = count;
	return has_room;
}

void weir__address_counts_leave(struct weir__address_counts *counts, struct weir__address_count *count)
{
	struct weir__address_count **link;

	if (count == NULL)
		return;
	(void)pthread_mutex_lock(&counts->lock);
	if (--count->n == 0) {
		for (link = &counts->chains[count->place]; *link != count; link = &(*link)->next)
			;
		*link = count->next;
		free(count);
	}
	(void)pthread_mutex_unlock(&counts->lock);
}
