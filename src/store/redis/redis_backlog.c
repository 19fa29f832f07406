/* redis_backlog.c: two hash tables with chains, of limits and of their keys. A list has the keys in order of
 * arrival. */
#include "store/redis/redis_backlog.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/wide.h"
#include "os/lock.h"

enum {
	CHAIN_MOST = 64,       /* bounds the time a thread spends on keys chosen to hash to one chain */
	BYTES_PER_CHAIN = 128, /* about what a key takes. The kernel provides the memory of chains when they are used */
};

_Static_assert((int)WEIR__REDIS_CHARGE_REQUESTS <= (int)WEIR__REDIS_CALL_CLAIMS_MAX, "the charges of a call fit");
_Static_assert((int)WEIR__REDIS_CHARGE_PLANS <= (int)WEIR__REDIS_CALL_PLANS_MAX, "the charges of a call fit");

struct limit {
	struct limit *next;
	uint64_t hash;
	uint32_t keys; /* with deferred charges */
	struct weir__redis_plan plan;
	size_t name_length;
	char name[];
};

struct weir__redis_backlog_key {
	struct weir__redis_backlog_key *next;          /* in its chain */
	struct weir__redis_backlog_key *older, *newer; /* in the list of all keys */
	struct limit *limit;
	uint64_t hash;
	uint64_t refund; /* comes before the charge */
	uint64_t cost;
	size_t key_length;
	char key[];
};

struct weir__redis_backlog {
	struct weir__lock lock;
	uint64_t seed;
	size_t bytes, bytes_most, chains;
	struct weir__redis_backlog_info info; /* info.keys also counts keys whose charge is on its way */
	_Atomic uint64_t n_keys;              /* info.keys, for readers without the lock */
	_Atomic weir_ns made_at;              /* when Redis made the latest charges, by its clock */
	struct weir__redis_backlog_key *oldest, *newest;
	struct weir__redis_backlog_key **keys; /* chains */
	struct limit **limits;                 /* as many chains */
};

struct weir__redis_backlog *weir__redis_backlog_new(uint64_t seed, size_t bytes)
{
	struct weir__redis_backlog *const backlog = calloc(1, sizeof(*backlog));

	if (backlog == NULL)
		return NULL;
	backlog->seed = seed;
	backlog->bytes_most = bytes < WEIR__REDIS_BACKLOG_LEAST ? WEIR__REDIS_BACKLOG_LEAST : bytes;
	backlog->chains = backlog->bytes_most / BYTES_PER_CHAIN;
	backlog->bytes = backlog->chains * (sizeof(struct limit *) + sizeof(struct weir__redis_backlog_key *));
	backlog->keys = calloc(backlog->chains, sizeof(struct weir__redis_backlog_key *));
	backlog->limits = calloc(backlog->chains, sizeof(struct limit *));
	if (backlog->keys == NULL || backlog->limits == NULL) {
		free((void *)backlog->keys);
		free((void *)backlog->limits);
		free(backlog);
		return NULL;
	}
	return backlog;
}

void weir__redis_backlog_free(struct weir__redis_backlog *backlog)
{
	if (backlog == NULL)
		return;
	while (backlog->oldest) {
		struct weir__redis_backlog_key *const entry = backlog->oldest;

		backlog->oldest = entry->newer;
		free(entry);
	}
	for (size_t i = 0; i < backlog->chains; i++) {
		while (backlog->limits[i]) {
			struct limit *const limit = backlog->limits[i];

			backlog->limits[i] = limit->next;
			free(limit);
		}
	}
	free((void *)backlog->keys);
	free((void *)backlog->limits);
	free(backlog);
}

static uint64_t mix(uint64_t hash, struct weir__resp_slice slice)
{
	for (size_t i = 0; i < slice.length; i++) {
		hash = (hash ^ (unsigned char)slice.bytes[i]) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	return hash;
}

static size_t chain_of(const struct weir__redis_backlog *backlog, uint64_t hash)
{
	return (hash ^ hash >> 32) % backlog->chains;
}

static bool is_same(const char *bytes, size_t length, struct weir__resp_slice slice)
{
	return length == slice.length && (length == 0 || memcmp(bytes, slice.bytes, length) == 0);
}

/* --- limits ------------------------------------------------------------------------------------------------------ */

static size_t limit_bytes(const struct limit *limit)
{
	return sizeof(*limit) + limit->name_length;
}

/* Allocates within the memory bound. NULL: no memory, or beyond the bound. */
static void *more_memory(struct weir__redis_backlog *backlog, size_t bytes)
{
	void *const memory = bytes <= backlog->bytes_most - backlog->bytes ? malloc(bytes) : NULL;

	if (memory)
		backlog->bytes += bytes;
	return memory;
}

/* Finds or adds a limit, and updates its plan. NULL: no room. */
static struct limit *find_limit(struct weir__redis_backlog *backlog, const struct weir__redis_plan *plan,
				struct weir__resp_slice name)
{
	const uint64_t hash = mix(backlog->seed, name);
	struct limit **const chain = &backlog->limits[chain_of(backlog, hash)];
	struct limit *limit = *chain;
	unsigned n = 0;

	for (; limit && !(limit->hash == hash && is_same(limit->name, limit->name_length, name)); limit = limit->next)
		n++;
	if (limit == NULL) {
		if (n >= CHAIN_MOST || name.length > backlog->bytes_most)
			return NULL;
		limit = more_memory(backlog, sizeof(*limit) + name.length);
		if (limit == NULL)
			return NULL;
		limit->hash = hash;
		limit->keys = 0;
		limit->name_length = name.length;
		if (name.length > 0)
			memcpy(limit->name, name.bytes, name.length);
		limit->next = *chain;
		*chain = limit;
	}
	limit->plan = *plan;
	return limit;
}

static void drop_limit_of_no_keys(struct weir__redis_backlog *backlog, struct limit *limit)
{
	struct limit **at = &backlog->limits[chain_of(backlog, limit->hash)];

	if (limit->keys > 0)
		return;
	while (*at != limit)
		at = &(*at)->next;
	*at = limit->next;
	backlog->bytes -= limit_bytes(limit);
	free(limit);
}

/* --- keys -------------------------------------------------------------------------------------------------------- */

static size_t entry_bytes(const struct weir__redis_backlog_key *entry)
{
	return sizeof(*entry) + entry->key_length;
}

static struct weir__redis_backlog_key *find_key(struct weir__redis_backlog *backlog, const struct limit *limit,
						uint64_t hash, struct weir__resp_slice key, unsigned *ret_chain)
{
	struct weir__redis_backlog_key *entry = backlog->keys[chain_of(backlog, hash)];

	for (*ret_chain = 0; entry; entry = entry->next, ++*ret_chain) {
		if (entry->hash == hash && entry->limit == limit && is_same(entry->key, entry->key_length, key))
			return entry;
	}
	return NULL;
}

/* Adds an entry to its chain and, as the newest, to the list. */
static void link_entry(struct weir__redis_backlog *backlog, struct weir__redis_backlog_key *entry)
{
	struct weir__redis_backlog_key **const chain = &backlog->keys[chain_of(backlog, entry->hash)];

	entry->next = *chain;
	*chain = entry;
	entry->older = backlog->newest;
	entry->newer = NULL;
	*(backlog->newest ? &backlog->newest->newer : &backlog->oldest) = entry;
	backlog->newest = entry;
}

static void unlink_entry(struct weir__redis_backlog *backlog, struct weir__redis_backlog_key *entry)
{
	struct weir__redis_backlog_key **at = &backlog->keys[chain_of(backlog, entry->hash)];

	while (*at != entry)
		at = &(*at)->next;
	*at = entry->next;
	*(entry->older ? &entry->older->newer : &backlog->oldest) = entry->newer;
	*(entry->newer ? &entry->newer->older : &backlog->newest) = entry->older;
}

/* Release: pairs with the acquire in weir__redis_backlog_has_keys. */
static void count_keys(struct weir__redis_backlog *backlog, uint64_t keys)
{
	backlog->info.keys = keys;
	atomic_store_explicit(&backlog->n_keys, keys, memory_order_release);
}

static void drop_entry(struct weir__redis_backlog *backlog, struct weir__redis_backlog_key *entry)
{
	struct limit *const limit = entry->limit;

	limit->keys--;
	count_keys(backlog, backlog->info.keys - 1);
	backlog->bytes -= entry_bytes(entry);
	free(entry);
	drop_limit_of_no_keys(backlog, limit);
}

static struct weir__redis_backlog_key *new_entry(struct weir__redis_backlog *backlog, struct limit *limit,
						 uint64_t hash, struct weir__resp_slice key)
{
	struct weir__redis_backlog_key *entry;

	if (key.length > backlog->bytes_most)
		return NULL;
	entry = more_memory(backlog, sizeof(*entry) + key.length);
	if (entry == NULL)
		return NULL;
	entry->limit = limit;
	entry->hash = hash;
	entry->cost = entry->refund = 0;
	entry->key_length = key.length;
	if (key.length > 0)
		memcpy(entry->key, key.bytes, key.length);
	limit->keys++;
	count_keys(backlog, backlog->info.keys + 1);
	link_entry(backlog, entry);
	return entry;
}

/* Finds the key's entry. `adds`: makes one if it is missing. NULL: not found, or no room. */
static struct weir__redis_backlog_key *entry_of(struct weir__redis_backlog *backlog, struct limit *limit,
						struct weir__resp_slice key, bool adds)
{
	const uint64_t hash = mix(limit->hash, key);
	struct weir__redis_backlog_key *entry;
	unsigned chain;

	entry = find_key(backlog, limit, hash, key, &chain);
	if (entry || !adds || chain >= CHAIN_MOST)
		return entry;
	return new_entry(backlog, limit, hash, key);
}

static void change_entry(struct weir__redis_backlog_key *entry, enum weir__redis_deferred what, uint64_t units)
{
	const uint64_t back = what == WEIR__REDIS_DEFER_CHARGE ? 0 :
			      what == WEIR__REDIS_DEFER_RESET  ? entry->cost :
								 weir__min(entry->cost, units);

	entry->cost -= back;
	if (what == WEIR__REDIS_DEFER_CHARGE)
		entry->cost = weir__add_saturating(entry->cost, units);
	else if (what == WEIR__REDIS_DEFER_REFUND)
		entry->refund = weir__add_saturating(entry->refund, units - back);
	else if (what == WEIR__REDIS_DEFER_RESET)
		entry->refund = 0;
}

static bool is_empty(const struct weir__redis_backlog_key *entry)
{
	return entry->cost == 0 && entry->refund == 0;
}

bool weir__redis_backlog_add(struct weir__redis_backlog *backlog, const struct weir__redis_plan *plan,
			     struct weir__resp_slice name, struct weir__resp_slice key, enum weir__redis_deferred what,
			     uint64_t units)
{
	const bool adds = what == WEIR__REDIS_DEFER_CHARGE || what == WEIR__REDIS_DEFER_REFUND;
	struct weir__redis_backlog_key *entry = NULL;
	struct limit *limit;
	bool is_first;

	if (units == 0 && what != WEIR__REDIS_DEFER_RESET)
		return false;
	if (!adds && atomic_load_explicit(&backlog->n_keys, memory_order_relaxed) == 0)
		return false; /* usually nothing waits, and then a reset needs no lock */
	weir__lock_acquire(&backlog->lock);
	is_first = backlog->oldest == NULL;
	limit = find_limit(backlog, plan, name);
	if (limit)
		entry = entry_of(backlog, limit, key, adds);
	if (entry)
		change_entry(entry, what, units);
	else if (what == WEIR__REDIS_DEFER_CHARGE)
		backlog->info.dropped = weir__add_saturating(backlog->info.dropped, units);
	if (entry && is_empty(entry)) {
		unlink_entry(backlog, entry);
		drop_entry(backlog, entry);
	} else if (limit) {
		drop_limit_of_no_keys(backlog, limit);
	}
	is_first = is_first && backlog->oldest != NULL;
	weir__lock_release(&backlog->lock);
	return is_first;
}

bool weir__redis_backlog_has_keys(const struct weir__redis_backlog *backlog)
{
	return atomic_load_explicit(&backlog->n_keys, memory_order_acquire) > 0;
}

bool weir__redis_backlog_is_behind(const struct weir__redis_backlog *backlog, weir_ns decided_at)
{
	return weir__redis_backlog_has_keys(backlog) ||
	       decided_at <= atomic_load_explicit(&backlog->made_at, memory_order_relaxed);
}

/* --- charges ----------------------------------------------------------------------------------------------------- */

/* Copies the current plan of a limit, since the limit may change while the charge is on its way. NULL: the call has no
 * room for more plans. */
static const struct weir__redis_plan *plan_for(struct weir__redis_backlog_charge *charge, const struct limit *limit)
{
	size_t i = 0;

	while (i < charge->n_plans && charge->limits[i] != limit)
		i++;
	if (i == WEIR__REDIS_CHARGE_PLANS)
		return NULL;
	if (i == charge->n_plans) {
		charge->limits[i] = limit;
		charge->plans[i] = limit->plan;
		charge->n_plans++;
	}
	return &charge->plans[i];
}

static void add_request(struct weir__redis_backlog_charge *charge, const struct weir__redis_backlog_key *entry,
			const struct weir__redis_plan *plan, enum weir__redis_operation operation, uint64_t units)
{
	const size_t i = charge->job.n++;

	charge->claims[i] = (struct weir__redis_claim){ .plan = plan,
							.name = { entry->limit->name, entry->limit->name_length },
							.key = { entry->key, entry->key_length },
							.cost = units };
	charge->requests[i] = (struct weir__redis_request){ operation, &charge->claims[i], 1 };
}

static void add_to_charge(struct weir__redis_backlog_charge *charge, struct weir__redis_backlog_key *entry,
			  const struct weir__redis_plan *plan)
{
	charge->keys[charge->n++] = entry;
	if (entry->refund > 0)
		add_request(charge, entry, plan, WEIR__REDIS_REFUND, entry->refund);
	if (entry->cost > 0)
		add_request(charge, entry, plan, WEIR__REDIS_UP_TO, entry->cost);
}

bool weir__redis_backlog_begin(struct weir__redis_backlog *backlog, struct weir__redis_backlog_charge *charge)
{
	charge->n = charge->n_plans = charge->job.n = 0;
	weir__lock_acquire(&backlog->lock);
	while (charge->n < WEIR__REDIS_CHARGE_KEYS && backlog->oldest) {
		struct weir__redis_backlog_key *const entry = backlog->oldest;
		const struct weir__redis_plan *const plan = plan_for(charge, entry->limit);

		if (plan == NULL)
			break;
		unlink_entry(backlog, entry);
		add_to_charge(charge, entry, plan);
	}
	weir__lock_release(&backlog->lock);
	charge->job.requests = charge->requests;
	charge->job.verdicts = charge->verdicts;
	return charge->n > 0;
}

/* Puts a charge back. More units may have been deferred for its key meanwhile. */
static void put_back(struct weir__redis_backlog *backlog, struct weir__redis_backlog_key *entry)
{
	struct weir__redis_backlog_key *other;
	unsigned chain;

	other = find_key(backlog, entry->limit, entry->hash, (struct weir__resp_slice){ entry->key, entry->key_length },
			 &chain);
	if (other) {
		/* Units that were deferred later follow the charge, and a refund takes from them first. */
		const uint64_t back = weir__min(entry->cost, other->refund);

		other->refund = weir__add_saturating(entry->refund, other->refund - back);
		other->cost = weir__add_saturating(other->cost, entry->cost - back);
		drop_entry(backlog, entry);
		if (is_empty(other)) {
			unlink_entry(backlog, other);
			drop_entry(backlog, other);
		}
	} else {
		link_entry(backlog, entry);
	}
}

static void count_made(struct weir__redis_backlog_info *info, const struct weir__redis_backlog_key *entry,
		       const struct weir_verdict *verdict)
{
	const uint64_t granted = weir__min(verdict->granted, entry->cost);

	info->charged = weir__add_saturating(info->charged, granted);
	info->excess = weir__add_saturating(info->excess, entry->cost - granted);
}

void weir__redis_backlog_end(struct weir__redis_backlog *backlog, struct weir__redis_backlog_charge *charge)
{
	const enum weir__redis_outcome outcome = charge->job.outcome;
	const struct weir_verdict *verdict = charge->verdicts;

	weir__lock_acquire(&backlog->lock);
	if (outcome == WEIR__REDIS_JOB_DECIDED) /* before the keys are gone: see weir__redis_backlog_is_behind */
		atomic_store_explicit(&backlog->made_at, charge->job.decided_at, memory_order_relaxed);
	for (size_t i = 0; i < charge->n; i++) {
		struct weir__redis_backlog_key *const entry = charge->keys[i];

		if (outcome == WEIR__REDIS_JOB_UNREACHED) {
			put_back(backlog, entry);
			continue;
		}
		verdict += entry->refund > 0;
		if (outcome == WEIR__REDIS_JOB_DECIDED && entry->cost > 0)
			count_made(&backlog->info, entry, verdict);
		else
			backlog->info.uncertain = weir__add_saturating(backlog->info.uncertain, entry->cost);
		verdict += entry->cost > 0;
		drop_entry(backlog, entry);
	}
	charge->n = 0;
	weir__lock_release(&backlog->lock);
}

void weir__redis_backlog_info(struct weir__redis_backlog *backlog, struct weir__redis_backlog_info *ret_info)
{
	weir__lock_acquire(&backlog->lock);
	*ret_info = backlog->info;
	weir__lock_release(&backlog->lock);
}
