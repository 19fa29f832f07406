/* recording_replay.c: one table, one thread, and the requests of the recording in their order. */
#include "replay/recording_replay.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "store/store.h"
#include "store/table/inline_limit.h"
#include "store/table/key_state.h"

enum {
	KEYS_LEAST = 1024,
	KEYS_MOST = 1 << 26,
	LIMITS_LEAST = 256, /* a table keeps old plans for each, and looks through them after a change */
	LIMITS_MOST = 1 << 20,
	ARENA_LEAST = 1 << 16,
	BYTES_PER_KEY = 512, /* of arena: root, an index and leaves */
	BYTES_PER_EVENT = 32,
};

static const uint64_t arena_most = UINT64_C(1) << 31;

/* A limit of the recording, by its id. */
struct known_limit {
	const struct weir_table_limit *limit; /* NULL: none, or it cannot be made here */
	struct weir_table_limit *inlined;     /* memory for an inline limit; kept for the next limit with this id */
};

struct weir__recording_replay {
	struct weir_table *table;
	const struct weir_table_limit *counted_as;
	struct weir__recording_counts counts;
	struct weir__key_state recorded, own;
	struct weir_claim claims[WEIR__RECORDING_CLAIMS_MAX];
	struct weir_verdict verdicts[WEIR__RECORDING_CLAIMS_MAX];
	uint64_t *seen; /* marks of keys, or 0; a power of two of them */
	uint64_t n_seen;
	struct known_limit limits[WEIR__RECORDING_LIMITS_MAX];
};

/* --- its size ---------------------------------------------------------------------------------------------------- */

/* A limit has a frame for each of its changes. */
static void measure_limit(struct weir__recording_size *size, const struct weir__recording_limit *limit)
{
	static const struct weir__hash_secret secret = { 0, 0 };
	uint64_t name;

	if (limit->is_inline)
		return;
	name = weir__hash(&secret, limit->name.at, limit->name.n) | 1;
	size->limits += size->names[limit->id] != name;
	size->names[limit->id] = name;
}

void weir__recording_measure(struct weir__recording_size *size, const struct weir__recording_frame *frame)
{
	if (frame->type == WEIR__RECORDING_BEGIN) {
		size->begins = frame->begin.at;
	} else if (frame->type == WEIR__RECORDING_LIMIT) {
		measure_limit(size, &frame->limit);
	} else if (frame->type == WEIR__RECORDING_DECISION) {
		size->claims += frame->decision.n;
		for (uint32_t i = 0; i < frame->decision.n; i++)
			if (frame->decision.claims[i].state == WEIR__RECORDING_EVENTS)
				size->events += frame->decision.claims[i].n_events;
	}
}

static uint64_t within(uint64_t number, uint64_t least, uint64_t most)
{
	return number < least ? least : weir__min(number, most);
}

static int make_table(struct weir__recording_replay *replay, const struct weir__recording_size *size,
		      struct weir_message *ret_message)
{
	const uint64_t keys = within(size->claims, KEYS_LEAST, KEYS_MOST);
	const uint32_t limits = (uint32_t)within(size->limits + 2, LIMITS_LEAST, LIMITS_MOST);
	const uint64_t events = weir__min(size->claims + size->events, arena_most / BYTES_PER_EVENT);
	const size_t arena = (size_t)within(ARENA_LEAST + events * BYTES_PER_EVENT +
						    weir__min(keys, arena_most / BYTES_PER_KEY) * BYTES_PER_KEY,
					    ARENA_LEAST, arena_most) /
			     64 * 64;
	const struct weir_table_options options = { .size_bytes = weir_table_size(keys, limits) + arena,
						    .limits_max = limits,
						    .arena_bytes = arena,
						    .made_at = size->begins ? size->begins : 1 };
	int error = weir_table_new(&options, &replay->table, ret_message);

	if (error == WEIR_OK)
		error = weir_table_add_limit_text(replay->table, "inline limits of the recording", "1/s",
						  &replay->counted_as, ret_message);
	return error;
}

int weir__recording_replay_new(const struct weir__recording_size *size, struct weir__recording_replay **ret_replay,
			       struct weir_message *ret_message)
{
	struct weir__recording_replay *const replay = calloc(1, sizeof(*replay));
	struct weir__text why;
	int error;

	if (replay) {
		replay->n_seen = KEYS_LEAST;
		while (replay->n_seen < 2 * within(size->claims, KEYS_LEAST, KEYS_MOST))
			replay->n_seen *= 2;
		replay->seen = calloc((size_t)replay->n_seen, sizeof(*replay->seen));
	}
	if (replay == NULL || replay->seen == NULL) {
		free(replay);
		why = weir__text_of_message(ret_message, 0);
		weir__text_add(&why, "no memory to replay a recording of this size");
		errno = ENOMEM;
		return WEIR_ERR_SYSTEM;
	}
	error = make_table(replay, size, ret_message);
	if (error != WEIR_OK) {
		weir__recording_replay_free(replay);
		return error;
	}
	*ret_replay = replay;
	return WEIR_OK;
}

void weir__recording_replay_free(struct weir__recording_replay *replay)
{
	if (replay == NULL)
		return;
	weir_table_free(replay->table);
	for (size_t i = 0; i < WEIR__RECORDING_LIMITS_MAX; i++)
		free(replay->limits[i].inlined);
	free(replay->seen);
	free(replay);
}

/* --- limits ------------------------------------------------------------------------------------------------------ */

static bool make_inline(struct weir__recording_replay *replay, const struct weir__recording_limit *recorded,
			const struct weir_limit *limit, struct known_limit *known)
{
	unsigned char space[9] = { 0 };

	memcpy(space + 1, &recorded->space, 8);
	if (known->inlined == NULL)
		known->inlined = calloc(1, sizeof(*known->inlined));
	if (known->inlined == NULL)
		return false;
	if (weir__inline_limit_init(known->inlined, replay->table, space, sizeof(space), limit, replay->counted_as,
				    NULL) != WEIR_OK)
		return false;
	if (recorded->is_shared)
		weir__inline_limit_share(known->inlined);
	known->limit = known->inlined;
	return true;
}

/* Adds the limit, or changes the one of that name as the server did. */
static bool make_named(struct weir__recording_replay *replay, const struct weir__recording_limit *recorded,
		       const struct weir_limit *limit, struct known_limit *known)
{
	char name[WEIR_TABLE_NAME_MAX + 1];

	if (recorded->name.n == 0 || recorded->name.n > WEIR_TABLE_NAME_MAX ||
	    memchr(recorded->name.at, '\0', recorded->name.n))
		return false;
	memcpy(name, recorded->name.at, recorded->name.n);
	name[recorded->name.n] = '\0';
	if (weir_table_find_limit(replay->table, name, limit, &known->limit, NULL) != WEIR_OK)
		return false;
	if (weir_table_change_limit(replay->table, known->limit, limit, recorded->changed_at, NULL) == WEIR_OK)
		return true;
	known->limit = NULL;
	return false;
}

static void know_limit(struct weir__recording_replay *replay, const struct weir__recording_limit *recorded)
{
	struct known_limit *const known = &replay->limits[recorded->id];
	struct weir_limit limit;

	known->limit = NULL;
	if (recorded->number > 0)
		replay->counts.changes++;
	if (weir_limit_parse(recorded->text.at, recorded->text.n, &limit, NULL) != WEIR_OK)
		return;
	(void)(recorded->is_inline ? make_inline(replay, recorded, &limit, known) :
				     make_named(replay, recorded, &limit, known));
}

/* --- states ------------------------------------------------------------------------------------------------------ */

/* The lowest bit of a mark: whether the replay's state of the key is the server's. Not after a decision that was not
 * made again, or during which a limit changed, until the recording has the state. */
enum { IS_FOLLOWED = 1 };

/* The mark of the key, or 0 in its place if it was not seen before. A set that is nearly full sees nothing new: NULL. */
static uint64_t *mark_of(struct weir__recording_replay *replay, uint64_t hash)
{
	for (uint64_t i = 0; i < replay->n_seen; i++) {
		uint64_t *const mark = &replay->seen[((hash | IS_FOLLOWED) + i) % replay->n_seen];

		if ((*mark | IS_FOLLOWED) == (hash | IS_FOLLOWED))
			return mark;
		if (*mark == 0)
			return replay->counts.keys < replay->n_seen / 4 * 3 ? mark : NULL;
	}
	return NULL;
}

static bool is_verdict(const struct weir_verdict *a, const struct weir_verdict *b)
{
	return a->allowed == b->allowed && a->never == b->never && a->limit == b->limit &&
	       a->remaining == b->remaining && a->granted == b->granted && a->retry_after == b->retry_after &&
	       a->reset_after == b->reset_after && a->delay == b->delay;
}

static bool read_recorded(struct weir__recording_replay *replay, const struct weir__recording_claim *claim)
{
	struct weir__key_state *const state = &replay->recorded;

	if (claim->state > WEIR__RECORDING_FOLDED ||
	    (claim->state == WEIR__RECORDING_EVENTS && claim->n_events > WEIR__KEY_EVENTS_MOST))
		return false;
	state->kind = (enum weir__key_state_kind)claim->state;
	state->slot = claim->slot;
	state->units = claim->units;
	state->full_at = claim->full_at;
	state->n = 0;
	if (claim->state == WEIR__RECORDING_EVENTS) {
		state->n = claim->n_events;
		weir__recording_events(claim, state->events);
	}
	return true;
}

/* Counts why the recorded state differs from the replay's, if another amount is left. */
static void note_difference(struct weir__recording_replay *replay, const struct weir_verdict *own,
			    const struct weir_verdict *recorded)
{
	if (is_verdict(own, recorded))
		return;
	if (replay->recorded.kind == WEIR__KEY_ABSENT)
		replay->counts.evicted++;
	else if (replay->recorded.kind == WEIR__KEY_FOLDED)
		replay->counts.folded++;
	else
		replay->counts.elsewhere++;
}

static void follow(uint64_t *mark)
{
	if (mark)
		*mark |= IS_FOLLOWED;
}

/* Sets the key to the recorded state. Returns false if that is not possible. */
static bool take_state(struct weir__recording_replay *replay, const struct weir_claim *claim,
		       const struct weir__recording_claim *recorded, weir_ns now)
{
	const uint64_t hash = weir__hash(&claim->limit->secret, claim->key, claim->key_length);
	uint64_t *const mark = mark_of(replay, hash);
	const bool is_followed = mark == NULL || *mark & IS_FOLLOWED;
	struct weir_verdict before, after;

	if (mark && *mark == 0) {
		replay->counts.keys++;
		*mark = hash & ~(uint64_t)IS_FOLLOWED;
	}
	if (recorded->state == WEIR__RECORDING_FOLLOWS)
		return is_followed;
	if (mark)
		*mark &= ~(uint64_t)IS_FOLLOWED;
	if (!read_recorded(replay, recorded))
		return false;
	weir__key_state_read(replay->table, claim->limit, hash, &replay->own);
	if (weir__key_state_is_same(&replay->own, &replay->recorded)) {
		follow(mark);
		return true;
	}
	before = weir_table_peek(replay->table, claim->limit, claim->key, claim->key_length, now, 0);
	if (!weir__key_state_write(replay->table, claim->limit, claim->key, claim->key_length, now, &replay->recorded))
		return false;
	follow(mark);
	after = weir_table_peek(replay->table, claim->limit, claim->key, claim->key_length, now, 0);
	if (is_followed)
		note_difference(replay, &before, &after);
	return true;
}

/* Returns false if a limit cannot be made here. */
static bool find_limits(struct weir__recording_replay *replay, const struct weir__recording_decision *decision)
{
	bool has_all = true;

	for (uint32_t i = 0; i < decision->n; i++) {
		const struct weir__recording_claim *const claim = &decision->claims[i];

		replay->claims[i] = (struct weir_claim){ .limit = replay->limits[claim->limit].limit,
							 .key = claim->key.at,
							 .key_length = claim->key.n,
							 .cost = claim->cost };
		has_all = has_all && replay->claims[i].limit;
	}
	return has_all;
}

/* Returns false if the state of a key is not known. */
static bool take_states(struct weir__recording_replay *replay, const struct weir__recording_decision *decision)
{
	bool is_known = true;

	for (uint32_t i = 0; i < decision->n; i++) {
		const enum weir__recording_state state = decision->claims[i].state;

		if (state != WEIR__RECORDING_REPEATED && state != WEIR__RECORDING_UNSAMPLED)
			is_known = take_state(replay, &replay->claims[i], &decision->claims[i], decision->at) &&
				   is_known;
	}
	return is_known;
}

/* --- decisions --------------------------------------------------------------------------------------------------- */

static enum weir__store_operation operation_of(enum weir__recording_operation operation)
{
	static const enum weir__store_operation operations[] = {
		[WEIR__RECORDING_TAKE] = WEIR__STORE_TAKE,       [WEIR__RECORDING_UPTO] = WEIR__STORE_UPTO,
		[WEIR__RECORDING_PEEK] = WEIR__STORE_PEEK,       [WEIR__RECORDING_REFUND] = WEIR__STORE_REFUND,
		[WEIR__RECORDING_UNDO] = WEIR__STORE_UNDO,       [WEIR__RECORDING_DEPART] = WEIR__STORE_DEPART,
		[WEIR__RECORDING_CANCEL] = WEIR__STORE_CANCEL,   [WEIR__RECORDING_RESET] = WEIR__STORE_RESET,
		[WEIR__RECORDING_INSPECT] = WEIR__STORE_INSPECT,
	};

	return operations[operation];
}

static bool can_be_together(const struct weir__recording_decision *decision)
{
	return decision->is_each || decision->n == 1 ||
	       (decision->n <= WEIR_TABLE_CLAIMS_MAX &&
		(decision->operation == WEIR__RECORDING_TAKE || decision->operation == WEIR__RECORDING_DEPART));
}

/* Decides again. Returns whether everything is as recorded. */
static bool decide(struct weir__recording_replay *replay, const struct weir__recording_decision *decision)
{
	struct weir__store_request request = { .operation = operation_of(decision->operation),
					       .is_each = decision->is_each,
					       .n = decision->n,
					       .claims = replay->claims,
					       .verdicts = replay->verdicts,
					       .now = decision->at,
					       .max_delay = decision->max_delay,
					       .charged_at = decision->charged_at,
					       .charged_cost = decision->charged_cost,
					       .charged_full_at = decision->charged_full_at };
	bool is_same = true;

	weir__table_store_decide(replay->table, &request);
	for (uint32_t i = 0; i < decision->n; i++)
		is_same = is_same && is_verdict(&replay->verdicts[i], &decision->claims[i].verdict);
	if (decision->n > 1 && !decision->is_each)
		is_same = is_same && request.decision.decided_by == decision->decided_by;
	return is_same;
}

static void follow_no_more(struct weir__recording_replay *replay, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct weir_claim *const claim = &replay->claims[i];
		uint64_t *const mark = claim->limit ? mark_of(replay, weir__hash(&claim->limit->secret, claim->key,
										 claim->key_length)) :
						      NULL;

		if (mark)
			*mark &= ~(uint64_t)IS_FOLLOWED;
	}
}

static void note_first(struct weir__recording_replay *replay, const struct weir__recording_decision *decision)
{
	struct weir__recording_counts *const counts = &replay->counts;
	const struct weir_limit limit = weir_table_limit_limit(replay->claims[0].limit);
	char text[WEIR_LIMIT_TEXT_MAX];

	if (counts->differences++ > 0)
		return;
	counts->different_at = decision->at;
	(void)weir_limit_print(&limit, text);
	(void)snprintf(counts->different_limit, sizeof(counts->different_limit), "%s",
		       replay->claims[0].limit->name[0] ? replay->claims[0].limit->name : text);
}

static void replay_decision(struct weir__recording_replay *replay, const struct weir__recording_decision *decision)
{
	struct weir__recording_counts *const counts = &replay->counts;
	uint64_t *const not_compared[WEIR__RECORDING_SOURCES] = { [WEIR__RECORDING_BY_STORE] = &counts->by_store,
								  [WEIR__RECORDING_BY_FALLBACK] = &counts->by_fallback,
								  [WEIR__RECORDING_BY_NONE] = &counts->by_none };
	const uint64_t n = decision->is_each ? decision->n : 1;

	counts->decisions += n;
	if (decision->source != WEIR__RECORDING_BY_TABLE) {
		*not_compared[decision->source] += n;
	} else if (!find_limits(replay, decision) || !can_be_together(decision)) {
		counts->unusable += n;
		follow_no_more(replay, decision->n);
	} else if (!take_states(replay, decision)) {
		counts->unknown += n;
		follow_no_more(replay, decision->n);
	} else if (decision->is_partial) {
		counts->partial += n;
		follow_no_more(replay, decision->n);
	} else {
		const bool is_same = decide(replay, decision);

		counts->compared += n;
		if (decision->is_changing)
			follow_no_more(replay, decision->n);
		if (!is_same && decision->is_changing)
			counts->raced++;
		else if (!is_same)
			note_first(replay, decision);
	}
}

static void note_instant(struct weir__recording_counts *counts, weir_ns at)
{
	if (counts->begins == 0 || at < counts->begins)
		counts->begins = at;
	if (at > counts->ends)
		counts->ends = at;
}

void weir__recording_replay_frame(struct weir__recording_replay *replay, const struct weir__recording_frame *frame)
{
	struct weir__recording_counts *const counts = &replay->counts;

	switch (frame->type) {
	case WEIR__RECORDING_BEGIN:
		counts->is_plain = frame->begin.is_plain;
		counts->sample = frame->begin.sample;
		note_instant(counts, frame->begin.at);
		break;
	case WEIR__RECORDING_POLICY:
		counts->policies++;
		break;
	case WEIR__RECORDING_LIMIT:
		know_limit(replay, &frame->limit);
		break;
	case WEIR__RECORDING_DECISION:
		note_instant(counts, frame->decision.at);
		replay_decision(replay, &frame->decision);
		break;
	case WEIR__RECORDING_UNMATCHED:
		note_instant(counts, frame->decision.at);
		counts->unmatched++;
		break;
	case WEIR__RECORDING_GAP:
		counts->gaps++;
		counts->lost += frame->gap.lost;
		break;
	case WEIR__RECORDING_END:
		note_instant(counts, frame->end.at);
		counts->is_ended = true;
		break;
	}
}

const struct weir__recording_counts *weir__recording_replay_counts(struct weir__recording_replay *replay)
{
	struct weir_table_stats stats;

	weir_table_stats(replay->table, replay->counts.ends, &stats);
	replay->counts.own_evicted = stats.evicted + stats.folded;
	return &replay->counts;
}
