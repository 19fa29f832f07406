/* table_report.c: what weir table prints. Any process that may write a table can put any bytes into it. So text from a
 * table is printed quoted, and a number from a table is never used as an index. */
#include "cli/table_report.h"

#include <grp.h>
#include <inttypes.h>
#include <pwd.h>
#include <time.h>

#include "cli/table_limits.h"
#include "cli/words.h"
#include "os/monotonic.h"

static void quote(const char *text)
{
	weir__words_quoted(stdout, text, strlen(text));
}

/* --- who may use it --------------------------------------------------------------------------------------------- */

static const char *owner_name(const struct weir__memory_status *status)
{
	const struct passwd *const account = getpwuid(status->owner);

	return account ? account->pw_name : NULL;
}

static const char *group_name(const struct weir__memory_status *status)
{
	const struct group *const account = getgrgid(status->group);

	return account ? account->gr_name : NULL;
}

/* Returns the name, or the number as text if `name` is NULL. */
static const char *name_or_number(const char *name, uint32_t number, char *text)
{
	if (name)
		return name;
	(void)snprintf(text, WEIR__WORDS_SIZE, "%" PRIu32, number);
	return text;
}

static void json_name(struct weir__json *json, const char *member, const char *name)
{
	if (name)
		weir__json_text(json, member, name);
	else
		weir__json_word(json, member, "null");
}

static void json_status(struct weir__json *json, const struct weir__memory_status *status)
{
	char mode[8];

	json_name(json, "owner", owner_name(status));
	weir__json_number(json, "owner_id", status->owner);
	json_name(json, "group", group_name(status));
	weir__json_number(json, "group_id", status->group);
	(void)snprintf(mode, sizeof(mode), "%04" PRIo32, status->mode);
	weir__json_text(json, "mode", mode);
}

/* --- info ------------------------------------------------------------------------------------------------------- */

struct info {
	const struct weir_table *table;
	const char *name;
	const struct weir__memory_status *status;
	struct weir_table_stats stats;
	struct weir__limit_rows limits;
	weir_ns now, wall;
};

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static weir_ns good_until(const struct info *info)
{
	return info->table->epoch + WEIR__SLOT_TIME_MAX;
}

static void print_times(const struct info *info)
{
	const weir_ns made_at = weir__region_made_at(&info->table->region);
	const bool is_ahead = info->now > info->wall;
	char text[WEIR__WORDS_SIZE];

	weir__words_instant(made_at, text);
	printf("made at      %s\n", made_at ? text : "unknown");
	weir__words_instant(good_until(info), text);
	printf("good until   %s%s\n", text, info->now > good_until(info) ? ": the clock stands still" : "");
	weir__words_instant(info->now, text);
	printf("clock        %s by %s, ", text, info->table->clock.uses_tsc ? "tsc" : "monotonic");
	weir__words_span(is_ahead ? info->now - info->wall : info->wall - info->now, text);
	printf("%s %s the wall clock\n", text, is_ahead ? "ahead of" : "behind");
}

static void print_probes(const struct weir_table_stats *stats)
{
	static const char *const lines[] = { "first", "second", "third", "fourth" };
	uint64_t all = stats->absent;

	for (int i = 0; i < 4; i++)
		all += stats->probes[i];
	fputs("found in     ", stdout);
	for (int i = 0; i < 4; i++)
		printf("%s line %.1f %%, ", lines[i], percent(stats->probes[i], all));
	printf("nowhere %.1f %%\n", percent(stats->absent, all));
}

static void print_limits(const struct info *info)
{
	const struct weir__limit_rows *const limits = &info->limits;

	printf("limits       %zu of %" PRIu32 "\n", limits->n, info->stats.limits_max);
	if (limits->n > 0)
		puts("\n     allowed       denied  limit");
	for (const struct weir__limit_row *limit = limits->rows; limit < limits->rows + limits->n; limit++) {
		printf("%12" PRIu64 " %12" PRIu64 "  ", limit->counted.allowed, limit->counted.denied);
		if (limit->words.text[0] == '\0') {
			puts("(not written, or damaged)");
			continue;
		}
		quote(limit->words.name);
		printf(": %s\n", limit->words.text);
	}
}

/* For tables in files. */
static void print_damage(const struct weir_table_stats *stats)
{
	char text[WEIR__WORDS_SIZE];

	weir__words_instant(stats->damaged_at, text);
	printf("damaged      %" PRIu64 " pages, %" PRIu64 " slots, %" PRIu64 " limits, %" PRIu64 " fields%s%s\n",
	       stats->damaged_pages, stats->damaged_slots, stats->damaged_limits, stats->damaged_fields,
	       stats->damaged_at ? "; started over, last at " : "", stats->damaged_at ? text : "");
}

static void print_info(const struct info *info)
{
	const struct weir_table_stats *const stats = &info->stats;
	char text[WEIR__WORDS_SIZE];

	fputs("table        ", stdout);
	quote(info->name);
	printf("\nowner        %s", name_or_number(owner_name(info->status), info->status->owner, text));
	printf(", group %s", name_or_number(group_name(info->status), info->status->group, text));
	printf(", mode %04" PRIo32 "\n", info->status->mode);
	print_times(info);
	weir__words_size(stats->size_bytes, text);
	printf("size         %s (%zu bytes)\n", text, stats->size_bytes);
	printf("slots        %" PRIu64 "\n", stats->capacity);
	printf("live keys    %" PRIu64 " (%.1f %%)\n", stats->live, percent(stats->live, stats->capacity));
	printf("inserted     %" PRIu64 "\n", stats->inserted);
	printf("evicted      %" PRIu64 "\n", stats->evicted);
	if (stats->arena_bytes > 0) {
		weir__words_size(stats->arena_bytes, text);
		printf("arena        %s (%zu bytes), %.1f %% used\n", text, stats->arena_bytes,
		       percent(stats->arena_used, stats->arena_bytes));
		printf("regained     %" PRIu64 "\nfolded       %" PRIu64 "\n", stats->regained, stats->folded);
	}
	printf("lost races   %" PRIu64 "\n", stats->lost_races);
	if (info->table->region.file >= 0)
		print_damage(stats);
	print_probes(stats);
	print_limits(info);
}

static void json_instant(struct weir__json *json, const char *member, weir_ns at)
{
	char text[WEIR__WORDS_SIZE];

	weir__words_instant(at, text);
	weir__json_text(json, member, text);
}

static void json_times(struct weir__json *json, const struct info *info)
{
	const weir_ns made_at = weir__region_made_at(&info->table->region);
	char text[WEIR__WORDS_SIZE];

	if (made_at)
		json_instant(json, "made_at", made_at);
	else
		weir__json_word(json, "made_at", "null");
	json_instant(json, "good_from", info->table->epoch);
	json_instant(json, "good_until", good_until(info));
	json_instant(json, "clock", info->now);
	weir__json_text(json, "clock_source", info->table->clock.uses_tsc ? "tsc" : "monotonic");
	(void)snprintf(text, sizeof(text), "%" PRId64, (int64_t)(info->now - info->wall));
	weir__json_word(json, "clock_ahead_ns", text);
}

static void json_stats(struct weir__json *json, const struct weir_table_stats *stats)
{
	char text[128];

	weir__json_number(json, "size_bytes", stats->size_bytes);
	weir__json_number(json, "slots", stats->capacity);
	weir__json_number(json, "live", stats->live);
	(void)snprintf(text, sizeof(text), "%.4f", percent(stats->live, stats->capacity));
	weir__json_word(json, "fill_percent", text);
	weir__json_number(json, "inserted", stats->inserted);
	weir__json_number(json, "evicted", stats->evicted);
	weir__json_number(json, "arena_bytes", stats->arena_bytes);
	weir__json_number(json, "arena_used", stats->arena_used);
	weir__json_number(json, "regained", stats->regained);
	weir__json_number(json, "folded", stats->folded);
	weir__json_number(json, "lost_races", stats->lost_races);
	(void)snprintf(text, sizeof(text), "[%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 "]", stats->probes[0],
		       stats->probes[1], stats->probes[2], stats->probes[3]);
	weir__json_word(json, "probes", text);
	weir__json_number(json, "absent", stats->absent);
	weir__json_number(json, "plans_lost", stats->plans_lost);
}

static void json_damage(struct weir__json *json, const struct weir_table_stats *stats)
{
	weir__json_number(json, "damaged_pages", stats->damaged_pages);
	weir__json_number(json, "damaged_slots", stats->damaged_slots);
	weir__json_number(json, "damaged_limits", stats->damaged_limits);
	weir__json_number(json, "damaged_fields", stats->damaged_fields);
	if (stats->damaged_at)
		json_instant(json, "damaged_at", stats->damaged_at);
	else
		weir__json_word(json, "damaged_at", "null");
}

static void json_limits(struct weir__json *json, const struct info *info)
{
	const struct weir__limit_rows *const limits = &info->limits;

	weir__json_number(json, "limits_max", info->stats.limits_max);
	weir__json_open(json, "limits", '[');
	for (const struct weir__limit_row *limit = limits->rows; limit < limits->rows + limits->n; limit++) {
		const bool is_known = limit->words.text[0] != '\0';

		weir__json_open(json, NULL, '{');
		json_name(json, "name", is_known ? limit->words.name : NULL);
		json_name(json, "text", is_known ? limit->words.text : NULL);
		weir__json_number(json, "allowed", limit->counted.allowed);
		weir__json_number(json, "denied", limit->counted.denied);
		weir__json_close(json, '}');
	}
	weir__json_close(json, ']');
}

static void json_info(const struct info *info)
{
	struct weir__json json = { .out = stdout };

	weir__json_open(&json, NULL, '{');
	weir__json_text(&json, "table", info->name);
	json_status(&json, info->status);
	json_times(&json, info);
	json_stats(&json, &info->stats);
	if (info->table->region.file >= 0)
		json_damage(&json, &info->stats);
	json_limits(&json, info);
	weir__json_close(&json, '}');
}

bool weir__table_report_info(struct weir_table *table, const char *name, const struct weir__memory_status *status,
			     bool is_json)
{
	struct info info = { .table = table, .name = name, .status = status, .now = weir_table_now(table) };

	info.wall = weir__unix_ns();
	weir_table_stats(table, info.now, &info.stats);
	if (!weir__limit_rows_init(&info.limits, table))
		return false;
	if (is_json)
		json_info(&info);
	else
		print_info(&info);
	weir__limit_rows_fini(&info.limits);
	return true;
}

/* --- get and reset ---------------------------------------------------------------------------------------------- */

static weir_ns full_in(const struct weir__key_report *report)
{
	return report->known.full_at > report->now ? report->known.full_at - report->now : 0;
}

static void quote_key(const struct weir__key_report *report)
{
	weir__words_quoted(stdout, report->key, report->key_length);
	fputs(" under ", stdout);
	quote(report->limit);
	printf(": %s\n", report->text);
}

static void print_full_at(const char *label, const struct weir__key_report *report)
{
	char at[WEIR__WORDS_SIZE], in[WEIR__WORDS_SIZE];

	weir__words_instant(report->known.full_at, at);
	weir__words_span(full_in(report), in);
	if (!report->known.is_stored)
		printf("%s now\n", label);
	else if (full_in(report) == 0)
		printf("%s %s: its slot is free for others\n", label, at);
	else
		printf("%s %s, in %s\n", label, at, in);
}

static void json_key(const struct weir__key_report *report)
{
	const struct weir_verdict *const verdict = &report->known.verdict;
	struct weir__json json = { .out = stdout };

	weir__json_open(&json, NULL, '{');
	weir__json_text(&json, "table", report->table);
	weir__json_text(&json, "limit", report->limit);
	weir__json_text(&json, "text", report->text);
	weir__json_bytes(&json, "key", report->key, report->key_length);
	weir__json_word(&json, "stored", report->known.is_stored ? "true" : "false");
	weir__json_number(&json, "remaining", verdict->remaining);
	weir__json_number(&json, "most", verdict->limit);
	if (verdict->never)
		weir__json_word(&json, "retry_after_ns", "null");
	else
		weir__json_number(&json, "retry_after_ns", verdict->retry_after);
	weir__json_number(&json, "delay_ns", verdict->delay);
	if (report->known.is_stored)
		json_instant(&json, "full_at", report->known.full_at);
	else
		weir__json_word(&json, "full_at", "null");
	weir__json_number(&json, "full_in_ns", full_in(report));
	weir__json_close(&json, '}');
}

void weir__table_report_key(const struct weir__key_report *report, bool is_json)
{
	const struct weir_verdict *const verdict = &report->known.verdict;
	char text[WEIR__WORDS_SIZE];

	if (is_json) {
		json_key(report);
		return;
	}
	fputs("key          ", stdout);
	quote_key(report);
	printf("stored       %s\n", report->known.is_stored ? "yes" : "no: the key is full");
	printf("remaining    %" PRIu64 " of %" PRIu64 "\n", verdict->remaining, verdict->limit);
	weir__words_span(verdict->retry_after, text);
	printf("retry after  %s, for one\n", verdict->never ? "never" : text);
	weir__words_span(verdict->delay, text);
	if (verdict->delay > 0)
		printf("delay        %s, for a request now\n", text);
	print_full_at("full at     ", report);
}

void weir__table_report_forgotten(const struct weir__key_report *report, bool is_json)
{
	const struct weir_verdict *const verdict = &report->known.verdict;

	if (is_json) {
		json_key(report);
		return;
	}
	fputs("forgotten    ", stdout);
	quote_key(report);
	printf("used         %" PRIu64 " of %" PRIu64 "\n", verdict->limit - verdict->remaining, verdict->limit);
	print_full_at("until       ", report);
}

/* --- list ------------------------------------------------------------------------------------------------------- */

void weir__table_list_begin(struct weir__table_list *list, bool is_json)
{
	*list = (struct weir__table_list){ .json = { .out = stdout }, .is_json = is_json };
	if (is_json)
		weir__json_open(&list->json, NULL, '[');
}

static void json_row(struct weir__json *json, const char *name, const struct weir__memory_status *status,
		     const char *problem)
{
	weir__json_open(json, NULL, '{');
	weir__json_text(json, "table", name);
	weir__json_number(json, "size_bytes", status->size_bytes);
	json_status(json, status);
	json_name(json, "problem", problem);
	weir__json_close(json, '}');
}

void weir__table_list_add(struct weir__table_list *list, const char *name, const struct weir__memory_status *status,
			  const char *problem)
{
	char size[WEIR__WORDS_SIZE], owner[WEIR__WORDS_SIZE];

	if (list->is_json) {
		json_row(&list->json, name, status, problem);
	} else {
		if (list->rows == 0)
			puts("      size  mode  owner             table");
		weir__words_size(status->size_bytes, size);
		printf("%10s  %04" PRIo32 "  %-16s  ", size, status->mode,
		       name_or_number(owner_name(status), status->owner, owner));
		quote(name);
		printf("%s%s\n", problem ? ": " : "", problem ? problem : "");
	}
	list->rows++;
}

void weir__table_list_end(struct weir__table_list *list)
{
	if (list->is_json)
		weir__json_close(&list->json, ']');
	else if (list->rows == 0)
		puts("no shared tables");
}
