/* tune_log.c: weir tune with logs. Reads them twice: first to collect the requests of the limit and to choose, then to
 * replay the whole policy with the proposal. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/tune.h"
#include "cli/words.h"
#include "core/nearest.h"
#include "os/memory.h"
#include "policy/policy.h"
#include "server/policy_loader.h"

enum { BATCH = 1024, PERCENT = 100 };

/* --- the policy -------------------------------------------------------------------------------------------------- */

static void print_line(void *context, const char *line)
{
	(void)context;
	fprintf(stderr, "weir tune: %s\n", line);
}

/* A policy of one limit, for a log without a policy. */
static struct weir_policy *make_policy(const struct weir__tune_options *options)
{
	static const char start[] = "limits:\n  - name: ";
	char text[1024];
	struct weir_policy *policy = NULL;
	int n;

	if (options->key == NULL || options->key[0] == '\0')
		n = snprintf(text, sizeof(text), "%stotal\n    limit: 1/s\n", start);
	else
		n = snprintf(text, sizeof(text), "%sper-client\n    key: [%s]\n    limit: 1/s\n", start, options->key);
	if (n < 0 || (size_t)n >= sizeof(text))
		fputs("weir tune: --key: too many attributes\n", stderr);
	else
		weir_policy_read(text, (size_t)n, NULL, print_line, NULL, &policy);
	return policy;
}

static struct weir_policy *load_policy(const struct weir__tune_options *options)
{
	char apart[WEIR__POLICY_PATH_SIZE];

	if (options->policy == NULL)
		return make_policy(options);
	return weir__policy_loader_check(options->policy, stderr, apart);
}

static bool find_limit(const struct weir_policy *policy, const char *name, uint32_t *ret_limit)
{
	struct weir__nearest nearest;

	if (policy->envoy) {
		fputs("weir tune: a policy in Envoy's format decides descriptors, which a log does not have; use a policy in "
		      "Weir's own format\n",
		      stderr);
		return false;
	}
	if (name == NULL) {
		*ret_limit = 0;
		return true;
	}
	nearest = weir__nearest_of(name, strlen(name));
	for (uint32_t i = 0; i < policy->n_limits; i++) {
		const char *const found = weir_policy_limit_name(policy, i);

		if (strcmp(found, name) == 0) {
			*ret_limit = i;
			return true;
		}
		weir__nearest_offer(&nearest, found);
	}
	fputs("weir tune: --limit ", stderr);
	weir__words_quoted(stderr, name, strlen(name));
	fputs(": the policy has no such limit", stderr);
	if (nearest.best)
		fprintf(stderr, "; did you mean %s?", nearest.best);
	fputs("\n", stderr);
	return false;
}

/* A limit in shadow or off is tuned as if it were enforced. */
static void enforce(struct weir_policy *policy, uint32_t limit)
{
	policy->limits[limit].mode = WEIR_MODE_ENFORCE;
	policy->plans[policy->limits[limit].plan].is_unlimited = false;
}

/* --- the log ----------------------------------------------------------------------------------------------------- */

/* The reader refers to *ret_log and the names until it is freed. */
static bool open_log(const struct weir__tune_options *options, const struct weir__slice *names, size_t n_names,
		     struct weir__log_options *ret_log, struct weir__log_reader **ret_reader)
{
	struct weir_message why;

	*ret_log = options->log;
	ret_log->wanted = names;
	ret_log->n_wanted = n_names;
	if (weir__log_reader_new(ret_log, ret_reader, &why) == WEIR_OK)
		return true;
	fprintf(stderr, "weir tune: %s\n", why.text);
	return false;
}

/* Reports inputs that could not be read to their end. Returns false if there are any. */
static bool is_read(const struct weir__log_reader *reader)
{
	bool is_good = true;

	for (size_t i = 0; i < weir__log_reader_inputs(reader); i++) {
		const struct weir__log_input_info *const info = weir__log_reader_input(reader, i);

		if (info->error == NULL)
			continue;
		fprintf(stderr, "weir tune: ");
		weir__words_safe(stderr, info->path);
		fprintf(stderr, ": %s\n", info->error);
		is_good = false;
	}
	return is_good;
}

static size_t take_attributes(const struct weir__log_record *record, const struct weir__slice *names, size_t n_names,
			      struct weir_attribute *ret_attributes)
{
	size_t n = 0;

	for (size_t i = 0; i < n_names; i++)
		if (record->values[i].at)
			ret_attributes[n++] = (struct weir_attribute){ names[i].at, names[i].n, record->values[i].at,
								       record->values[i].n };
	return n;
}

struct collecting {
	const struct weir__tune_options *options;
	const struct weir_policy *policy;
	struct weir__arrivals *arrivals;
	struct weir__tune_found *found;
	struct weir_policy_answer answer;
};

static bool collect_record(struct collecting *collecting, const struct weir__log_record *record,
			   const struct weir__slice *names, size_t n_names)
{
	const struct weir_policy *const policy = collecting->policy;
	struct weir__tune_found *const found = collecting->found;
	struct weir_attribute attributes[WEIR__LOG_VALUES_MAX];
	const size_t n = take_attributes(record, names, n_names, attributes);
	struct weir_message why;
	int error;

	if (found->first == 0)
		found->first = record->arrival;
	found->last = record->arrival;
	found->was_spread |= record->is_spread;
	if (weir_policy_match(policy, attributes, n, record->cost, &collecting->answer, &why) != WEIR_OK)
		return true; /* the replay counts these */
	for (size_t i = 0; i < collecting->answer.n; i++) {
		const struct weir_policy_claim *const claim = &collecting->answer.claims[i];

		if (claim->limit != found->limit)
			continue;
		if (claim->plan != policy->limits[found->limit].plan) {
			found->elsewhere++;
			continue;
		}
		found->applies++;
		if (claim->cost > UINT32_MAX) {
			fprintf(stderr,
				"weir tune: line %" PRIu64 ": the cost %" PRIu64
				" is above %u, the most that can be tuned\n",
				record->line, claim->cost, UINT32_MAX);
			return false;
		}
		error = weir__arrivals_add(collecting->arrivals, claim->key, claim->key_length, record->arrival,
					   (uint32_t)claim->cost);
		if (error != WEIR_OK) {
			fputs(error == WEIR_ERR_FULL ?
				      "weir tune: the requests of one key need more memory than --memory\n" :
				      "weir tune: no memory; use a smaller --memory\n",
			      stderr);
			return false;
		}
	}
	return true;
}

static bool collect(struct collecting *collecting)
{
	struct weir__slice names[WEIR__LOG_VALUES_MAX];
	const size_t n_names = weir__replay_names(collecting->policy, names);
	const struct weir__log_record *const *records;
	struct weir__log_options log;
	struct weir__log_reader *reader;
	bool is_good = true;
	size_t n;

	if (!open_log(collecting->options, names, n_names, &log, &reader))
		return false;
	while (is_good && (n = weir__log_reader_next(reader, BATCH, &records)) > 0)
		for (size_t i = 0; i < n && is_good; i++)
			is_good = collect_record(collecting, records[i], names, n_names);
	is_good = is_good && is_read(reader);
	weir__log_reader_totals(reader, &collecting->found->totals);
	weir__log_reader_free(reader);
	return is_good;
}

/* --- the replay -------------------------------------------------------------------------------------------------- */

static bool replay_records(struct weir__log_reader *reader, struct weir__replay *replay, struct weir__tune_check *check)
{
	struct weir__replay_answer answers[WEIR__REPLAY_BATCH];
	const struct weir__log_record *const *records;
	size_t n;

	while ((n = weir__log_reader_next(reader, WEIR__REPLAY_BATCH, &records)) > 0) {
		weir__replay_decide(replay, records, n, answers);
		for (size_t i = 0; i < n; i++) {
			if (!weir__tune_check_add(check, records[i]->arrival, &answers[i])) {
				fputs("weir tune: no memory to count clients; use a smaller --memory\n", stderr);
				return false;
			}
		}
	}
	return is_read(reader);
}

/* Replays the whole policy with the proposed limit. */
static bool check_proposal(const struct weir__tune_options *options, struct weir__tune_found *found,
			   struct weir__tune_check *check)
{
	struct weir_policy *const policy = load_policy(options);
	struct weir__replay_options replay_options = { .begins = found->first };
	struct weir__slice names[WEIR__LOG_VALUES_MAX];
	struct weir__log_options log;
	struct weir__log_reader *reader;
	struct weir__replay *replay;
	struct weir_table_stats stats;
	struct weir_message why;
	bool is_good;

	if (policy == NULL)
		return false;
	enforce(policy, found->limit);
	policy->plans[check->plan].limit = found->tuning->points[found->tuning->best].limit;
	policy->plans[check->plan].wait = 0;
	replay_options.n_names = weir__replay_names(policy, names);
	replay_options.names = names;
	if (weir__replay_new(policy, &replay_options, &replay, &why) != WEIR_OK) {
		fprintf(stderr, "weir tune: the proposal cannot be replayed: %s\n", why.text);
		return false;
	}
	is_good = open_log(options, names, replay_options.n_names, &log, &reader);
	if (is_good) {
		is_good = replay_records(reader, replay, check);
		weir__log_reader_free(reader);
	}
	weir__replay_table_stats(replay, found->last, &stats);
	found->evicted = stats.evicted;
	weir__replay_free(replay);
	weir__tune_check_end(check);
	return is_good;
}

/* --- all of it --------------------------------------------------------------------------------------------------- */

/* Makes or replaces the file, with the mode that the user's umask gives. */
static bool write_file(const struct weir__tune_found *found, const char *option, const char *path,
		       void (*write)(FILE *, const struct weir__tune_found *))
{
	FILE *const file = fopen(path, "we");
	bool is_good = file != NULL;

	if (file) {
		write(file, found);
		is_good = !ferror(file);
		is_good = fclose(file) == 0 && is_good;
	}
	if (!is_good) {
		fprintf(stderr, "weir tune: %s ", option);
		weir__words_quoted(stderr, path, strlen(path));
		fprintf(stderr, ": %s\n", strerror(errno));
	}
	return is_good;
}

static bool choose(const struct weir__tune_options *options, struct weir__tune_found *found,
		   struct weir__tuning_wish *wish, struct weir__arrivals *arrivals, struct weir__tuning *tuning)
{
	const struct weir__policy_limit *const limit = &found->policy->limits[found->limit];
	const weir_ns lasts = found->last - found->first;
	struct weir_message why = { 0 };

	if (found->totals.records == 0) {
		fprintf(stderr, "weir tune: no request could be read; bad lines: %" PRIu64 "\n", found->totals.bad);
		return false;
	}
	if (found->applies == 0) {
		fprintf(stderr, "weir tune: the limit %s applies to no request of the log; weir explain shows why\n",
			weir_policy_limit_name(found->policy, found->limit));
		return false;
	}
	if (wish->has_denied_keys && limit->n_parts == 0) {
		fprintf(stderr,
			"weir tune: the limit %s has no key, so it cannot tell clients apart; give it a key, or use another wish\n",
			weir_policy_limit_name(found->policy, found->limit));
		return false;
	}
	if (!weir__tuning_is_of_shares(wish) && limit->n_parts > 0) {
		fprintf(stderr,
			"weir tune: the limit %s has a key, so it does not bound the sum over all clients; use a limit without a key for this wish\n",
			weir_policy_limit_name(found->policy, found->limit));
		return false;
	}
	wish->until = options->hold_out == 0 ? UINT64_MAX :
					       found->last - lasts / PERCENT * options->hold_out -
						       lasts % PERCENT * options->hold_out / PERCENT;
	found->bytes = arrivals->n * 2 * sizeof(struct weir__arrival) + weir__key_index_bytes(&arrivals->keys);
	if (!weir__arrivals_group(arrivals)) {
		fputs("weir tune: no memory; use a smaller --memory\n", stderr);
		return false;
	}
	if (weir__tuning_run(arrivals, wish, tuning, &why) != WEIR_OK) {
		fprintf(stderr, "weir tune: %s\n", why.text[0] ? why.text : strerror(errno));
		return false;
	}
	return true;
}

static int report(const struct weir__tune_found *found)
{
	const struct weir__tune_options *const options = found->options;

	if (options->write && !write_file(found, "--write", options->write, weir__tune_report_policy))
		return WEIR__TUNE_FAILED;
	if (options->svg && !write_file(found, "--svg", options->svg, weir__tune_plot))
		return WEIR__TUNE_FAILED;
	if (options->is_json)
		weir__tune_report_json(found);
	else
		weir__tune_report_text(found);
	return weir__tune_keeps(found, WEIR__TUNE_CHOSEN_BY) ? WEIR__TUNE_DONE : WEIR__TUNE_MISSED;
}

static int tune(const struct weir__tune_options *options, struct weir_policy *policy, uint32_t limit,
		struct weir__hash_secret secret)
{
	static struct weir__tuning tuning;
	struct weir__tuning_wish wish = options->wish;
	struct weir__tune_found found = {
		.options = options, .wish = &wish, .policy = policy, .limit = limit, .tuning = &tuning
	};
	struct weir__arrivals arrivals;
	struct collecting collecting = { .options = options, .policy = policy, .arrivals = &arrivals, .found = &found };
	struct weir__tune_check check;
	int status = WEIR__TUNE_FAILED;
	bool is_good;

	weir__arrivals_init(&arrivals, secret, options->memory);
	is_good = collect(&collecting) && choose(options, &found, &wish, &arrivals, &tuning);
	found.shift = arrivals.keys.shift;
	weir__arrivals_fini(&arrivals);
	if (!is_good)
		return status;
	if (!weir__tune_check_init(&check, &wish, policy->limits[limit].plan, secret, found.shift, options->memory)) {
		fputs("weir tune: no memory\n", stderr);
		return status;
	}
	if (check_proposal(options, &found, &check)) {
		found.check = &check;
		status = report(&found);
	}
	weir__tune_check_fini(&check);
	return status;
}

int weir__tune_log(const struct weir__tune_options *options)
{
	struct weir_policy *const policy = load_policy(options);
	struct weir__hash_secret secret;
	int status = WEIR__TUNE_FAILED;
	uint32_t limit;

	if (policy == NULL)
		return status;
	if (weir__memory_random(&secret, sizeof(secret)) != 0) {
		fputs("weir tune: no random numbers from the kernel\n", stderr);
	} else if (find_limit(policy, options->limit, &limit)) {
		enforce(policy, limit);
		status = tune(options, policy, limit, secret);
	}
	weir_policy_free(policy);
	return status;
}
