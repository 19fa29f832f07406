/* table.c: decides on one key under one limit, and makes and frees tables. table_find.c decides which key has which
 * slot. */
#include "store/table/table.h"

#include <errno.h>
#include <stdlib.h>

#include "core/argument.h"
#include "core/small.h"
#include "core/text.h"
#include "core/uninitialized.h"
#include "os/memory.h"
#include "os/pause.h"
#include "store/table/region_file.h"

size_t weir_table_size(uint64_t keys, uint32_t limits_max)
{
	return weir__region_size(keys, limits_max);
}

size_t weir_table_arena_size(const struct weir_limit *limit, uint64_t keys, uint64_t events)
{
	struct weir__slot_format format;
	struct weir_message message;
	struct weir_plan plan;

	if (weir_plan_compile(limit, &plan, &message) != WEIR_OK ||
	    weir__slot_format_init(&format, &plan, 0, true, &message) != WEIR_OK)
		return SIZE_MAX;
	return weir__format_has_histories(&format) ? weir__history_arena_size(&format.plan, keys, events) : 0;
}

int weir_table_unlink(const char *shared, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(shared, ret_message);
	return weir__region_unlink(shared, ret_message);
}

enum {
	/* Whole cache lines, so that the members that decisions read take as few lines as possible. */
	HANDLE_BYTES = (sizeof(struct weir_table_limit) + WEIR__LINE_BYTES - 1) / WEIR__LINE_BYTES * WEIR__LINE_BYTES,
	MANY_LIMITS = 10000,
};

/* If the block cannot be allocated, each handle is allocated separately. */
static void make_room_for_handles(struct weir_table *table)
{
	const size_t bytes = (size_t)table->region.limits_max * HANDLE_BYTES;
	void *memory;

	if (table->region.limits_max < MANY_LIMITS || weir__memory_new(bytes, &memory) != 0)
		return;
	table->handles = memory;
	table->handles_bytes = bytes;
}

static bool is_among_handles(const struct weir_table *table, const struct weir_table_limit *limit)
{
	return (uintptr_t)limit - (uintptr_t)table->handles < table->handles_bytes;
}

/* A handle that is taken from the block and then not needed stays unused. So the last handles may have to be allocated
 * separately. NULL: no memory. */
static struct weir_table_limit *new_handle(struct weir_table *table)
{
	size_t used = atomic_load(&table->handles_used);

	while (table->handles_bytes - used >= HANDLE_BYTES)
		if (atomic_compare_exchange_strong(&table->handles_used, &used, used + HANDLE_BYTES))
			return (struct weir_table_limit *)(void *)(table->handles + used);
	return aligned_alloc(WEIR__LINE_BYTES, HANDLE_BYTES);
}

static void free_handle(const struct weir_table *table, struct weir_table_limit *limit)
{
	if (!is_among_handles(table, limit))
		free(limit);
}

static struct weir__sweep *new_sweep(const struct weir__arena *arena)
{
	const size_t marks_bytes = ((size_t)arena->n + 7) / 8;
	struct weir__sweep *const sweep = calloc(1, sizeof(*sweep) + 2 * marks_bytes);

	if (sweep)
		sweep->marks_bytes = marks_bytes;
	return sweep;
}

/* Both groups have at least one of 16 candidates, so that a new key of either group finds a slot. */
void weir__table_set_inline_share(struct weir_table *table, uint32_t percent)
{
	const uint32_t slots = (percent * WEIR__CANDIDATES + 99) / 100;

	table->inline_slots = slots == 0 ? 1 : slots < WEIR__CANDIDATES ? slots : WEIR__CANDIDATES - 1;
}

int weir_table_new(const struct weir_table_options *options, struct weir_table **ret_table,
		   struct weir_message *ret_message)
{
	WEIR__NOT_NULL(options, ret_message);
	WEIR__NOT_NULL(ret_table, ret_message);

	struct weir__region region;
	struct weir_table *table;
	size_t size;
	int error;

	error = weir__region_open(&region, options, ret_message);
	if (error != WEIR_OK)
		return error;
	size = sizeof(*table) + region.limits_max * sizeof(struct weir_table_limit *);
	table = aligned_alloc(_Alignof(struct weir_table), (size + 63) / 64 * 64);
	if (table == NULL) {
		struct weir__text why = weir__text_of_message(ret_message, 0);

		weir__text_add(&why, "no memory for the list of limits");
		weir__region_close(&region);
		errno = ENOMEM;
		return WEIR_ERR_SYSTEM;
	}
	memset(table, 0, size);
	table->region = region;
	table->epoch = region.epoch;
	weir__table_set_inline_share(table, WEIR__INLINE_SHARE);
	make_room_for_handles(table);
	table->is_shared = options->shared || options->file;
	if (table->is_shared)
		weir__clock_init(&table->clock, &region.header->clock);
	if (region.arena.n > 0) /* may be NULL: then lost chunks are not reclaimed, all else works */
		table->sweep = new_sweep(&region.arena);
	weir__leaf_hints_init(&table->leaf_hints, region.lines * WEIR__LINE_SLOTS, region.arena.n);
	*ret_table = table;
	return WEIR_OK;
}

int weir_table_sync(struct weir_table *table)
{
	return weir__region_file_sync(&table->region);
}

void weir_table_free(struct weir_table *table)
{
	if (table == NULL)
		return;
	for (uint32_t i = 0; i < table->region.limits_max; i++)
		free_handle(table, atomic_load(&table->limits[i]));
	if (table->handles)
		weir__memory_free(table->handles, table->handles_bytes);
	weir__region_close(&table->region);
	weir__leaf_hints_free(&table->leaf_hints);
	free(table->sweep);
	free(table);
}

weir_ns weir_table_now(struct weir_table *table)
{
	return table->is_shared ? weir__clock_read(&table->clock) : weir_clock_now();
}

struct weir__hash_secret weir__limit_secret(const struct weir__hash_secret *of_table, const void *space,
					    size_t space_length)
{
	const struct weir__hash_secret other = { ~of_table->k0, of_table->k1 };

	return (struct weir__hash_secret){ weir__hash(of_table, space, space_length),
					   weir__hash(&other, space, space_length) };
}

/* If several threads add the same limit at once, one handle is kept. */
static int remember_limit(struct weir_table *table, const struct weir_table_limit *limit,
			  const struct weir_table_limit **ret_limit, struct weir_message *ret_message)
{
	struct weir_table_limit *const copy = new_handle(table), *found = NULL;
	struct weir__text why;

	if (copy == NULL) {
		why = weir__text_of_message(ret_message, 0);
		weir__text_add(&why, "no memory for a limit");
		errno = ENOMEM;
		return WEIR_ERR_SYSTEM;
	}
	*copy = *limit;
	if (atomic_compare_exchange_strong(&table->limits[limit->index], &found, copy)) {
		*ret_limit = copy;
	} else {
		free_handle(table, copy);
		*ret_limit = found;
	}
	return WEIR_OK;
}

static int compile(struct weir_table_limit *limit, struct weir_message *ret_message)
{
	const int error = weir_plan_compile(&limit->added, &limit->plan, ret_message);

	if (error != WEIR_OK)
		return error;
	return weir__slot_format_init(&limit->first, &limit->plan, limit->table->epoch,
				      limit->table->region.arena.n > 0, ret_message);
}

int weir_table_check_limit(const struct weir_limit *limit, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(limit, ret_message);

	struct weir__slot_format format;
	struct weir_plan plan;
	const int error = weir_plan_compile(limit, &plan, ret_message);

	return error == WEIR_OK ? weir__slot_format_init(&format, &plan, 0, true, ret_message) : error;
}

int weir_table_add_limit(struct weir_table *table, const char *name, const struct weir_limit *limit,
			 const struct weir_table_limit **ret_limit, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(table, ret_message);
	WEIR__NOT_NULL(name, ret_message);
	WEIR__NOT_NULL(limit, ret_message);
	WEIR__NOT_NULL(ret_limit, ret_message);

	struct weir_table_limit added = { .table = table, .added = *limit };
	int error;

	error = weir__argument_name(name, WEIR_TABLE_NAME_MAX, ret_message);
	if (error == WEIR_OK)
		error = compile(&added, ret_message);
	if (error != WEIR_OK)
		return error;
	error = weir__region_add_limit(&table->region, name, limit, &added.index, ret_message);
	if (error != WEIR_OK)
		return error;
	added.entry = &table->region.limits[added.index];
	/* The first process that added the limit decided whether its keys are in slots or in histories. */
	if (weir__plans_number(added.entry) > 0 &&
	    weir__region_first_limit(&table->region, added.index, &added.added)) {
		error = compile(&added, ret_message);
		if (error != WEIR_OK)
			return error;
	}
	weir__view_init(&added);
	memcpy(added.name, name, strlen(name));
	added.secret = weir__limit_secret(&table->region.secret, name, strlen(name));
	return remember_limit(table, &added, ret_limit, ret_message);
}

int weir_table_add_limit_text(struct weir_table *table, const char *name, const char *text,
			      const struct weir_table_limit **ret_limit, struct weir_message *ret_message)
{
	WEIR__NOT_NULL(table, ret_message);
	WEIR__NOT_NULL(name, ret_message);
	WEIR__NOT_NULL(text, ret_message);
	WEIR__NOT_NULL(ret_limit, ret_message);

	struct weir_limit limit;
	const int error = weir_limit_parse(text, strlen(text), &limit, ret_message);

	return error == WEIR_OK ? weir_table_add_limit(table, name, &limit, ret_limit, ret_message) : error;
}

const char *weir_table_limit_name(const struct weir_table_limit *limit)
{
	return limit->name;
}

bool weir__table_put(const struct weir__key *key, struct weir__place *place, struct weir_state next, weir_ns now)
{
	if (weir__slot_equal(place->seen, next))
		return true;
	if (place->slot == NULL)
		return weir__table_claim(key, next, now, &place->slot);
	if (weir__atomic16_swap(place->slot, place->seen, next))
		return true;
	weir__back_off();
	return false;
}

/* Counts in which line a decision found its key, unless it was the home line. */
static void count_probe(const struct weir_table *table, const struct weir__place *place)
{
	if (place->line > 0)
		WEIR__COUNT(&table->region, probes[place->line - 1], 1);
}

bool weir__table_step_while(const struct weir__epoch_check *epoch_check, struct weir_table *table,
			    const struct weir_table_limit *limit, uint64_t hash, weir__step *step, weir_ns now,
			    uint64_t cost, struct weir_verdict *ret_verdict, struct weir__change *ret_change)
{
	const bool forgives = weir__step_forgives(step), decides = !forgives && step != weir_step_peek;
	struct weir__key key WEIR__UNINITIALIZED;

	for (;;) {
		struct weir_state state, before, next;
		struct weir__place place;

		weir__key_init(&key, table, limit, hash);
		if (weir__format_has_histories(&key.view.format))
			return weir__table_step_history(epoch_check, table, limit, hash, step, now, cost, ret_verdict,
							ret_change);
		weir__table_find(&key, &place, &state);
		if (WEIR__UNLIKELY(weir__format_has_histories(&key.view.format)))
			continue; /* changed meanwhile */
		if (!weir__epoch_check_holds(epoch_check))
			return false;
		before = state;
		next = place.seen;
		*ret_verdict = step(&key.view.format.plan, &state, now, cost);
		if (place.is_old || !weir__slot_equal(before, state))
			next = weir__key_pack(&key, &state);
		if (forgives) /* after the key was found, before it changes: see table_decide.c */
			weir__table_forgive(&key, &place);
		if (!weir__table_put(&key, &place, next, now))
			continue;
		if (decides)
			count_probe(table, &place);
		if (ret_change)
			*ret_change = (struct weir__change){
				.number = key.view.number,
				.slot = weir__slot_equal(place.seen, next) ? NULL : place.slot,
				.before = place.is_old ? weir__key_pack(&key, &before) : place.seen,
				.after = next,
				.format = key.view.format,
			};
		return true;
	}
}

/* Whether verdicts of this plan have no delays. */
static inline bool is_plain_bucket(const struct weir_plan *plan)
{
	return plan->kind == WEIR_KIND_BUCKET && !(plan->flags & WEIR_PLAN_SHAPE);
}

/* The common case without a call to core: a bucket that allows. Returns false if core has to decide. A bucket that
 * allows has no more usage than its burst, so its clock has not gone back. */
static inline bool prepare_bucket(const struct weir__key *key, const struct weir__place *place,
				  const struct weir_state *before, weir_ns now, uint64_t cost,
				  struct weir_state *ret_next, struct weir_verdict *ret_verdict)
{
	const struct weir__slot_format *const format = &key->view.format;
	const struct weir_plan *const plan = &format->plan;
	const struct weir_state slot = { .lo = place->slot ? place->seen.lo : key->fingerprint, .hi = place->seen.hi };
	const bool was_full = weir__state_wide(before) <= weir__mul(now, plan->count);
	struct weir_state state = *before;

	if (!is_plain_bucket(plan) || cost == 0 || weir__bucket_decide(plan, &state, now, cost, false) != WEIR__ALLOWED)
		return false;
	*ret_verdict = (struct weir_verdict){ .allowed = true, .limit = plan->most, .granted = cost };
	weir__bucket_level(plan, &state, now, ret_verdict);
	*ret_next = weir__slot_charge_bucket(format, slot, was_full, now, cost);
	return true;
}

bool weir__table_prepare(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash, weir_ns now,
			 uint64_t cost, struct weir__prepared *ret_prepared, struct weir_verdict *ret_verdict)
{
	struct weir__key *const key = &ret_prepared->key;
	struct weir__place *const place = &ret_prepared->place;
	struct weir_state state, next;

	weir__key_init(key, table, limit, hash);
	if (weir__format_has_histories(&key->view.format))
		return false;
	weir__table_find(key, place, &state);
	if (WEIR__UNLIKELY(weir__format_has_histories(&key->view.format) || place->is_old))
		return false;
	ret_prepared->before = state;
	if (!prepare_bucket(key, place, &state, now, cost, &next, ret_verdict)) {
		*ret_verdict = weir_step_take(&key->view.format.plan, &state, now, cost);
		next = weir__slot_equal(ret_prepared->before, state) ? place->seen : weir__key_pack(key, &state);
	}
	ret_prepared->next.lo = next.lo; /* see weir__place_set */
	ret_prepared->next.hi = next.hi;
	return true;
}

bool weir__table_peek_prepared(const struct weir__prepared *prepared, weir_ns now, uint64_t cost,
			       struct weir_verdict *verdict)
{
	const struct weir_plan *const plan = &prepared->key.view.format.plan;
	struct weir_state state = prepared->before;
	struct weir_verdict peeked;

	/* A take that denies and changes nothing has the verdict of a peek. */
	if (!verdict->allowed && weir__slot_equal(prepared->place.seen, prepared->next))
		return true;
	if (verdict->allowed && is_plain_bucket(plan) &&
	    weir__bucket_used(plan, &state, now) <= weir__bucket_duration(plan)) {
		verdict->granted = 0;
		weir__bucket_level(plan, &state, now, verdict);
		return true;
	}
	peeked = weir_step_peek(plan, &state, now, cost);
	if (!weir__slot_equal(state, prepared->before))
		return false;
	*verdict = peeked;
	return true;
}

bool weir__table_put_prepared(struct weir__prepared *prepared, weir_ns now, struct weir__change *ret_change)
{
	struct weir__place *const place = &prepared->place;

	if (!weir__table_put(&prepared->key, place, prepared->next, now))
		return false;
	count_probe(prepared->key.table, place);
	ret_change->number = prepared->key.view.number;
	ret_change->slot = weir__slot_equal(place->seen, prepared->next) ? NULL : place->slot;
	ret_change->before = place->seen;
	ret_change->after = prepared->next;
	ret_change->format = prepared->key.view.format;
	return true;
}

static struct weir_verdict allow_only(const struct weir_plan *plan, void *state, weir_ns now, uint64_t cost)
{
	return (struct weir_verdict){ .allowed = weir_step_allow(plan, state, now, cost) };
}

enum found { DENIED, ALLOWED, OUTRUN, NOT_HERE };

/* Decides for a bucket if its slot is in this line and packed by the newest plan, and the epoch check holds. *ret_state
 * is the state after the decision under *ret_plan, of which only count, period and most are set. */
static inline enum found decide_in_line(const struct weir__epoch_check *epoch_check, const struct weir_table *table,
					const struct weir_table_limit *limit, uint64_t hash, union weir__atomic16 *line,
					weir_ns now, uint64_t cost, struct weir_plan *ret_plan,
					struct weir_state *ret_state)
{
	const uint64_t number = WEIR__VIEW_WORD(limit, number);
	const uint32_t fingerprint = weir__fingerprint_in(hash, WEIR__VIEW_WORD(limit, mark));
	const unsigned matches = weir__line_matches(line, fingerprint);

	if (WEIR__LIKELY(matches != 0 && limit->first.plan.kind == WEIR_KIND_BUCKET &&
			 now - table->epoch <= WEIR__SLOT_TIME_MAX)) {
		/* Each word of the view is read only where it is needed. Whether they all belong to one view is checked
		 * after all reads. */
		struct weir__slot_format format = { .plan = { .count = WEIR__VIEW_WORD(limit, format.plan.count),
							      .period = WEIR__VIEW_WORD(limit, format.plan.period),
							      .most = WEIR__VIEW_WORD(limit, format.plan.most) },
						    .epoch = table->epoch };
		union weir__atomic16 *const slot = line + __builtin_ctz(matches);
		const struct weir_state seen = weir__atomic16_load(slot);
		struct weir_state state = weir__slot_unpack_bucket(&format, seen);
		const bool was_full = weir__state_wide(&state) <= weir__mul(now, format.plan.count);
		const enum weir__answer answer = weir__bucket_decide(&format.plan, &state, now, cost, false);

		*ret_plan = format.plan;
		*ret_state = state;
		format.unit_ns = WEIR__VIEW_WORD(limit, format.unit_ns);
		format.unit_rest = WEIR__VIEW_WORD(limit, format.unit_rest);
		format.tag = WEIR__VIEW_WORD(limit, format.tag);
		if (WEIR__LIKELY(weir__slot_fingerprint(seen) == fingerprint && weir__slot_tag(seen) == format.tag &&
				 cost > 0 && weir__view_is_current(limit, number) &&
				 weir__epoch_check_holds(epoch_check))) {
			if (answer == WEIR__DENIED)
				return DENIED;
			if (answer == WEIR__ALLOWED)
				return WEIR__LIKELY(weir__atomic16_swap(
					       slot, seen,
					       weir__slot_charge_bucket(&format, seen, was_full, now, cost))) ?
					       ALLOWED :
					       OUTRUN;
		}
	}
	return NOT_HERE;
}

static inline enum found allow_in_line(const struct weir_table *table, const struct weir_table_limit *limit,
				       uint64_t hash, union weir__atomic16 *line, weir_ns now, uint64_t cost)
{
	struct weir_plan plan;
	struct weir_state state;

	return decide_in_line(NULL, table, limit, hash, line, now, cost, &plan, &state);
}

/* For a key that is not in its home line or that the common path cannot decide. */
static __attribute__((noinline)) bool allow_elsewhere(struct weir_table *table, const struct weir_table_limit *limit,
						      uint64_t hash, weir_ns now, uint64_t cost, enum found found)
{
	const unsigned lines_to_try = limit->first.plan.kind == WEIR_KIND_BUCKET ? WEIR__LINES : 0;
	const uint32_t fingerprint = weir__fingerprint_in(hash, WEIR__VIEW_WORD(limit, mark));
	union weir__atomic16 *lines[WEIR__LINES];

	if (limit->first.plan.kind == WEIR_KIND_LOG) {
		const enum weir__log_answer answer = weir__table_allow_log(table, limit, hash,
									   weir__table_clamp(table, now), cost);

		if (WEIR__LIKELY(answer != WEIR__LOG_UNDECIDED))
			return answer == WEIR__LOG_ALLOWED;
	}
	weir__table_lines(table, hash, lines);
	for (unsigned i = 1; i < lines_to_try; i++)
		__builtin_prefetch(lines[i], 1);
	for (unsigned i = 1; found == NOT_HERE && i < lines_to_try; i++) {
		if (weir__line_matches(lines[i], fingerprint) == 0)
			continue;
		found = allow_in_line(table, limit, hash, lines[i], now, cost);
		if (found <= ALLOWED) {
			WEIR__COUNT(&table->region, probes[i - 1], 1);
			return found == ALLOWED;
		}
	}
	if (found == OUTRUN)
		weir__back_off();
	return weir__table_step(table, limit, hash, allow_only, weir__table_clamp(table, now), cost, NULL).allowed;
}

/* The common path: a bucket whose slot is in its home line. */
static inline bool allow_hashed(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash,
				weir_ns now, uint64_t cost)
{
	const enum found found = allow_in_line(table, limit, hash, weir__table_home(table, hash), now, cost);

	return WEIR__LIKELY(found <= ALLOWED) ? found == ALLOWED :
						allow_elsewhere(table, limit, hash, now, cost, found);
}

bool weir__table_allow_hashed(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash,
			      weir_ns now, uint64_t cost)
{
	return allow_hashed(table, limit, hash, now, cost);
}

bool weir_table_allow(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
		      size_t key_length, weir_ns now, uint64_t cost)
{
	const uint64_t hash = weir__hash(&limit->secret, key, key_length);
	bool allowed;

	__builtin_prefetch(weir__table_alternate(table, hash));
	allowed = allow_hashed(table, limit, hash, now, cost);
	weir__table_count(table, limit, allowed);
	return allowed;
}

static struct weir_verdict step_key(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
				    size_t key_length, weir__step *step, weir_ns now, uint64_t cost)
{
	return weir__table_step(table, limit, weir__hash(&limit->secret, key, key_length), step,
				weir__table_clamp(table, now), cost, NULL);
}

static inline bool take_hashed(const struct weir__epoch_check *epoch_check, struct weir_table *table,
			       const struct weir_table_limit *limit, uint64_t hash, weir_ns now, uint64_t cost,
			       struct weir_verdict *ret_verdict)
{
	enum found found = NOT_HERE;
	struct weir_state state;
	struct weir_plan plan;

	if (WEIR__LIKELY(!(limit->first.plan.flags & WEIR_PLAN_SHAPE)))
		found = decide_in_line(epoch_check, table, limit, hash, weir__table_home(table, hash), now, cost, &plan,
				       &state);
	/* A cost above the burst was denied without a check for a clock that went back. Core makes that check. */
	if (WEIR__UNLIKELY(found > ALLOWED || cost > plan.most))
		return weir__table_step_while(epoch_check, table, limit, hash, weir_step_take,
					      weir__table_clamp(table, now), cost, ret_verdict, NULL);
	*ret_verdict = (struct weir_verdict){ .allowed = found == ALLOWED,
					      .limit = plan.most,
					      .granted = found == ALLOWED ? cost : 0 };
	weir__bucket_level(&plan, &state, now, ret_verdict);
	if (found == DENIED)
		ret_verdict->retry_after = weir__bucket_retry_after(&plan, &state, now, cost);
	return true;
}

void weir__table_take_hashed(struct weir_table *table, const struct weir_table_limit *limit, uint64_t hash, weir_ns now,
			     uint64_t cost, struct weir_verdict *ret_verdict)
{
	(void)take_hashed(NULL, table, limit, hash, now, cost, ret_verdict);
}

struct weir_verdict weir__table_peek_hashed(struct weir_table *table, const struct weir_table_limit *limit,
					    uint64_t hash, weir_ns now)
{
	const uint64_t number = WEIR__VIEW_WORD(limit, number);
	const uint32_t fingerprint = weir__fingerprint_in(hash, WEIR__VIEW_WORD(limit, mark));
	union weir__atomic16 *const line = weir__table_home(table, hash);
	const unsigned matches = weir__line_matches(line, fingerprint);

	if (WEIR__LIKELY(matches != 0 && limit->first.plan.kind == WEIR_KIND_BUCKET &&
			 now - table->epoch <= WEIR__SLOT_TIME_MAX)) {
		const struct weir__slot_format format = { .plan = { .count = WEIR__VIEW_WORD(limit, format.plan.count),
								    .period = WEIR__VIEW_WORD(limit,
											      format.plan.period),
								    .most = WEIR__VIEW_WORD(limit, format.plan.most) },
							  .epoch = table->epoch };
		const uint32_t tag = WEIR__VIEW_WORD(limit, format.tag);
		const struct weir_state seen = weir__atomic16_load(line + __builtin_ctz(matches));
		struct weir_state state = weir__slot_unpack_bucket(&format, seen);
		struct weir_verdict verdict = { .allowed = true, .limit = format.plan.most };

		weir__bucket_level(&format.plan, &state, now, &verdict);
		/* Core finds out whether the clock went back. */
		if (WEIR__LIKELY(weir__slot_fingerprint(seen) == fingerprint && weir__slot_tag(seen) == tag &&
				 weir__bucket_used(&format.plan, &state, now) <= weir__bucket_duration(&format.plan) &&
				 weir__view_is_current(limit, number)))
			return verdict;
	}
	return weir__table_step(table, limit, hash, weir_step_peek, weir__table_clamp(table, now), 0, NULL);
}

void weir__table_prefetch_take(const struct weir_table *table, const struct weir__region_limit *entry, uint64_t hash)
{
	__builtin_prefetch(weir__table_home(table, hash), 1);
	__builtin_prefetch(&weir__stripe_of(&table->region).stripe->limits[entry - table->region.limits], 1);
}

bool weir__table_take_while(const struct weir__epoch_check *epoch_check, struct weir_table *table,
			    const struct weir_table_limit *limit, uint64_t hash, weir_ns now, uint64_t cost,
			    struct weir_verdict *ret_verdict)
{
	if (!take_hashed(epoch_check, table, limit, hash, now, cost, ret_verdict))
		return false;
	weir__table_count(table, limit, ret_verdict->allowed);
	return true;
}

struct weir_verdict weir_table_take(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
				    size_t key_length, weir_ns now, uint64_t cost)
{
	struct weir_verdict verdict;

	weir__table_take_hashed(table, limit, weir__hash(&limit->secret, key, key_length), now, cost, &verdict);
	weir__table_count(table, limit, verdict.allowed);
	return verdict;
}

struct weir_verdict weir_table_upto(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
				    size_t key_length, weir_ns now, uint64_t cost)
{
	const struct weir_verdict verdict = step_key(table, limit, key, key_length, weir_step_upto, now, cost);

	weir__table_count(table, limit, verdict.allowed);
	return verdict;
}

struct weir_verdict weir_table_peek(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
				    size_t key_length, weir_ns now, uint64_t cost)
{
	return step_key(table, limit, key, key_length, weir_step_peek, now, cost);
}

struct weir_verdict weir_table_refund(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
				      size_t key_length, weir_ns now, uint64_t n)
{
	return step_key(table, limit, key, key_length, weir_step_refund, now, n);
}

struct weir_verdict weir__table_undo(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
				     size_t key_length, weir_ns now, const struct weir__charge *charge, uint64_t n)
{
	const uint64_t hash = weir__hash(&limit->secret, key, key_length);
	const struct weir__charge charged = { weir__table_clamp(table, charge->at), charge->cost };
	struct weir_state state, before, next;
	struct weir_verdict verdict;
	struct weir__place place;
	struct weir__key found;

	now = weir__table_clamp(table, now);
	do {
		weir__key_init(&found, table, limit, hash);
		weir__table_find(&found, &place, &state);
		if (weir__format_has_histories(&found.view.format))
			return weir__table_undo_history(table, limit, hash, now, &charged, n);
		before = state;
		next = place.seen;
		verdict = weir__step_undo(&found.view.format.plan, &state, now, &charged, n);
		if (place.is_old || !weir__slot_equal(before, state))
			next = weir__key_pack(&found, &state);
		if (verdict.granted > 0) /* after the key was found, before it changes: see table_decide.c */
			weir__table_forgive(&found, &place);
	} while (!weir__table_put(&found, &place, next, now));
	return verdict;
}

bool weir_table_reset(struct weir_table *table, const struct weir_table_limit *limit, const void *key,
		      size_t key_length)
{
	const uint64_t hash = weir__hash(&limit->secret, key, key_length);
	struct weir__place place;
	struct weir__key found;
	struct weir_state state;

	do {
		weir__key_init(&found, table, limit, hash);
		weir__table_find(&found, &place, &state);
		if (place.slot == NULL)
			return false;
		weir__table_forgive(&found, &place);
	} while (!weir__atomic16_swap(place.slot, place.seen, (struct weir_state){ 0, 0 }));
	weir__table_forget_history(table, place.seen);
	return true;
}

struct weir_table_key weir__table_inspect(struct weir_table *table, const struct weir_table_limit *limit,
					  const void *key, size_t key_length, weir_ns now, uint64_t cost)
{
	const uint64_t hash = weir__hash(&limit->secret, key, key_length);
	struct weir_state state, slot;
	struct weir__place place;
	struct weir__key found;

	now = weir__table_clamp(table, now);
	weir__key_init(&found, table, limit, hash);
	weir__table_find(&found, &place, &state);
	if (weir__format_has_histories(&found.view.format)) {
		const struct weir_verdict verdict = weir__table_step(table, limit, hash, weir_step_peek, now, cost,
								     NULL);

		return (struct weir_table_key){ .is_stored = place.slot != NULL,
						.full_at = place.slot ? now + verdict.reset_after : 0,
						.verdict = verdict,
						.tokens = { verdict.remaining, 0, 1 } };
	}
	slot = place.is_old ? weir__key_pack(&found, &state) : place.seen;
	return (struct weir_table_key){
		.is_stored = place.slot != NULL,
		.full_at = weir__slot_fingerprint(slot) ? weir__slot_resets_at(&found.view.format, slot) : 0,
		.verdict = weir_step_peek(&found.view.format.plan, &state, now, cost),
		.tokens = weir_step_tokens(&found.view.format.plan, &state, now),
	};
}

struct weir_table_key weir_table_inspect(struct weir_table *table, const struct weir_table_limit *limit,
					 const void *key, size_t key_length, weir_ns now)
{
	return weir__table_inspect(table, limit, key, key_length, now, 0);
}
