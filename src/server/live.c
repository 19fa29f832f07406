/* live.c: writes the live document, part by part. */
#include "server/live.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/decimal.h"
#include "core/hex.h"
#include "engine/limit_ref.h"
#include "engine/limit_row.h"
#include "guard/guard.h"
#include "observe/counters.h"
#include "observe/key_count.h"
#include "observe/limit_stats.h"
#include "server/policy_loader.h"
#include "server/settings.h"

enum { TAIL_MOST = 4096 /* bytes of all that follows the limits */ };

static const uint64_t second_ns = 1000000000;

/* The name of all inline limits together. No limit of a policy has brackets in its name. */
static const char inline_name[] = "(inline)";

/* --- query options ----------------------------------------------------------------------------------------------- */

void weir__live_query_init(struct weir__live_query *query)
{
	*query = (struct weir__live_query){ .seconds = WEIR__LIVE_SECONDS_MAX, .keys = UINT64_MAX };
}

static bool read_number(const char *text, size_t length, uint64_t least, uint64_t most, uint64_t *ret_number)
{
	return weir__decimal_read(text, length, most, ret_number) && *ret_number >= least;
}

static bool is(const char *bytes, size_t length, const char *word)
{
	return length == strlen(word) && memcmp(bytes, word, length) == 0;
}

const char *weir__live_query_set(struct weir__live_query *query, const char *name, size_t name_length,
				 const char *value, size_t length)
{
	if (is(name, name_length, "seconds"))
		return read_number(value, length, 1, WEIR__LIVE_SECONDS_MAX, &query->seconds) ?
			       NULL :
			       "seconds: use a whole number, 1 to 120";
	if (is(name, name_length, "keys"))
		return read_number(value, length, 0, WEIR__LIVE_KEYS_MAX, &query->keys) ?
			       NULL :
			       "keys: use a whole number, 0 to 64";
	if (is(name, name_length, "limit")) {
		query->limit = value;
		query->limit_length = length;
		return NULL;
	}
	if (is(name, name_length, "filter")) {
		query->filter = value;
		query->filter_length = length;
		return NULL;
	}
	return "unknown option; use seconds, keys, limit or filter";
}

/* --- which limits ------------------------------------------------------------------------------------------------ */

enum { INLINE_PLAN = UINT32_MAX };

struct candidate {
	uint32_t plan; /* its number in the policy, or INLINE_PLAN */
	const struct weir_table_limit *limit;
	uint64_t rank; /* decisions of the last seconds, plus 1; 0: no worker has seen it */
};

/* A document that is being written. */
struct live {
	struct weir__context *context;
	struct weir__http_reply *reply;
	const struct weir__live_query *query;
	weir_ns now;
	uint32_t last;     /* the last full second */
	uint32_t n, found; /* candidates; limits that match the query */
	uint32_t at, told; /* candidates that were reached; limits that were written */
	uint32_t keys;
	struct candidate candidates[WEIR__LIVE_LIMITS_MAX];
	uint32_t plans[WEIR__LIVE_LIMITS_MAX]; /* of the candidates, without INLINE_PLAN */
	struct weir__top_key top_keys[WEIR__LIVE_KEYS_MAX];
	struct weir__limit_stats_sum series[WEIR__LIVE_SECONDS_MAX];
};

static uint64_t rank(const struct live *live, const struct weir_table_limit *limit)
{
	struct weir__limit_stats_sum seen;

	if (live->context->stats_set == NULL || !weir__limit_stats_set_has(live->context->stats_set, limit))
		return 0;
	(void)weir__limit_stats_set_limit(live->context->stats_set, limit, live->last, WEIR__LIMIT_STATS_FILL_SECONDS,
					  &seen);
	return seen.decided + 1;
}

/* Whether a name contains this, ignoring case. */
static bool has(const char *name, const char *part, size_t length)
{
	const size_t n = strlen(name);

	for (size_t at = 0; at + length <= n; at++)
		if (strncasecmp(name + at, part, length) == 0)
			return true;
	return false;
}

/* After a change that could not carry its keys over, a limit has a ~ and 16 digits before its name in the table
 * (bound_policy.c). */
static bool passes(const struct live *live, uint32_t plan, const struct weir_table_limit *limit)
{
	const char *const name = plan == INLINE_PLAN ? inline_name : weir_table_limit_name(limit);
	const size_t anew = name[0] == '~' && strlen(name) > 17 ? 17 : 0;

	return has(name + anew, live->query->filter, live->query->filter_length);
}

/* Inserts behind candidates of the same rank, so that equally busy limits keep the order of the file. */
static void add_candidate(void *live_, uint32_t plan, const struct weir_table_limit *limit)
{
	struct live *const live = live_;
	struct candidate candidate = { plan, limit, 0 };
	uint32_t place = live->n;

	if (live->query->filter_length > 0 && !passes(live, plan, limit))
		return;
	candidate.rank = rank(live, limit);
	live->found++;
	while (place > 0 && live->candidates[place - 1].rank < candidate.rank)
		place--;
	if (place == WEIR__LIVE_LIMITS_MAX)
		return;
	if (live->n == WEIR__LIVE_LIMITS_MAX)
		live->n--;
	memmove(&live->candidates[place + 1], &live->candidates[place],
		(live->n - place) * sizeof(live->candidates[0]));
	live->candidates[place] = candidate;
	live->n++;
}

static struct weir_guard *guard_of(const struct live *live)
{
	return live->context->guard;
}

static void begin_candidates(void *live_)
{
	struct live *const live = live_;

	live->n = live->found = 0;
	add_candidate(live, INLINE_PLAN, live->context->limits.counted_as);
}

/* --- helpers ----------------------------------------------------------------------------------------------------- */

/* Writes parts / one as a decimal fraction, with integers only, and this many digits after the point. */
static void add_decimal(struct weir__http_reply *reply, const char *name, uint64_t parts, uint64_t one, unsigned digits)
{
	char text[24] = ".";
	uint64_t rest = parts % one;

	weir__reply_add_member(reply, name, parts / one);
	for (unsigned i = 1; i <= digits; i++) {
		rest *= 10;
		text[i] = (char)('0' + rest / one);
		rest %= one;
	}
	weir__reply_add(reply, text, digits + 1);
}

/* --- one limit --------------------------------------------------------------------------------------------------- */

static void add_key(struct live *live, const char *limit, const struct weir__top_key *top_key)
{
	const size_t kept = top_key->key_length < WEIR__TOP_KEY_KEY_SIZE ? top_key->key_length : WEIR__TOP_KEY_KEY_SIZE;
	struct weir_guard *const guard = guard_of(live);
	struct weir__http_reply *const reply = live->reply;
	char text[WEIR__KEY_TEXT_SIZE], raw[2 * WEIR__TOP_KEY_KEY_SIZE], hash[17];

	if (guard && limit)
		(void)weir__guard_key_text(guard, limit, top_key->key, kept, top_key->key_length, text, sizeof(text));
	else
		(void)weir__key_text(top_key->key, kept, top_key->key_length, text, sizeof(text));
	weir__reply_add_word(reply, "{\"key\":", text);
	(void)weir__hex_write(raw, top_key->key, kept);
	WEIR__REPLY_ADD(reply, ",\"raw\":");
	if (kept == top_key->key_length)
		weir__reply_add_string(reply, raw, 2 * kept);
	else
		WEIR__REPLY_ADD(reply, "null");
	(void)snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)top_key->hash);
	weir__reply_add_word(reply, ",\"hash\":", hash);
	weir__reply_add_member(reply, ",\"count\":", top_key->count);
	weir__reply_add_member(reply, ",\"error\":", top_key->error);
	WEIR__REPLY_ADD(reply, "}");
}

static uint64_t uptime_s(const struct live *live)
{
	return live->context->counters_set ? weir__counters_set_age_s(live->context->counters_set) : 0;
}

/* Returns the time since when they are counted. */
static weir_ns add_keys(struct live *live, const char *name, const struct weir_table_limit *limit,
			const char *limit_name, enum weir__top_keys_kind kind)
{
	weir_ns since;
	const size_t n = weir__limit_stats_set_top_keys(live->context->stats_set, limit, kind, live->now,
							live->top_keys, live->keys, &since);

	weir__reply_add_text(live->reply, name);
	for (size_t i = 0; i < n; i++) {
		weir__reply_add_text(live->reply, i ? "," : "");
		add_key(live, limit_name, &live->top_keys[i]);
	}
	WEIR__REPLY_ADD(live->reply, "]");
	return since;
}

static void add_top(struct live *live, const struct weir_table_limit *limit, const char *name)
{
	const uint64_t begun_s = live->now / second_ns - uptime_s(live);
	uint64_t since_s;

	if (live->keys == 0) {
		WEIR__REPLY_ADD(live->reply, ",\"top\":null");
		return;
	}
	(void)add_keys(live, ",\"top\":{\"busy\":[", limit, name, WEIR__TOP_KEYS_BUSY);
	since_s = add_keys(live, ",\"denied\":[", limit, name, WEIR__TOP_KEYS_DENIED) / second_ns;
	/* Top keys are counted from the start of a half minute, which may be before the server started. */
	weir__reply_add_member(live->reply, ",\"since\":", since_s > 0 && since_s < begun_s ? begun_s : since_s);
	WEIR__REPLY_ADD(live->reply, "}");
}

static void add_line(struct live *live, const char *name, size_t offset)
{
	weir__reply_add_text(live->reply, name);
	for (uint64_t i = 0; i < live->query->seconds; i++) {
		const char *const seen = (const char *)&live->series[i];
		uint64_t number;

		memcpy(&number, seen + offset, sizeof(number));
		weir__reply_add_member(live->reply, i ? "," : "", number);
	}
	WEIR__REPLY_ADD(live->reply, "]");
}

/* Writes live->series, without the closing brace. */
static void add_lines(struct live *live)
{
	for (uint64_t i = 0; i < live->query->seconds; i++)
		live->series[i].decided = weir__limit_stats_allowed(&live->series[i]);
	add_line(live, "{\"allowed\":[", offsetof(struct weir__limit_stats_sum, decided));
	add_line(live, ",\"rejected\":[", offsetof(struct weir__limit_stats_sum, rejected));
	add_line(live, ",\"delayed\":[", offsetof(struct weir__limit_stats_sum, delayed));
}

/* Returns false, and writes nothing, if no decision was seen in that time. */
static bool add_series(struct live *live, const struct weir_table_limit *limit)
{
	bool is_seen = false;

	weir__limit_stats_set_series(live->context->stats_set, limit, live->last, (uint32_t)live->query->seconds,
				     live->series);
	for (uint64_t i = 0; i < live->query->seconds; i++)
		is_seen = is_seen || live->series[i].decided > 0;
	if (!is_seen)
		return false;
	WEIR__REPLY_ADD(live->reply, ",\"series\":");
	add_lines(live);
	WEIR__REPLY_ADD(live->reply, "}");
	return true;
}

/* Writes what the workers have counted for the limit. */
static void add_seen(struct live *live, const struct weir_table_limit *limit, const char *name)
{
	struct weir__limit_stats_set *const stats_set = live->context->stats_set;
	struct weir__limit_stats_sum seen;
	uint64_t delayed, delay_ns;

	if (stats_set == NULL || !weir__limit_stats_set_has(stats_set, limit)) {
		WEIR__REPLY_ADD(live->reply, ",\"delayed_total\":0,\"fill\":null,\"series\":null,\"top\":null");
		return;
	}
	weir__limit_stats_set_delays(stats_set, limit, &delayed, &delay_ns);
	weir__reply_add_member(live->reply, ",\"delayed_total\":", delayed);
	if (weir__limit_stats_set_limit(stats_set, limit, live->last, WEIR__LIMIT_STATS_FILL_SECONDS, &seen))
		add_decimal(live->reply, ",\"fill\":", seen.fill / seen.decided, WEIR__FILL_ONE, 4);
	else
		WEIR__REPLY_ADD(live->reply, ",\"fill\":null");
	if (!add_series(live, limit))
		WEIR__REPLY_ADD(live->reply, ",\"series\":null");
	add_top(live, limit, name);
}

static void add_changed(struct live *live, const struct weir__guard_row *row)
{
	char by[WEIR__CHANGE_BY_SIZE];

	if (row == NULL || !row->is_changed) {
		WEIR__REPLY_ADD(live->reply, ",\"changed\":null");
		return;
	}
	weir__limit_change_by(&row->change, by);
	weir__reply_add_word(live->reply, ",\"changed\":{\"servers\":", row->change.version > 0 ? "all" : "here");
	weir__reply_add_word(live->reply, ",\"by\":", by);
	weir__reply_add_member(live->reply, ",\"at\":", row->change.at / second_ns);
	WEIR__REPLY_ADD(live->reply, "}");
}

static void add_limit(struct live *live, const char *name, const char *mode, const char *algorithm, const char *text,
		      const char *key, const struct weir__lease_terms *terms, uint64_t ahead,
		      const struct weir_table_limit *limit)
{
	struct weir_table_limit_stats stats;

	weir_table_limit_stats(live->context->table, limit, &stats);
	weir__reply_add_word(live->reply, "{\"name\":", name);
	weir__reply_add_word(live->reply, ",\"mode\":", mode);
	weir__reply_add_word(live->reply, ",\"algorithm\":", algorithm);
	weir__reply_add_word(live->reply, ",\"limit\":", text);
	weir__reply_add_word(live->reply, ",\"key\":", key);
	weir__reply_add_word(live->reply, ",\"consistency\":", weir__limit_row_consistency(terms, ahead));
	weir__reply_add_member(live->reply, ",\"lease_bound\":", terms->most);
	weir__reply_add_member(live->reply, ",\"eventual_bound\":", weir__limit_row_bound(live->context, ahead));
	weir__reply_add_member(live->reply, ",\"allowed_total\":", stats.allowed);
	weir__reply_add_member(live->reply, ",\"rejected_total\":", stats.denied);
}

static void add_inline(struct live *live)
{
	const struct weir_table_limit *const limit = live->context->limits.counted_as;
	const struct weir__lease_terms exact = { 0, 0 };

	add_limit(live, inline_name, "enforce", "any", "as requests say", "", &exact, 0, limit);
	add_changed(live, NULL);
	add_seen(live, limit, NULL);
	WEIR__REPLY_ADD(live->reply, "}");
}

static void add_row(struct live *live, const struct weir__guard_row *row)
{
	struct weir__lease_terms terms = { 0, 0 };
	char text[WEIR_LIMIT_TEXT_MAX];

	(void)weir__limit_row_is_leased(live->context, row, &terms);
	(void)weir_limit_print(&row->now, text);
	add_limit(live, row->name, weir__limit_ref_mode_word(row->mode), weir_algorithm_name(row->now.algorithm), text,
		  row->key, &terms, weir__limit_row_ahead(live->context, row), row->limit);
	add_changed(live, row);
	add_seen(live, row->limit, row->name);
	WEIR__REPLY_ADD(live->reply, "}");
}

/* Writes a limit; NULL: inline limits. A limit that does not fit is left out. */
static void add_one(struct live *live, const struct weir__guard_row *row)
{
	struct weir__http_reply *const reply = live->reply;
	const size_t before = reply->body_length, room = reply->size - WEIR__REPLY_HEAD_ROOM - TAIL_MOST;

	weir__reply_add_text(reply, live->told == 0 ? "" : ",\n");
	if (row)
		add_row(live, row);
	else
		add_inline(live);
	if (!reply->is_full && reply->body_length <= room) {
		live->told++;
		return;
	}
	reply->is_full = false;
	reply->body_length = before;
}

/* Writes the inline limits if the next candidate is them. */
static void add_next_inline(struct live *live)
{
	if (live->at < live->n && live->candidates[live->at].plan == INLINE_PLAN) {
		add_one(live, NULL);
		live->at++;
	}
}

static uint32_t choose_plans(void *live_, const uint32_t **ret_plans)
{
	struct live *const live = live_;
	uint32_t n = 0;

	for (uint32_t i = 0; i < live->n; i++)
		if (live->candidates[i].plan != INLINE_PLAN)
			live->plans[n++] = live->candidates[i].plan;
	*ret_plans = live->plans;
	return n;
}

static void tell_row(void *live_, const struct weir__guard_row *row)
{
	struct live *const live = live_;

	add_next_inline(live);
	add_one(live, row);
	live->at++;
}

_Static_assert((int)WEIR__LIVE_LIMITS_MAX <= (int)WEIR__GUARD_ROWS_MAX, "the guard lists them all");

static void add_limits(struct live *live)
{
	static const struct weir__guard_choice choice = { begin_candidates, add_candidate, choose_plans, tell_row };

	WEIR__REPLY_ADD(live->reply, ",\n\"limits\":[\n");
	begin_candidates(live);
	if (guard_of(live))
		(void)weir__guard_list_chosen(guard_of(live), WEIR__LIVE_PLANS_MAX, &choice, live);
	add_next_inline(live);
	WEIR__REPLY_ADD(live->reply, "],");
	weir__reply_add_member(live->reply, "\"left_out\":", live->found - live->told);
}

/* --- the server -------------------------------------------------------------------------------------------------- */

/* The duration in ns that of_1000 thousandths of all requests do not exceed, interpolated linearly within a bucket of
 * the histogram. The last bucket has no upper bound, so its lower bound is returned. */
static uint64_t percentile(const struct weir__limit_stats_histogram_sum *sum, uint64_t of_1000)
{
	const uint64_t rank = sum->n / 1000 * of_1000 + (sum->n % 1000 * of_1000 + 999) / 1000;
	uint64_t before = 0;

	for (unsigned place = 0; place < WEIR__LIMIT_STATS_BUCKETS; place++) {
		const uint64_t low = place ? weir__limit_stats_histogram_bound(place - 1) : 0,
			       high = weir__limit_stats_histogram_bound(place);
		const uint64_t n = sum->counts[place];

		if (n > 0 && before + n >= rank)
			return high == UINT64_MAX ?
				       low :
				       low + (uint64_t)((unsigned __int128)(high - low) * (rank - before) / n);
		before += n;
	}
	return 0;
}

/* Counts requests. A sum over limits would count a request once for each of its limits. */
static void add_requests(struct live *live)
{
	struct weir__limit_stats_set *const stats_set = live->context->stats_set;
	struct weir__limit_stats_sum seen;

	WEIR__REPLY_ADD(live->reply, ",\n\"all\":");
	if (stats_set == NULL) {
		WEIR__REPLY_ADD(live->reply, "null");
		return;
	}
	weir__limit_stats_set_requests_series(stats_set, live->last, (uint32_t)live->query->seconds, live->series);
	add_lines(live);
	weir__limit_stats_set_requests(stats_set, &seen);
	weir__reply_add_member(live->reply, ",\"allowed_total\":", weir__limit_stats_allowed(&seen));
	weir__reply_add_member(live->reply, ",\"rejected_total\":", seen.rejected);
	weir__reply_add_member(live->reply, ",\"delayed_total\":", seen.delayed);
	WEIR__REPLY_ADD(live->reply, "}");
}

static void add_latency(struct live *live)
{
	static const struct {
		const char *name;
		enum weir__limit_stats_duration which;
	} histograms[] = { { "\"decision\":{\"n\":", WEIR__DURATION_DECISION },
			   { ",\"request\":{\"n\":", WEIR__DURATION_REQUEST },
			   { ",\"throttled\":{\"n\":", WEIR__DURATION_THROTTLED },
			   { ",\"wait\":{\"n\":", WEIR__DURATION_WAIT } };
	static const struct {
		const char *name;
		uint64_t of_1000;
	} points[] = { { ",\"p50\":", 500 }, { ",\"p99\":", 990 }, { ",\"p999\":", 999 } };
	struct weir__limit_stats_histogram_sum sum;

	if (live->context->stats_set == NULL) {
		WEIR__REPLY_ADD(live->reply, ",\n\"latency\":null");
		return;
	}
	WEIR__REPLY_ADD(live->reply, ",\n\"latency\":{");
	for (size_t i = 0; i < sizeof(histograms) / sizeof(histograms[0]); i++) {
		weir__limit_stats_set_durations(live->context->stats_set, histograms[i].which, &sum);
		weir__reply_add_member(live->reply, histograms[i].name, sum.n);
		for (size_t j = 0; j < sizeof(points) / sizeof(points[0]); j++) {
			if (sum.n > 0) {
				add_decimal(live->reply, points[j].name, percentile(&sum, points[j].of_1000), second_ns,
					    9);
			} else {
				weir__reply_add_text(live->reply, points[j].name);
				WEIR__REPLY_ADD(live->reply, "null");
			}
		}
		WEIR__REPLY_ADD(live->reply, "}");
	}
	WEIR__REPLY_ADD(live->reply, "}");
}

static void add_protocols(struct live *live)
{
	struct weir__counters_sum sum = { .connections = { 0 } };

	if (live->context->counters_set)
		weir__counters_set_sum(live->context->counters_set, &sum);
	weir__reply_add_member(live->reply, ",\n\"unmatched\":{\"total\":", sum.unmatched);
	weir__reply_add_member(live->reply, ",\"rejected_total\":", sum.unmatched_denied);
	WEIR__REPLY_ADD(live->reply, "}");
	weir__reply_add_member(live->reply, ",\n\"connections\":{\"resp\":", sum.connections[WEIR__PROTOCOL_RESP]);
	weir__reply_add_member(live->reply, ",\"http\":", sum.connections[WEIR__PROTOCOL_HTTP]);
	weir__reply_add_member(live->reply, ",\"http2\":", sum.connections[WEIR__PROTOCOL_HTTP2]);
	weir__reply_add_member(live->reply, "},\n\"requests_total\":{\"resp\":", sum.requests[WEIR__PROTOCOL_RESP]);
	weir__reply_add_member(live->reply, ",\"http\":", sum.requests[WEIR__PROTOCOL_HTTP]);
	weir__reply_add_member(live->reply, ",\"http2\":", sum.requests[WEIR__PROTOCOL_HTTP2]);
	WEIR__REPLY_ADD(live->reply, "}");
}

static void add_table(struct live *live)
{
	struct weir__table_key_count key_count;

	weir__key_count(live->context->table, live->context->key_count_cache, live->now, &key_count);
	weir__reply_add_member(live->reply, ",\n\"table\":{\"live_keys\":", key_count.live);
	weir__reply_add_member(live->reply, ",\"capacity_keys\":", key_count.capacity);
	weir__reply_add_member(live->reply, ",\"evicted_total\":", key_count.evicted);
	weir__reply_add_member(live->reply, ",\"folded_total\":", key_count.folded);
	weir__reply_add_member(live->reply, ",\"arena_bytes\":", key_count.arena_bytes);
	weir__reply_add_member(live->reply, ",\"arena_used_bytes\":", key_count.arena_used);
	WEIR__REPLY_ADD(live->reply, "}");
}

static void add_store(struct live *live)
{
	static const char *const states[] = {
		[WEIR__STORE_UP] = "up", [WEIR__STORE_DOWN] = "down", [WEIR__STORE_PROBING] = "probing"
	};
	struct weir__store *const store = live->context->store;
	struct weir__store_status status;

	WEIR__REPLY_ADD(live->reply, ",\n\"store\":");
	if (store->status == NULL) {
		WEIR__REPLY_ADD(live->reply, "null");
		return;
	}
	store->status(store, &status);
	weir__reply_add_word(live->reply, "{\"state\":", states[status.health]);
	weir__reply_add_member(live->reply, ",\"nodes\":", status.nodes);
	weir__reply_add_member(live->reply, ",\"deferred_keys\":", status.deferred_keys);
	weir__reply_add_member(live->reply, ",\"calls_per_1000\":", weir__store_calls_per_1000(&status));
	weir__reply_add_member(live->reply, ",\"lease_held\":", weir__store_held(&status));
	weir__reply_add_member(live->reply, ",\"eventual_waiting\":", weir__store_waiting(&status));
	WEIR__REPLY_ADD(live->reply, "}");
}

static void add_policy(struct live *live)
{
	struct weir__policy_loader_info info;

	WEIR__REPLY_ADD(live->reply, ",\n\"policy\":");
	if (live->context->loader == NULL) {
		WEIR__REPLY_ADD(live->reply, "null");
		return;
	}
	weir__policy_loader_info(live->context->loader, &info);
	weir__reply_add_member(live->reply, "{\"limits\":", info.limits);
	weir__reply_add_member(live->reply, ",\"changes\":", info.changes);
	weir__reply_add_member(live->reply, ",\"failures\":", info.failures);
	weir__reply_add_text(live->reply, info.last_error[0] ? ",\"refused\":true" : ",\"refused\":false");
	weir__reply_add_member(live->reply, ",\"loaded_at\":", info.loaded_at / second_ns);
	WEIR__REPLY_ADD(live->reply, "}");
}

/* --- the document ------------------------------------------------------------------------------------------------ */

static void add_head(struct live *live)
{
	const struct weir__settings *const settings = live->context->settings;

	weir__reply_add_word(live->reply, "{\"version\":", WEIR_VERSION);
	weir__reply_add_word(live->reply, ",\"service\":", settings ? settings->service : "weir");
	add_decimal(live->reply, ",\"at\":", live->now, second_ns, 3);
	weir__reply_add_member(live->reply, ",\"uptime_s\":", uptime_s(live));
	weir__reply_add_member(live->reply, ",\"seconds\":", live->query->seconds);
}

struct one {
	struct live *live;
	bool is_limited;
};

static void find_row(void *one_, const struct weir__guard_row *row)
{
	struct one *const one = one_;

	one->is_limited = row->limit != NULL;
	if (row->limit) {
		add_row(one->live, row);
		WEIR__REPLY_ADD(one->live->reply, "],\"left_out\":0");
	}
}

/* Returns false if no limit has this name. */
static bool add_limit_alone(struct live *live)
{
	const struct weir__live_query *const query = live->query;
	struct one one = { live, false };

	WEIR__REPLY_ADD(live->reply, ",\n\"limits\":[\n");
	if (is(query->limit, query->limit_length, inline_name)) {
		add_inline(live);
		WEIR__REPLY_ADD(live->reply, "],\"left_out\":0");
		return true;
	}
	return guard_of(live) && weir__guard_row(guard_of(live), query->limit, query->limit_length, find_row, &one) &&
	       one.is_limited;
}

bool weir__live_write(struct weir__context *context, const struct weir__live_query *query,
		      struct weir__http_reply *reply)
{
	struct live live = { .context = context, .reply = reply, .query = query };
	const uint64_t keys = query->limit ? WEIR__LIVE_KEYS_MAX : WEIR__LIVE_KEYS;

	live.now = weir_table_now(context->table);
	live.last = (uint32_t)(live.now / second_ns) - 1;
	live.keys = (uint32_t)(query->keys == UINT64_MAX ? keys : query->keys);
	add_head(&live);
	add_requests(&live);
	if (query->limit) {
		if (!add_limit_alone(&live)) {
			reply->body_length = 0;
			return false;
		}
	} else {
		add_limits(&live);
	}
	add_latency(&live);
	add_protocols(&live);
	add_table(&live);
	add_store(&live);
	add_policy(&live);
	WEIR__REPLY_ADD(reply, "}\n");
	return true;
}
