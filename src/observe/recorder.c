/* recorder.c: a ring of frames. Decisions write it, one after the other, and one client at a time reads it. */
#include "observe/recorder.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/memory.h"
#include "policy/address.h"
#include "store/table/key_state.h"
#include "wire/recording.h"

enum {
	CLAIMS = WEIR__RECORDING_CLAIMS_MAX,
	SEEN = 1 << 16,  /* keys with histories whose events need not be written again */
	PSEUDONYM = 16,  /* bytes of a hashed key */
	VALUE_TEXT = 48, /* bytes of a hashed attribute */
	FRAME_MOST = 1 << 20,
	CHANGES_MOST = 64,      /* of a limit that are written besides the newest */
	LATE_POLICIES = 100000, /* decisions for which a policy change may wait for its text */
};

/* What the client knows by an id. */
struct known_limit {
	uint64_t identity; /* 0: none */
	uint64_t number;   /* of its changes */
};

/* The memory of a recording, while one runs. */
struct recording {
	struct weir__recorder_request request;
	char kept[WEIR__RECORDER_KEPT_MAX][64];
	struct weir__hash_secret secrets[2];
	/* Before a decision: which claims are sampled, the hashes of their keys in the table, and their states. */
	bool is_sampled[CLAIMS];
	uint64_t hashes[CLAIMS], numbers[CLAIMS];
	bool is_seen[CLAIMS];
	struct weir__key_state states[CLAIMS];
	/* Of the frame that is being made. */
	struct weir__recording_frame frame;
	char pseudonyms[CLAIMS][PSEUDONYM];
	char values[WEIR__RECORDING_ATTRIBUTES_MAX][VALUE_TEXT];
	unsigned char bytes[FRAME_MOST];

	struct known_limit limits[WEIR__RECORDING_LIMITS_MAX];
	uint64_t seen[SEEN];
	uint64_t policy, changes; /* the identity of the last policy that was written; weir_guard_changes then */
	uint32_t policy_waits;
	uint64_t decisions, lost, lost_in_gap;
	weir_ns gap_from, gap_until;
	unsigned char ring[WEIR__RECORDER_RING];
};

struct weir__recorder {
	struct weir__recorder_switch is_recording; /* first */
	struct weir__recorder_options options;
	pthread_mutex_t deciding; /* held for a decision and its frame; protects everything but `tail` */
	pthread_mutex_t reading;  /* held by the client's side; locked before `deciding` */
	struct recording *recording;
	uint64_t number;
	bool is_ended;
	_Atomic uint64_t head, tail; /* bytes written to the ring, and read from it */
	_Atomic uint64_t read_at;    /* when the client last read */
};

struct weir__recorder *weir__recorder_new(const struct weir__recorder_options *options)
{
	struct weir__recorder *const recorder = calloc(1, sizeof(*recorder));

	if (recorder == NULL)
		return NULL;
	recorder->options = *options;
	(void)pthread_mutex_init(&recorder->deciding, NULL);
	(void)pthread_mutex_init(&recorder->reading, NULL);
	return recorder;
}

/* The secret is overwritten, so that the memory of the process does not keep it. */
static void forget(struct weir__recorder *recorder)
{
	if (recorder->recording)
		explicit_bzero(recorder->recording->secrets, sizeof(recorder->recording->secrets));
	free(recorder->recording);
	recorder->recording = NULL;
	atomic_store(&recorder->is_recording.is_on, false);
}

void weir__recorder_free(struct weir__recorder *recorder)
{
	if (recorder == NULL)
		return;
	forget(recorder);
	(void)pthread_mutex_destroy(&recorder->deciding);
	(void)pthread_mutex_destroy(&recorder->reading);
	free(recorder);
}

/* --- the ring ---------------------------------------------------------------------------------------------------- */

static void copy_in(struct recording *recording, uint64_t at, const unsigned char *bytes, size_t n)
{
	const size_t place = (size_t)(at % WEIR__RECORDER_RING);
	const size_t first = (size_t)weir__min(n, WEIR__RECORDER_RING - place);

	memcpy(recording->ring + place, bytes, first);
	memcpy(recording->ring, bytes + first, n - first);
}

static bool append(struct weir__recorder *recorder, const struct weir__recording_frame *frame)
{
	struct recording *const recording = recorder->recording;
	const uint64_t head = atomic_load_explicit(&recorder->head, memory_order_relaxed);
	const size_t room = (size_t)(WEIR__RECORDER_RING -
				     (head - atomic_load_explicit(&recorder->tail, memory_order_acquire)));
	const size_t n = weir__recording_write(frame, recording->bytes, sizeof(recording->bytes));

	if (n == 0 || n > room)
		return false;
	copy_in(recording, head, recording->bytes, n);
	atomic_store_explicit(&recorder->head, head + n, memory_order_release);
	return true;
}

/* After a gap, limits and events that were not written must be written again. */
static bool close_gap(struct weir__recorder *recorder)
{
	struct recording *const recording = recorder->recording;
	struct weir__recording_frame gap = { .type = WEIR__RECORDING_GAP,
					     .gap = { recording->lost_in_gap, recording->gap_from,
						      recording->gap_until } };

	if (recording->lost_in_gap == 0)
		return true;
	if (!append(recorder, &gap))
		return false;
	memset(recording->seen, 0, sizeof(recording->seen));
	recording->lost_in_gap = 0;
	return true;
}

static void lose(struct recording *recording, weir_ns now)
{
	if (recording->lost_in_gap++ == 0)
		recording->gap_from = now;
	recording->gap_until = now;
	recording->lost++;
}

/* --- policies and limits ----------------------------------------------------------------------------------------- */

struct telling {
	struct weir__recorder *recorder;
	weir_ns now;
	bool is_done;
};

static void write_policy(void *telling_, const struct weir__recorder_policy *policy)
{
	struct telling *const telling = telling_;
	struct recording *const recording = telling->recorder->recording;
	struct weir__recording_frame frame = { .type = WEIR__RECORDING_POLICY };
	const char *const text = policy->hidden ? policy->hidden : policy->text;

	if (policy->identity == recording->policy)
		return;
	frame.policy = (struct weir__recording_policy){ .at = telling->now,
							.identity = policy->identity,
							.is_hidden = policy->hidden != NULL,
							.text = { text, policy->hidden ? strlen(text) : policy->n } };
	telling->is_done = append(telling->recorder, &frame);
	if (telling->is_done)
		recording->policy = policy->identity;
}

/* Writes the policy if it has changed. Its text may come a little later than its limits, and a policy
 * that only looks different has no other text. So a change is looked at for some decisions. */
static void note_policy(struct weir__recorder *recorder, weir_ns now)
{
	struct recording *const recording = recorder->recording;
	struct telling telling = { recorder, now, false };
	uint64_t changes;

	if (recorder->options.guard == NULL)
		return;
	changes = weir_guard_changes(recorder->options.guard);
	if (changes != recording->changes) {
		recording->changes = changes;
		recording->policy_waits = LATE_POLICIES;
	}
	if (recording->policy_waits == 0)
		return;
	recording->policy_waits--;
	recorder->options.policy(recorder->options.source, write_policy, &telling);
	if (telling.is_done)
		recording->policy_waits = 0;
}

static bool is_inline(const struct weir_table_limit *limit)
{
	return limit->name[0] == '\0';
}

/* Not 0. Inline limits with the same plan for the same keys are the same. */
static uint64_t identity_of(const struct recording *recording, const struct weir_table_limit *limit)
{
	const struct weir_plan *const plan = &limit->first.plan;
	const uint64_t words[] = { limit->secret.k0, limit->secret.k1, (uint64_t)plan->kind << 32 | plan->flags,
				   plan->count,      plan->period,     plan->most,
				   plan->room };

	return is_inline(limit) ? weir__hash(&recording->secrets[0], words, sizeof(words)) | 1 :
				  (uint64_t)limit->index << 1 | UINT64_C(1) << 63;
}

/* Writes what the limit was after this many changes. */
static bool write_limit(struct weir__recorder *recorder, const struct weir_table_limit *limit, uint32_t id,
			uint64_t number, const struct weir__plans_limit *then)
{
	struct recording *const recording = recorder->recording;
	struct weir__recording_frame frame = { .type = WEIR__RECORDING_LIMIT };
	struct weir__recording_limit *const written = &frame.limit;
	char text[WEIR_LIMIT_TEXT_MAX];

	*written = (struct weir__recording_limit){
		.id = id, .is_inline = is_inline(limit), .number = number, .changed_at = then->changed_at
	};
	if (is_inline(limit)) {
		written->is_shared = limit->first.plan.flags & WEIR_PLAN_RESERVED;
		written->space = weir__hash(&recording->secrets[0], &limit->secret, sizeof(limit->secret));
	}
	written->name = (struct weir__recording_text){ limit->name, strlen(limit->name) };
	written->text = (struct weir__recording_text){ text, weir_limit_print(&then->limit, text) };
	return append(recorder, &frame);
}

/* Writes each change from `first` to *number, since each may cut what keys have used. A change that is not kept any more is left
 * out. If that is the last one, the newest takes its place, and *number becomes the newest. */
static bool write_changes(struct weir__recorder *recorder, const struct weir_table_limit *limit, uint32_t id,
			  uint64_t first, uint64_t *number)
{
	const struct weir__region *const region = &recorder->options.table->region;
	struct weir__plans_limit then = { .limit = limit->added };

	if (is_inline(limit))
		return write_limit(recorder, limit, id, 0, &then);
	for (uint64_t i = first; i < *number; i++)
		if (weir__plans_read(region, limit->entry, i, &then) && !write_limit(recorder, limit, id, i, &then))
			return false;
	if (!weir__plans_read(region, limit->entry, *number, &then))
		(void)weir__plans_read_last(region, limit->entry, number, &then);
	return write_limit(recorder, limit, id, *number, &then);
}

static bool is_used(const struct weir__recording_decision *decision, uint32_t n, uint32_t id)
{
	bool is = false;

	for (uint32_t i = 0; i < n; i++)
		is = is || decision->claims[i].limit == id;
	return is;
}

/* The limit's id, or one that it may take over from another limit. Never from one that the first n claims of the
 * decision refer to: the client reads the frames of limits before the frame of the decision. */
static uint32_t id_of(const struct recording *recording, uint64_t identity, uint32_t n)
{
	const uint32_t first = (uint32_t)((identity * UINT64_C(0x9e3779b97f4a7c15)) >> 32);
	uint32_t chosen = WEIR__RECORDING_LIMITS_MAX;

	for (uint32_t i = 0; i <= n; i++) {
		const uint32_t id = (first + i) % WEIR__RECORDING_LIMITS_MAX;

		if (recording->limits[id].identity == identity)
			return id;
		if (chosen == WEIR__RECORDING_LIMITS_MAX && !is_used(&recording->frame.decision, n, id))
			chosen = id;
	}
	return chosen;
}

/* Writes what the limit of the decision's claim n was after this many changes, unless the client knows. */
static bool know_limit(struct weir__recorder *recorder, const struct weir_table_limit *limit, uint64_t number,
		       uint32_t n, uint32_t *ret_id)
{
	struct recording *const recording = recorder->recording;
	const uint64_t identity = identity_of(recording, limit);
	const uint32_t id = id_of(recording, identity, n);
	struct known_limit *const known = &recording->limits[id];
	const bool is_known = known->identity == identity;
	uint64_t first = is_known ? known->number + 1 : number;

	*ret_id = id;
	if (is_known && known->number >= number)
		return true;
	if (number - first > CHANGES_MOST)
		first = number - CHANGES_MOST;
	known->identity = 0;
	if (!write_changes(recorder, limit, id, first, &number))
		return false;
	known->identity = identity;
	known->number = number;
	return true;
}

/* --- keys and attributes ----------------------------------------------------------------------------------------- */

static struct weir__recording_text key_text(struct recording *recording, const struct weir_claim *claim, uint32_t i)
{
	if (recording->request.is_plain)
		return (struct weir__recording_text){ claim->key, claim->key_length };
	for (size_t half = 0; half < 2; half++) {
		const uint64_t hash = weir__hash(&recording->secrets[half], claim->key, claim->key_length);

		memcpy(recording->pseudonyms[i] + 8 * half, &hash, sizeof(hash));
	}
	return (struct weir__recording_text){ recording->pseudonyms[i], PSEUDONYM };
}

static bool is_named(const struct weir_attribute *attribute, const char *name)
{
	return attribute->name_length == strlen(name) && memcmp(attribute->name, name, attribute->name_length) == 0;
}

static bool has_query(const struct weir_attribute *attribute)
{
	static const char *const names[] = { "path", "uri", "url", "referer", "referrer" };
	bool has = false;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		has = has || is_named(attribute, names[i]);
	return has;
}

static bool is_kept(const struct recording *recording, const struct weir_attribute *attribute)
{
	bool is = recording->request.is_plain || is_named(attribute, "method") || is_named(attribute, "path");

	for (size_t i = 0; i < recording->request.n_kept; i++)
		is = is || is_named(attribute, recording->kept[i]);
	return is;
}

/* An address stays an address, so that a policy can read it: one of fd00::/8, which no network on the internet has.
 * IPv6 addresses of one /64, which policies count together, stay in one. */
static struct weir__recording_text hashed_value(const struct recording *recording,
						const struct weir_attribute *attribute, char text[VALUE_TEXT])
{
	const uint64_t first = weir__hash(&recording->secrets[0], attribute->value, attribute->value_length);
	const uint64_t last = weir__hash(&recording->secrets[1], attribute->value, attribute->value_length);
	struct weir__address address;

	if (weir__address_read((struct weir__slice){ attribute->value, attribute->value_length }, &address)) {
		const uint64_t network = address.is_v6 ? weir__hash(&recording->secrets[0], address.bytes, 8) : first;

		memcpy(address.bytes, &network, 8);
		memcpy(address.bytes + 8, &last, 8);
		address.bytes[0] = 0xfd;
		address.is_v6 = true;
		weir__address_write(&address, text);
	} else {
		(void)snprintf(text, VALUE_TEXT, "%016llx%016llx", (unsigned long long)first, (unsigned long long)last);
	}
	return (struct weir__recording_text){ text, strlen(text) };
}

static void set_attributes(struct recording *recording, struct weir__recorder_attributes attributes,
			   struct weir__recording_decision *decision)
{
	decision->is_shadow = attributes.is_shadow;
	decision->cost = attributes.n > 0 ? attributes.cost : 0;
	decision->n_attributes = (uint32_t)weir__min(attributes.n, WEIR__RECORDING_ATTRIBUTES_MAX);
	for (uint32_t i = 0; i < decision->n_attributes; i++) {
		const struct weir_attribute *const from = &attributes.at[i];
		struct weir__recording_attribute *const to = &decision->attributes[i];
		const char *const query = has_query(from) && from->value_length > 0 ?
						  memchr(from->value, '?', from->value_length) :
						  NULL;

		to->name = (struct weir__recording_text){ from->name, from->name_length };
		to->value = is_kept(recording, from) ?
				    (struct weir__recording_text){ from->value, query ? (size_t)(query - from->value) :
											from->value_length } :
				    hashed_value(recording, from, recording->values[i]);
	}
}

static bool is_sampled(const struct recording *recording, const struct weir_claim *claim)
{
	return recording->request.sample <= 1 ||
	       weir__hash(&recording->secrets[0], claim->key, claim->key_length) % recording->request.sample == 0;
}

/* --- decisions --------------------------------------------------------------------------------------------------- */

/* Returns false if no key of the request is sampled. */
static bool sample(struct recording *recording, const struct weir__store_request *request)
{
	bool is_any = false;

	for (uint32_t i = 0; i < request->n && i < CLAIMS; i++) {
		recording->is_sampled[i] = is_sampled(recording, &request->claims[i]);
		is_any = is_any || recording->is_sampled[i];
	}
	return is_any || request->n > CLAIMS;
}

static bool is_repeated(const struct recording *recording, const struct weir__store_request *request, uint32_t i)
{
	bool is = false;

	for (uint32_t before = 0; before < i; before++)
		is = is || (recording->hashes[before] == recording->hashes[i] &&
			    request->claims[before].limit->group_mark == request->claims[i].limit->group_mark);
	return is;
}

static void read_states(struct weir__recorder *recorder, const struct weir__store_request *request)
{
	struct recording *const recording = recorder->recording;

	for (uint32_t i = 0; i < request->n; i++) {
		const struct weir_claim *const claim = &request->claims[i];

		recording->numbers[i] = weir__plans_number(claim->limit->entry);
		if (!recording->is_sampled[i])
			continue;
		recording->hashes[i] = weir__hash(&claim->limit->secret, claim->key, claim->key_length);
		weir__key_state_read(recorder->options.table, claim->limit, recording->hashes[i],
				     &recording->states[i]);
	}
}

static void set_state(struct recording *recording, const struct weir__store_request *request, uint32_t i,
		      struct weir__recording_claim *claim)
{
	const struct weir__key_state *const state = &recording->states[i];
	uint64_t *const seen = &recording->seen[recording->hashes[i] % SEEN];

	if (!recording->is_sampled[i]) {
		claim->state = WEIR__RECORDING_UNSAMPLED;
		return;
	}
	if (is_repeated(recording, request, i)) {
		claim->state = WEIR__RECORDING_REPEATED;
		return;
	}
	claim->state = (enum weir__recording_state)state->kind;
	claim->slot = state->slot;
	claim->units = state->units;
	claim->full_at = state->full_at;
	claim->n_events = state->n;
	claim->events = state->events;
	if (state->kind == WEIR__KEY_EVENTS && *seen == recording->hashes[i])
		claim->state = WEIR__RECORDING_FOLLOWS;
	/* An absent key is known, too: its history begins with this decision. */
	if (recording->frame.decision.is_partial || state->kind == WEIR__KEY_UNKNOWN)
		*seen = 0;
	else if (state->kind == WEIR__KEY_EVENTS || state->kind == WEIR__KEY_ABSENT)
		*seen = recording->hashes[i];
}

/* A replay does not make the decision again, or cannot know whether it was made by the limit before a change or by
 * the one after it. So the next decision on its keys has their histories. */
static void forget_histories(struct recording *recording, const struct weir__store_request *request)
{
	for (uint32_t i = 0; i < request->n; i++) {
		const struct weir_claim *const claim = &request->claims[i];

		if (recording->is_sampled[i])
			recording->seen[weir__hash(&claim->limit->secret, claim->key, claim->key_length) % SEEN] = 0;
	}
}

static enum weir__recording_source source_of(const struct weir__store_request *request, bool is_in_table)
{
	if (request->outcome != WEIR__STORE_DECIDED)
		return WEIR__RECORDING_BY_NONE;
	if (weir__store_fallback_nodes(request) > 0)
		return WEIR__RECORDING_BY_FALLBACK;
	return is_in_table || request->fallback_nodes == WEIR__STORE_IN_TABLE ? WEIR__RECORDING_BY_TABLE :
										WEIR__RECORDING_BY_STORE;
}

static enum weir__recording_operation operation_of(enum weir__store_operation operation)
{
	static const enum weir__recording_operation operations[] = {
		[WEIR__STORE_TAKE] = WEIR__RECORDING_TAKE,       [WEIR__STORE_UPTO] = WEIR__RECORDING_UPTO,
		[WEIR__STORE_PEEK] = WEIR__RECORDING_PEEK,       [WEIR__STORE_REFUND] = WEIR__RECORDING_REFUND,
		[WEIR__STORE_UNDO] = WEIR__RECORDING_UNDO,       [WEIR__STORE_DEPART] = WEIR__RECORDING_DEPART,
		[WEIR__STORE_CANCEL] = WEIR__RECORDING_CANCEL,   [WEIR__STORE_RESET] = WEIR__RECORDING_RESET,
		[WEIR__STORE_INSPECT] = WEIR__RECORDING_INSPECT,
	};

	return operations[operation];
}

static void set_request(const struct weir__store_request *request, enum weir__recording_source source,
			struct weir__recording_decision *decision)
{
	*decision = (struct weir__recording_decision){
		.operation = operation_of(request->operation),
		.source = source,
		.is_each = request->is_each,
		.is_uncertain = source == WEIR__RECORDING_BY_FALLBACK && request->is_uncertain,
		.is_closed = request->is_closed,
		.at = source == WEIR__RECORDING_BY_TABLE ? request->now : request->decided_at,
		.n = request->n
	};
	if (request->operation == WEIR__STORE_DEPART)
		decision->max_delay = request->max_delay;
	if (weir__store_gives_back(request->operation)) {
		decision->charged_at = request->charged_at;
		decision->charged_cost = request->charged_cost;
		decision->charged_full_at = request->operation == WEIR__STORE_CANCEL ? request->charged_full_at : 0;
	}
	if (!request->is_each && request->n > 1 && source != WEIR__RECORDING_BY_NONE &&
	    request->decision.decided_by < request->n)
		decision->decided_by = (uint32_t)request->decision.decided_by;
}

static bool set_claims(struct weir__recorder *recorder, const struct weir__store_request *request, bool has_states)
{
	struct recording *const recording = recorder->recording;
	struct weir__recording_decision *const decision = &recording->frame.decision;
	bool is_replayed = decision->source == WEIR__RECORDING_BY_TABLE;

	decision->n = 0;
	for (uint32_t i = 0; i < request->n; i++)
		decision->is_partial = decision->is_partial || (!request->is_each && !recording->is_sampled[i]);
	for (uint32_t i = 0; i < request->n; i++) {
		const struct weir_claim *const claim = &request->claims[i];
		const uint64_t number = weir__plans_number(claim->limit->entry);
		struct weir__recording_claim *to;

		if (request->is_each && !recording->is_sampled[i])
			continue;
		to = &decision->claims[decision->n++];

		if (!know_limit(recorder, claim->limit, has_states ? recording->numbers[i] : number, decision->n - 1,
				&to->limit))
			return false;
		decision->is_changing = decision->is_changing || (has_states && number != recording->numbers[i]);
		to->cost = claim->cost;
		to->key = key_text(recording, claim, i);
		to->verdict = request->verdicts[i];
		if (has_states)
			set_state(recording, request, i, to);
		else
			to->state = recording->is_sampled[i] ? WEIR__RECORDING_UNKNOWN : WEIR__RECORDING_UNSAMPLED;
		is_replayed = is_replayed && to->state != WEIR__RECORDING_UNKNOWN;
	}
	if (decision->is_changing || !is_replayed)
		forget_histories(recording, request);
	return true;
}

static void record(struct weir__recorder *recorder, const struct weir__store_request *request,
		   enum weir__recording_source source, struct weir__recorder_attributes attributes, bool has_states)
{
	struct recording *const recording = recorder->recording;

	note_policy(recorder, request->now);
	recording->frame.type = WEIR__RECORDING_DECISION;
	if (request->n == 0 || request->n > CLAIMS || !close_gap(recorder)) {
		lose(recording, request->now);
		return;
	}
	set_request(request, source, &recording->frame.decision);
	set_attributes(recording, attributes, &recording->frame.decision);
	if (set_claims(recorder, request, has_states) && append(recorder, &recording->frame))
		recording->decisions += request->is_each ? recording->frame.decision.n : 1;
	else
		lose(recording, request->now);
}

/* Call it with `deciding` locked. A client that does not read any more has left. */
static bool is_on(struct weir__recorder *recorder, weir_ns now)
{
	const weir_ns read_at = atomic_load_explicit(&recorder->read_at, memory_order_relaxed);

	if (recorder->recording == NULL || recorder->is_ended)
		return false;
	if (now <= read_at || now - read_at <= WEIR__RECORDER_PATIENCE)
		return true;
	atomic_store(&recorder->is_recording.is_on, false);
	recorder->is_ended = true;
	if (pthread_mutex_trylock(&recorder->reading) == 0) { /* else a client is reading it at last */
		forget(recorder);
		(void)pthread_mutex_unlock(&recorder->reading);
	}
	return false;
}

bool weir__recorder_submit(struct weir__recorder *recorder, struct weir__store *store,
			   struct weir__store_request *request, struct weir__recorder_attributes attributes)
{
	const bool is_in_table = store->table != NULL;
	bool is_done;

	(void)pthread_mutex_lock(&recorder->deciding);
	if (!is_on(recorder, request->now) || !sample(recorder->recording, request)) {
		(void)pthread_mutex_unlock(&recorder->deciding);
		return weir__store_submit(store, request);
	}
	if (request->n <= CLAIMS)
		read_states(recorder, request);
	is_done = weir__store_submit(store, request);
	if (is_done && request->outcome != WEIR__STORE_STALE)
		record(recorder, request, source_of(request, is_in_table), attributes, true);
	(void)pthread_mutex_unlock(&recorder->deciding);
	return is_done;
}

void weir__recorder_completed(struct weir__recorder *recorder, const struct weir__store_request *request)
{
	(void)pthread_mutex_lock(&recorder->deciding);
	if (is_on(recorder, request->now) && sample(recorder->recording, request))
		record(recorder, request, source_of(request, false), (struct weir__recorder_attributes){ .n = 0 },
		       false);
	(void)pthread_mutex_unlock(&recorder->deciding);
}

void weir__recorder_unmatched(struct weir__recorder *recorder, struct weir__recorder_attributes attributes,
			      bool is_denied, weir_ns now)
{
	struct recording *recording;

	(void)pthread_mutex_lock(&recorder->deciding);
	recording = recorder->recording;
	if (is_on(recorder, now)) {
		recording->frame.type = WEIR__RECORDING_UNMATCHED;
		recording->frame.decision = (struct weir__recording_decision){ .at = now, .is_denied = is_denied };
		set_attributes(recording, attributes, &recording->frame.decision);
		if (close_gap(recorder) && append(recorder, &recording->frame))
			recording->decisions++;
		else
			lose(recording, now);
	}
	(void)pthread_mutex_unlock(&recorder->deciding);
}

/* --- the client's side ------------------------------------------------------------------------------------------- */

static bool keep_names(struct recording *recording)
{
	for (size_t i = 0; i < recording->request.n_kept; i++) {
		const struct weir__recorder_name *const name = &recording->request.kept[i];

		if (name->n >= sizeof(recording->kept[i]))
			return false;
		memcpy(recording->kept[i], name->at, name->n);
		recording->kept[i][name->n] = '\0';
	}
	return true;
}

static struct recording *new_recording(const struct weir__recorder_request *request)
{
	struct recording *const recording = calloc(1, sizeof(*recording));

	if (recording == NULL)
		return NULL;
	recording->request = *request;
	if (!keep_names(recording) || weir__memory_random(recording->secrets, sizeof(recording->secrets)) != 0) {
		free(recording);
		return NULL;
	}
	recording->policy_waits = 1;
	recording->changes = UINT64_MAX;
	return recording;
}

static void write_begin(struct weir__recorder *recorder, weir_ns now)
{
	const struct weir__recorder_request *const request = &recorder->recording->request;
	const struct weir__recording_frame begin = { .type = WEIR__RECORDING_BEGIN,
						     .begin = { .at = now,
								.sample = request->sample,
								.is_plain = request->is_plain,
								.version = { WEIR_VERSION, strlen(WEIR_VERSION) } } };

	(void)append(recorder, &begin); /* the ring is empty */
	note_policy(recorder, now);
}

enum weir__recorder_result weir__recorder_begin(struct weir__recorder *recorder,
						const struct weir__recorder_request *request, weir_ns now,
						uint64_t *ret_number)
{
	struct recording *const recording = new_recording(request);
	enum weir__recorder_result result = WEIR__RECORDER_NO_ROOM;

	if (recording == NULL)
		return result;
	(void)pthread_mutex_lock(&recorder->reading);
	(void)pthread_mutex_lock(&recorder->deciding);
	if (is_on(recorder, now)) {
		result = WEIR__RECORDER_BUSY;
		free(recording);
	} else {
		forget(recorder);
		recorder->recording = recording;
		recorder->number++;
		recorder->is_ended = false;
		atomic_store(&recorder->head, 0);
		atomic_store(&recorder->tail, 0);
		atomic_store(&recorder->read_at, now);
		write_begin(recorder, now);
		atomic_store(&recorder->is_recording.is_on, true);
		*ret_number = recorder->number;
		result = WEIR__RECORDER_OK;
	}
	(void)pthread_mutex_unlock(&recorder->deciding);
	(void)pthread_mutex_unlock(&recorder->reading);
	return result;
}

/* Call it with `reading` locked, so that the recording is not freed. Decisions go on. */
static size_t copy_out(struct weir__recorder *recorder, unsigned char *bytes, size_t size)
{
	const uint64_t tail = atomic_load_explicit(&recorder->tail, memory_order_relaxed);
	const uint64_t head = atomic_load_explicit(&recorder->head, memory_order_acquire);
	const size_t n = (size_t)weir__min(size, head - tail), place = (size_t)(tail % WEIR__RECORDER_RING);
	const size_t first = (size_t)weir__min(n, WEIR__RECORDER_RING - place);

	memcpy(bytes, recorder->recording->ring + place, first);
	memcpy(bytes + first, recorder->recording->ring, n - first);
	atomic_store_explicit(&recorder->tail, tail + n, memory_order_release);
	return n;
}

enum weir__recorder_result weir__recorder_read(struct weir__recorder *recorder, uint64_t number, void *bytes,
					       size_t size, weir_ns now, size_t *ret_n, bool *ret_is_over)
{
	enum weir__recorder_result result = WEIR__RECORDER_NONE;

	(void)pthread_mutex_lock(&recorder->reading);
	if (recorder->recording && recorder->number == number) {
		bool is_ended;

		(void)pthread_mutex_lock(&recorder->deciding);
		is_ended = recorder->is_ended;
		(void)pthread_mutex_unlock(&recorder->deciding);
		atomic_store_explicit(&recorder->read_at, now, memory_order_relaxed);
		*ret_n = copy_out(recorder, bytes, size);
		*ret_is_over = is_ended && *ret_n == 0;
		result = WEIR__RECORDER_OK;
		if (*ret_is_over) {
			(void)pthread_mutex_lock(&recorder->deciding);
			forget(recorder);
			(void)pthread_mutex_unlock(&recorder->deciding);
		}
	}
	(void)pthread_mutex_unlock(&recorder->reading);
	return result;
}

enum weir__recorder_result weir__recorder_end(struct weir__recorder *recorder, uint64_t number, weir_ns now)
{
	enum weir__recorder_result result = WEIR__RECORDER_NONE;

	(void)pthread_mutex_lock(&recorder->deciding);
	if (recorder->recording && recorder->number == number) {
		struct recording *const recording = recorder->recording;
		const struct weir__recording_frame end = { .type = WEIR__RECORDING_END,
							   .end = { now, recording->decisions, recording->lost } };

		if (!recorder->is_ended && close_gap(recorder))
			(void)append(recorder, &end);
		recorder->is_ended = true;
		atomic_store(&recorder->is_recording.is_on, false);
		result = WEIR__RECORDER_OK;
	}
	(void)pthread_mutex_unlock(&recorder->deciding);
	return result;
}
