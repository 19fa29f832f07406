/* top_view.c: reads the live document, sorts and selects. */
#include "cli/top_view.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --- reading ----------------------------------------------------------------------------------------------------- */

/* A member that is missing or has another type reads as empty or 0, since a newer server may send other members. */
static void copy_text(char *to, size_t size, const json_t *object, const char *name)
{
	const char *const text = json_string_value(json_object_get(object, name));
	const size_t length = text ? strnlen(text, size - 1) : 0;

	memcpy(to, text ? text : "", length);
	to[length] = '\0';
}

static uint64_t number_of(const json_t *object, const char *name)
{
	const json_int_t number = json_integer_value(json_object_get(object, name));

	return number > 0 ? (uint64_t)number : 0;
}

/* A decimal number, multiplied by `one` and rounded. For display only, never for decisions. */
static uint64_t parts_of(const json_t *object, const char *name, double one)
{
	const double number = json_number_value(json_object_get(object, name)) * one;

	return number > 0 && number < 1e18 ? (uint64_t)(number + 0.5) : 0;
}

/* The number `back` places before the end of a series; 0 before its beginning. */
static uint32_t second_of(const json_t *series, size_t back)
{
	const size_t n = json_array_size(series);
	const json_int_t number = back < n ? json_integer_value(json_array_get(series, n - 1 - back)) : 0;

	return number < 0 ? 0 : number > UINT32_MAX ? UINT32_MAX : (uint32_t)number;
}

static uint64_t sum_of(const json_t *series)
{
	uint64_t sum = 0;

	for (size_t back = 0; back < WEIR__TOP_RATE_SECONDS; back++)
		sum += second_of(series, back);
	return sum;
}

static void read_limit(const json_t *from, struct weir__top_limit *limit)
{
	const json_t *const series = json_object_get(from, "series");
	const json_t *const allowed = json_object_get(series, "allowed");
	const json_t *const rejected = json_object_get(series, "rejected");
	const char *const consistency = json_string_value(json_object_get(from, "consistency"));

	copy_text(limit->name, sizeof(limit->name), from, "name");
	copy_text(limit->mode, sizeof(limit->mode), from, "mode");
	copy_text(limit->algorithm, sizeof(limit->algorithm), from, "algorithm");
	copy_text(limit->limit, sizeof(limit->limit), from, "limit");
	copy_text(limit->key, sizeof(limit->key), from, "key");
	limit->is_exact = consistency && strcmp(consistency, "exact") == 0;
	limit->lease_bound = number_of(from, "lease_bound");
	limit->eventual_bound = number_of(from, "eventual_bound");
	limit->is_eventual = consistency && strcmp(consistency, "eventual") == 0;
	limit->allowed_total = number_of(from, "allowed_total");
	limit->rejected_total = number_of(from, "rejected_total");
	limit->allowed = sum_of(allowed);
	limit->rejected = sum_of(rejected);
	limit->delayed = sum_of(json_object_get(series, "delayed"));
	limit->fill = -1;
	if (json_is_number(json_object_get(from, "fill"))) {
		const uint64_t fill = parts_of(from, "fill", 1000);

		limit->fill = fill > 1000 ? 1000 : (int)fill;
	}
	for (size_t i = 0; i < WEIR__TOP_SECONDS; i++) {
		const uint64_t denied = second_of(rejected, WEIR__TOP_SECONDS - 1 - i);
		const uint64_t decided = denied + second_of(allowed, WEIR__TOP_SECONDS - 1 - i);

		limit->denied[i] = (uint32_t)denied;
		limit->decided[i] = decided > UINT32_MAX ? UINT32_MAX : (uint32_t)decided;
	}
}

static void read_pair(const json_t *root, const char *name, uint64_t pair[2])
{
	const json_t *const object = json_object_get(root, name);

	pair[0] = number_of(object, "resp");
	pair[1] = number_of(object, "http");
}

static void read_server(const json_t *root, struct weir__top_server *server)
{
	const json_t *const table = json_object_get(root, "table"), *const store = json_object_get(root, "store");
	const json_t *const policy = json_object_get(root, "policy");
	const json_t *const answer = json_object_get(json_object_get(root, "latency"), "request");
	const json_t *const all = json_object_get(root, "all");

	memset(server, 0, sizeof(*server));
	copy_text(server->version, sizeof(server->version), root, "version");
	copy_text(server->service, sizeof(server->service), root, "service");
	server->at_ms = parts_of(root, "at", 1000);
	server->uptime_s = number_of(root, "uptime_s");
	server->left_out = number_of(root, "left_out");
	read_pair(root, "connections", server->connections);
	read_pair(root, "requests_total", server->requests);
	server->live_keys = number_of(table, "live_keys");
	server->capacity_keys = number_of(table, "capacity_keys");
	server->evicted = number_of(table, "evicted_total");
	server->folded = number_of(table, "folded_total");
	server->has_store = json_is_object(store);
	copy_text(server->store, sizeof(server->store), store, "state");
	server->store_nodes = number_of(store, "nodes");
	server->store_deferred = number_of(store, "deferred_keys");
	server->store_calls_per_1000 = number_of(store, "calls_per_1000");
	server->lease_held = number_of(store, "lease_held");
	server->eventual_waiting = number_of(store, "eventual_waiting");
	server->has_policy = json_is_object(policy);
	server->unmatched = number_of(json_object_get(root, "unmatched"), "total");
	server->policy_limits = number_of(policy, "limits");
	server->policy_changes = number_of(policy, "changes");
	server->policy_failures = number_of(policy, "failures");
	server->is_policy_refused = json_is_true(json_object_get(policy, "refused"));
	server->is_blind = json_is_null(all);
	server->has_all = json_is_object(all);
	server->allowed = sum_of(json_object_get(all, "allowed"));
	server->rejected = sum_of(json_object_get(all, "rejected"));
	server->delayed = sum_of(json_object_get(all, "delayed"));
	server->has_latency = number_of(answer, "n") > 0;
	server->answer_p50_ns = parts_of(answer, "p50", 1e9);
	server->answer_p99_ns = parts_of(answer, "p99", 1e9);
	server->answer_p999_ns = parts_of(answer, "p999", 1e9);
}

/* Rates are the requests since the previous document. A server that restarted has counted fewer: then no rates are
 * known yet. */
static void find_rates(struct weir__top_view *view, const struct weir__top_server *before)
{
	const struct weir__top_server *const now = &view->server;
	const uint64_t ms = now->at_ms - before->at_ms;

	view->has_rates = before->at_ms > 0 && now->at_ms > before->at_ms && ms < 600000;
	for (int i = 0; i < 2; i++) {
		view->has_rates = view->has_rates && now->requests[i] >= before->requests[i];
		view->rates[i] = view->has_rates ? (now->requests[i] - before->requests[i]) * 10000 / ms : 0;
	}
}

static void keep_totals(struct weir__top_view *view)
{
	view->n_before = view->n;
	for (size_t i = 0; i < view->n; i++) {
		struct weir__top_totals *const before = &view->before[i];

		memcpy(before->name, view->limits[i].name, sizeof(before->name));
		before->allowed = view->limits[i].allowed_total;
		before->rejected = view->limits[i].rejected_total;
	}
}

/* NULL: the limit is new, or its totals restarted. */
static const struct weir__top_totals *totals_before(const struct weir__top_view *view,
						    const struct weir__top_limit *limit)
{
	for (size_t i = 0; i < view->n_before; i++) {
		const struct weir__top_totals *const before = &view->before[i];

		if (strcmp(before->name, limit->name) == 0)
			return limit->allowed_total >= before->allowed && limit->rejected_total >= before->rejected ?
				       before :
				       NULL;
	}
	return NULL;
}

/* With `observe` off, rates are the growth of the totals. The server's rates are then the sums over the limits in
 * enforce mode: nothing is known of whole requests. */
static void find_rates_by_totals(struct weir__top_view *view, uint64_t ms)
{
	for (size_t i = 0; i < view->n; i++) {
		struct weir__top_limit *const limit = &view->limits[i];
		const struct weir__top_totals *const before = totals_before(view, limit);

		if (before == NULL)
			continue;
		limit->allowed = (limit->allowed_total - before->allowed) * 1000 * WEIR__TOP_RATE_SECONDS / ms;
		limit->rejected = (limit->rejected_total - before->rejected) * 1000 * WEIR__TOP_RATE_SECONDS / ms;
		if (strcmp(limit->mode, "enforce") == 0) {
			view->server.allowed += limit->allowed;
			view->server.rejected += limit->rejected;
		}
	}
}

static json_t *parsed(const char *json, size_t length)
{
	json_t *const root = json_loadb(json, length, 0, NULL);

	if (json_is_array(json_object_get(root, "limits")))
		return root;
	json_decref(root);
	return NULL;
}

bool weir__top_view_read(struct weir__top_view *view, const char *json, size_t length)
{
	const struct weir__top_server before = view->server;
	json_t *const root = parsed(json, length);
	const json_t *const limits = json_object_get(root, "limits");

	if (root == NULL)
		return false;
	keep_totals(view);
	read_server(root, &view->server);
	find_rates(view, &before);
	view->n = json_array_size(limits) < WEIR__TOP_LIMITS_MAX ? json_array_size(limits) : WEIR__TOP_LIMITS_MAX;
	for (size_t i = 0; i < view->n; i++)
		read_limit(json_array_get(limits, i), &view->limits[i]);
	if (view->server.is_blind && view->has_rates)
		find_rates_by_totals(view, view->server.at_ms - before.at_ms);
	json_decref(root);
	return true;
}

/* Long keys are cut and may look alike, so their hash is put before them. */
static void read_key(const json_t *from, struct weir__top_busy_key *busy_key)
{
	const char *const hash = json_string_value(json_object_get(from, "hash"));
	char text[sizeof(busy_key->key)];

	copy_text(busy_key->key, sizeof(busy_key->key), from, "key");
	if (hash && json_is_null(json_object_get(from, "raw"))) {
		memcpy(text, busy_key->key, sizeof(text));
		(void)snprintf(busy_key->key, sizeof(busy_key->key), "#%.16s %.480s", hash, text);
	}
}

static void read_top_keys(const json_t *array, struct weir__top_busy_keys *busy_keys)
{
	busy_keys->n = json_array_size(array) < WEIR__TOP_KEYS_MAX ? json_array_size(array) : WEIR__TOP_KEYS_MAX;
	for (size_t i = 0; i < busy_keys->n; i++) {
		const json_t *const from = json_array_get(array, i);

		read_key(from, &busy_keys->of[i]);
		busy_keys->of[i].count = number_of(from, "count");
		busy_keys->of[i].error = number_of(from, "error");
	}
}

bool weir__top_view_read_keys(struct weir__top_view *view, const char *json, size_t length)
{
	json_t *const root = parsed(json, length);
	const json_t *const limit = json_array_get(json_object_get(root, "limits"), 0);
	const json_t *const top = json_object_get(limit, "top");
	const uint64_t now = parts_of(root, "at", 1), since = number_of(top, "since");

	if (root == NULL)
		return false;
	read_top_keys(json_object_get(top, "busy"), &view->busy);
	read_top_keys(json_object_get(top, "denied"), &view->denied);
	view->keys_for_s = now > since && since > 0 ? now - since : 0;
	json_decref(root);
	return true;
}

/* --- the order --------------------------------------------------------------------------------------------------- */

unsigned weir__top_share(uint64_t allowed, uint64_t rejected)
{
	return allowed + rejected == 0 ? 0 : (unsigned)(rejected * 1000 / (allowed + rejected));
}

/* The number that a column sorts by. Text columns sort by their text. */
static uint64_t weight(const struct weir__top_limit *limit, enum weir__top_column column)
{
	switch (column) {
	case WEIR__TOP_ALLOWED:
		return limit->allowed;
	case WEIR__TOP_REJECTED:
		return limit->rejected;
	case WEIR__TOP_SHARE:
		return weir__top_share(limit->allowed, limit->rejected);
	case WEIR__TOP_DELAYED:
		return limit->delayed;
	/* The lowest fill first. Limits without decisions have an unknown fill and come last. */
	case WEIR__TOP_FILL:
		return limit->fill < 0 ? 0 : (uint64_t)(1001 - limit->fill);
	default:
		return limit->allowed + limit->rejected;
	}
}

static const char *text_of(const struct weir__top_limit *limit, enum weir__top_column column)
{
	return column == WEIR__TOP_NAME      ? limit->name :
	       column == WEIR__TOP_MODE      ? limit->mode :
	       column == WEIR__TOP_ALGORITHM ? limit->algorithm :
					       NULL;
}

/* The largest number first, or alphabetically. Equal limits are ordered by name, so that they do not jump. */
static int compare(const void *a_, const void *b_, void *view_)
{
	const struct weir__top_view *const view = view_;
	const struct weir__top_limit *const a = &view->limits[*(const size_t *)a_],
					    *const b = &view->limits[*(const size_t *)b_];
	const char *const text = text_of(a, view->sort);
	const uint64_t of_a = weight(a, view->sort), of_b = weight(b, view->sort);
	int order = text ? strcmp(text, text_of(b, view->sort)) : (of_a < of_b) - (of_a > of_b);

	if (view->is_reversed)
		order = -order;
	return order ? order : strcmp(a->name, b->name);
}

static bool passes(const struct weir__top_view *view, const char *name)
{
	return view->filter[0] == '\0' || strcasestr(name, view->filter) != NULL;
}

static void select_at(struct weir__top_view *view, size_t place)
{
	view->at = place;
	if (view->n_ordered == 0)
		return;
	if (strcmp(view->selected, view->limits[view->order[place]].name) != 0)
		view->busy.n = view->denied.n = 0; /* the keys belong to another limit */
	memcpy(view->selected, view->limits[view->order[place]].name, sizeof(view->selected));
}

void weir__top_view_arrange(struct weir__top_view *view)
{
	size_t place;

	view->n_ordered = 0;
	for (size_t i = 0; i < view->n; i++)
		if (passes(view, view->limits[i].name))
			view->order[view->n_ordered++] = i;
	qsort_r(view->order, view->n_ordered, sizeof(view->order[0]), compare, view);
	for (place = 0; view->is_chosen && place < view->n_ordered; place++)
		if (strcmp(view->limits[view->order[place]].name, view->selected) == 0)
			break;
	if (place == view->n_ordered)
		place = view->at < view->n_ordered ? view->at : view->n_ordered ? view->n_ordered - 1 : 0;
	select_at(view, place);
}

void weir__top_view_move(struct weir__top_view *view, long by)
{
	const long last = (long)view->n_ordered - 1, wanted = (long)view->at + by;

	view->is_chosen = true;
	if (last >= 0)
		select_at(view, (size_t)(wanted < 0 ? 0 : wanted > last ? last : wanted));
}

/* The minute column, a chart, sorts by the number of decisions. */
void weir__top_view_sort_next(struct weir__top_view *view, unsigned shown)
{
	do
		view->sort = (view->sort + 1) % WEIR__TOP_COLUMNS;
	while (!(shown >> view->sort & 1) && view->sort != WEIR__TOP_NAME);
}

const struct weir__top_limit *weir__top_view_selected(const struct weir__top_view *view)
{
	return view->n_ordered > 0 ? &view->limits[view->order[view->at]] : NULL;
}
