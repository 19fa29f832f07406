/* table_engine.c: plays the vectors on four tables: a private one; one in shared memory; one in a file that is closed
 * and reopened between rows; and one that evicts full keys before every row. Eviction of keys that are full by every
 * clock must change no verdict. A subject is one limit of the table and one key. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "os/file.h"
#include "store/table/table.h"
#include "vector_engine.h"

/* A slot's times begin this long before `made_at`; see region.c. */
static const weir_ns before_made = UINT64_C(1) << 58;

enum { ARENA_BYTES = 2 << 20, ROWS_ALL = 3000 };

static struct {
	struct weir_table *table;
	unsigned limits;
} private_one, shared_one, evicting_one, file_one;

static struct weir_table *table_with(const struct weir_table_options *options)
{
	struct weir_table *table;
	struct weir_message why;

	if (weir_table_new(options, &table, &why) != WEIR_OK) {
		fprintf(stderr, "%s\n", why.text);
		abort();
	}
	return table;
}

static struct weir_table *table_for(weir_ns earliest, const char *shared)
{
	const struct weir_table_options options = { .size_bytes = weir_table_size(1000, 0) + ARENA_BYTES,
						    .arena_bytes = ARENA_BYTES,
						    .shared = shared,
						    .made_at = earliest + before_made };

	return table_with(&options);
}

struct subject {
	struct weir_table *table;
	const struct weir_table_limit *limit;
};

static const char key[] = "key";

enum { LIMITS = 64 };

static bool add_to(struct subject *subject, struct weir_table *table, unsigned number, const struct weir_limit *limit)
{
	char name[16];

	(void)snprintf(name, sizeof(name), "%u", number);
	subject->table = table;
	return weir_table_add_limit(table, name, limit, &subject->limit, NULL) == WEIR_OK;
}

static void *make_in(struct weir_table *table, unsigned *limits, const struct weir_limit *limit)
{
	struct subject *const subject = malloc(sizeof(*subject));

	if (subject == NULL)
		abort();
	if (add_to(subject, table, (*limits)++, limit))
		return subject;
	free(subject);
	return NULL;
}

/* A limit that cannot be compiled is played: the engine must answer "error". A limit that only the table rejects is
 * skipped. */
static const char *skips_limit(const struct weir_limit *limit, uint64_t costs)
{
	struct weir__slot_format format;
	struct weir_plan plan;

	if (weir_plan_compile(limit, &plan, NULL) != WEIR_OK)
		return NULL;
	if (limit->count_all && costs > WEIR_TABLE_COUNT_MAX)
		return "counts beyond the maxima";
	return weir__slot_format_init(&format, &plan, 0, true, NULL) == WEIR_OK ? NULL : "limits beyond the maxima";
}

static const char *skips_times(weir_ns earliest, weir_ns latest)
{
	return latest - earliest > WEIR__SLOT_TIME_MAX || earliest > UINT64_MAX / 2 ||
			       latest > UINT64_MAX - WEIR_TABLE_DURATION_MAX ?
		       "times beyond the maxima" :
		       NULL;
}

static struct weir_verdict take(void *subject_, weir_ns now, uint64_t cost)
{
	const struct subject *const subject = subject_;

	return weir_table_take(subject->table, subject->limit, key, sizeof(key), now, cost);
}

static struct weir_verdict upto(void *subject_, weir_ns now, uint64_t cost)
{
	const struct subject *const subject = subject_;

	return weir_table_upto(subject->table, subject->limit, key, sizeof(key), now, cost);
}

static struct weir_verdict peek(void *subject_, weir_ns now, uint64_t cost)
{
	const struct subject *const subject = subject_;

	return weir_table_peek(subject->table, subject->limit, key, sizeof(key), now, cost);
}

static struct weir_verdict refund(void *subject_, weir_ns now, uint64_t n)
{
	const struct subject *const subject = subject_;

	return weir_table_refund(subject->table, subject->limit, key, sizeof(key), now, n);
}

static struct weir_verdict undo(void *subject_, weir_ns now, uint64_t n, weir_ns charged_at, uint64_t cost)
{
	const struct subject *const subject = subject_;

	return weir__table_undo(subject->table, subject->limit, key, sizeof(key), now,
				&(struct weir__charge){ charged_at, cost }, n);
}

/* The last `true` applies the change even if it changes nothing: vectors expect that, and a later clock step shows it.
 * The peek is for histories, which are not converted: it applies a new clock to them under the old limit. */
static int change(void *subject_, weir_ns now, const struct weir_limit *limit)
{
	const struct subject *const subject = subject_;
	struct weir__slot_format format;
	struct weir__view view;

	weir__view_load(subject->limit, &view);
	if (weir__view_format(subject->limit, limit, false, &format, NULL) == WEIR_OK &&
	    (weir__format_has_histories(&view.format) || weir__format_has_histories(&format)))
		(void)weir_table_peek(subject->table, subject->limit, key, sizeof(key), now, 0);
	return weir__table_change_limit(subject->table, subject->limit, limit, now, true, NULL);
}

static struct weir_decision all(void *const *subjects, const uint64_t *costs, size_t n, weir_ns now,
				struct weir_verdict *verdicts)
{
	struct weir_table *const table = ((const struct subject *)subjects[0])->table;
	struct weir_claim claims[VECTOR_CLAIMS_MAX];
	struct weir_decision decision;

	for (size_t i = 0; i < n; i++)
		claims[i] = (struct weir_claim){ ((const struct subject *)subjects[i])->limit, key, sizeof(key),
						 costs[i] };
	if (weir_table_decide(table, claims, n, now, verdicts, &decision) != WEIR_OK)
		abort();
	return decision;
}

static void begin_private(weir_ns earliest, weir_ns latest)
{
	(void)latest;
	private_one.table = table_for(earliest, NULL);
	private_one.limits = 0;
}

static void *make_private(const struct weir_limit *limit, uint64_t log_room)
{
	(void)log_room;
	return make_in(private_one.table, &private_one.limits, limit);
}

static void end_private(void)
{
	weir_table_free(private_one.table);
}

/* Adds limits through one attachment and decides through another. */
static void begin_shared(weir_ns earliest, weir_ns latest)
{
	char name[40];
	struct weir_table *first;

	(void)latest;
	(void)snprintf(name, sizeof(name), "weir-vectors-%d", (int)getpid());
	first = table_for(earliest, name);
	shared_one.table = table_for(earliest, name);
	shared_one.limits = 0;
	weir_table_free(first);
	if (weir_table_unlink(name, NULL) != WEIR_OK)
		abort();
}

static void *make_shared(const struct weir_limit *limit, uint64_t log_room)
{
	(void)log_room;
	return make_in(shared_one.table, &shared_one.limits, limit);
}

static void end_shared(void)
{
	weir_table_free(shared_one.table);
}

static void begin_evicting(weir_ns earliest, weir_ns latest)
{
	(void)latest;
	evicting_one.table = table_for(earliest, NULL);
	evicting_one.limits = 0;
}

static void *make_evicting(const struct weir_limit *limit, uint64_t log_room)
{
	(void)log_room;
	return make_in(evicting_one.table, &evicting_one.limits, limit);
}

static void evict(weir_ns earliest)
{
	struct weir_table *const table = evicting_one.table;
	const struct weir_state hold = weir__atomic16_load(&table->region.header->hold);

	for (uint64_t i = 0; i < table->region.lines * WEIR__LINE_SLOTS; i++) {
		struct weir_state *const slot = &table->region.slots[i].state;

		if (weir__slot_full_at(*slot) + table->epoch > earliest ||
		    weir__table_holds(&hold, *slot, earliest - table->epoch))
			continue;
		weir__table_forget_history(table, *slot);
		*slot = (struct weir_state){ 0, 0 };
	}
}

static void end_evicting(void)
{
	weir_table_free(evicting_one.table);
}

/* What is needed to continue a vector after the file was reopened. */
static struct {
	char path[64];
	struct weir_table_options options;
	struct subject *subjects[LIMITS];
	uint64_t rows;
} in_file;

static void begin_file(weir_ns earliest, weir_ns latest)
{
	(void)latest;
	(void)snprintf(in_file.path, sizeof(in_file.path), "/dev/shm/weir-vectors-%d.table", (int)getpid());
	in_file.options = (struct weir_table_options){ .size_bytes = weir_table_size(1000, 0) + ARENA_BYTES,
						       .arena_bytes = ARENA_BYTES,
						       .file = in_file.path,
						       .made_at = earliest + before_made };
	in_file.rows = 0;
	file_one.table = table_with(&in_file.options);
	file_one.limits = 0;
}

static void *make_file(const struct weir_limit *limit, uint64_t log_room)
{
	struct subject *const subject = make_in(file_one.table, &file_one.limits, limit);

	(void)log_room;
	in_file.subjects[file_one.limits - 1] = subject;
	return subject;
}

/* Leaves the table as a killed process does. */
static void leave(struct weir_table *table)
{
	weir__file_close(table->region.file);
	table->region.file = -1;
	weir_table_free(table);
}

/* Reopens before each of a vector's first 100 rows and then before every 1000th; alternately after a clean close and a
 * kill. */
static void reopen(weir_ns earliest)
{
	struct weir_limit limits[LIMITS];

	(void)earliest;
	static unsigned rows; /* in all vectors: after ROWS_ALL, only every 16th reopens */

	if ((in_file.rows++ >= 100 && in_file.rows % 1000 != 0) || (rows++ >= ROWS_ALL && rows % 16 != 0))
		return;
	for (unsigned i = 0; i < file_one.limits; i++)
		if (in_file.subjects[i])
			limits[i] = weir_table_limit_limit(in_file.subjects[i]->limit);
	if (in_file.rows % 2)
		leave(file_one.table);
	else
		weir_table_free(file_one.table);
	file_one.table = table_with(&in_file.options);
	for (unsigned i = 0; i < file_one.limits; i++)
		if (in_file.subjects[i])
			(void)add_to(in_file.subjects[i], file_one.table, i, &limits[i]);
}

static void end_file(void)
{
	weir_table_free(file_one.table);
	unlink(in_file.path);
}

#define TABLE_ENGINE(kind, words, evict_function)                                                                      \
	const struct vector_engine words = {                                                                           \
		.begin = begin_##kind,                                                                                 \
		.end = end_##kind,                                                                                     \
		.between = evict_function,                                                                             \
		.skips_limit = skips_limit,                                                                            \
		.skips_times = skips_times,                                                                            \
		.make = make_##kind,                                                                                   \
		.drop = free,                                                                                          \
		.take = take,                                                                                          \
		.upto = upto,                                                                                          \
		.peek = peek,                                                                                          \
		.refund = refund,                                                                                      \
		.undo = undo,                                                                                          \
		.change = change,                                                                                      \
		.all = all,                                                                                            \
		.name = #kind " table",                                                                                \
	}

TABLE_ENGINE(private, table_engine, NULL);
TABLE_ENGINE(shared, shared_table_engine, NULL);
TABLE_ENGINE(file, file_table_engine, reopen);
TABLE_ENGINE(evicting, evicting_table_engine, evict);
