/* read_entries.c: overrides from a file of comma-separated values.
 *
 *     api_key,limit,mode
 *     a81f,1000/s burst 2000,
 *     77c0,,off
 *
 * The first line names the columns: one to four attributes, and limit, mode or both. A value with a comma or a quote in it
 * is in quotes, with each quote within twice. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "os/text_file.h"
#include "policy/read.h"

enum {
	COLUMNS_MAX = WEIR__ENTRY_COLUMNS_MAX + 2,
	DIFFERENT_MAX = 4096, /* limits in one file; entries may be many, plans not */
	PATH_ROOM = 4096,
};

static const size_t file_most = (size_t)1 << 30;

struct table {
	struct weir__policy_reading *reading;
	struct weir__policy_limit *limit;
	struct weir__faults faults; /* of this file */
	struct weir__slice text;
	size_t at;
	uint32_t line;
	/* What the columns are. */
	int attributes[COLUMNS_MAX]; /* or -1 */
	int limit_column, mode_column;
	unsigned n_columns;
	/* What entries come to, each once. */
	struct weir__override *different;
	struct weir__slice *texts; /* limits of these */
	uint32_t n_different;
};

/* --- lines ------------------------------------------------------------------------------------------------------ */

/* A field in quotes, which are taken away in place. *at is behind the closing one. */
static struct weir__slice unquote(char *text, size_t n, size_t *at)
{
	char *const start = text + *at + 1;
	size_t length = 0, i = *at + 1;

	for (; i < n; i++) {
		if (text[i] == '"') {
			if (i + 1 == n || text[i + 1] != '"')
				break;
			i++;
		}
		start[length++] = text[i];
	}
	*at = i < n ? i + 1 : n;
	return (struct weir__slice){ start, length };
}

static size_t end_of_field(const char *text, size_t n, size_t at)
{
	while (at < n && text[at] != ',' && text[at] != '\n' && text[at] != '\r')
		at++;
	return at;
}

/* The fields of the next line that is not empty; 0: there are no more. More than there is room for are counted. */
static unsigned next_line(struct table *table, struct weir__slice fields[COLUMNS_MAX])
{
	char *const text = (char *)table->text.at; /* it is our own */
	unsigned n = 0;

	for (;;) {
		table->line++;
		while (table->at < table->text.n && text[table->at] == '\r')
			table->at++;
		if (table->at >= table->text.n || text[table->at] != '\n')
			break;
		table->at++;
	}
	while (table->at < table->text.n) {
		struct weir__slice field;

		if (text[table->at] == '"') {
			field = unquote(text, table->text.n, &table->at);
			table->at = end_of_field(text, table->text.n, table->at);
		} else {
			field.at = text + table->at;
			table->at = end_of_field(text, table->text.n, table->at);
			field.n = (size_t)(text + table->at - field.at);
		}
		if (n < COLUMNS_MAX)
			fields[n] = field;
		n++;
		while (table->at < table->text.n && text[table->at] == '\r')
			table->at++;
		if (table->at < table->text.n && text[table->at++] == '\n')
			break;
	}
	return n;
}

static void fault(struct table *table, const char *what, struct weir__slice word)
{
	weir__fault(&table->faults, (struct weir__mark){ table->line, 1 }, "'%.*s': %s",
		    (int)(word.n < 80 ? word.n : 80), word.at, what);
}

static bool read_columns(struct table *table)
{
	struct weir__slice fields[COLUMNS_MAX];
	struct weir__entries *const entries = &table->limit->entries;
	struct weir__attributes *const attributes = &table->reading->policy->attributes;

	table->n_columns = next_line(table, fields);
	table->limit_column = table->mode_column = -1;
	if (table->n_columns < 2 || table->n_columns > COLUMNS_MAX) {
		fault(table, "the first line names 1 to 4 attributes, and limit, mode or both", weir__slice_of(""));
		return false;
	}
	for (unsigned i = 0; i < table->n_columns; i++) {
		table->attributes[i] = -1;
		if (weir__slice_is(fields[i], "limit"))
			table->limit_column = (int)i;
		else if (weir__slice_is(fields[i], "mode"))
			table->mode_column = (int)i;
		else if (!weir__attribute_is_name(fields[i])) {
			fault(table, "the name of an attribute has 1 to 63 bytes, and no control characters",
			      fields[i]);
			return false;
		} else if (entries->n_columns < WEIR__ENTRY_COLUMNS_MAX) {
			table->attributes[i] = weir__attributes_add(
				attributes, weir__pool_copy(&table->reading->policy->pool, fields[i]));
			if (table->attributes[i] < 0) {
				fault(table, "one attribute too many: a policy has at most 32", fields[i]);
				return false;
			}
			entries->columns[entries->n_columns++] = (unsigned)table->attributes[i];
		}
	}
	if (entries->n_columns == 0 || (table->limit_column < 0 && table->mode_column < 0)) {
		fault(table, "the first line names 1 to 4 attributes, and limit, mode or both", fields[0]);
		return false;
	}
	return true;
}

/* The number of what an entry comes to, or UINT32_MAX after a report. */
static uint32_t find_different(struct table *table, struct weir__slice text, enum weir_mode mode)
{
	struct weir__policy_reading *const reading = table->reading;
	struct weir__override *const one = &table->different[table->n_different];

	for (uint32_t i = table->n_different; i-- > 0;) /* most often the one before */
		if (table->different[i].mode == mode && weir__slice_equal(table->texts[i], text))
			return i;
	if (table->n_different == DIFFERENT_MAX) {
		fault(table, "one limit too many: a file has at most 4096 different ones", text);
		return UINT32_MAX;
	}
	one->mode = mode;
	one->plan = WEIR__NO_PLAN;
	if (text.n > 0) {
		char apart[WEIR_LIMIT_TEXT_MAX + 1] = "=";
		const struct weir__slice copy = weir__pool_copy(&reading->policy->pool, text);
		const size_t shown = text.n < sizeof(apart) - 2 ? text.n : sizeof(apart) - 2;
		struct weir__faults *const faults = reading->faults;

		if (copy.at)
			memcpy(apart + 1, text.at, shown);
		reading->faults = &table->faults;
		one->plan = copy.at ? weir__policy_read_plan(
					      reading,
					      weir__policy_plan_name(reading, table->limit->name,
								     (struct weir__slice){ apart, shown + 1 }),
					      copy, (struct weir__mark){ table->line, 1 }) :
				      WEIR__NO_PLAN;
		reading->faults = faults;
		if (one->plan == WEIR__NO_PLAN)
			return UINT32_MAX;
		weir__policy_inherit_failure(reading, table->limit, one->plan);
		table->texts[table->n_different] = copy;
	} else {
		table->texts[table->n_different] = (struct weir__slice){ "", 0 };
	}
	return table->n_different++;
}

static void read_entry(struct table *table, const struct weir__slice *fields)
{
	struct weir_policy *const policy = table->reading->policy;
	struct weir__slice values[WEIR__ENTRY_COLUMNS_MAX] = { { "", 0 } };
	char room[WEIR__ENTRY_COLUMNS_MAX][WEIR__ENTRY_KEY_MAX];
	enum weir_mode mode = table->limit->mode;
	struct weir__slice text = { "", 0 };
	struct weir__entry *entry;
	unsigned n = 0;
	uint32_t what;
	bool is_new;

	for (unsigned i = 0; i < table->n_columns; i++) {
		if (table->attributes[i] < 0)
			continue;
		if (fields[i].n >= WEIR__ENTRY_KEY_MAX) {
			fault(table, "too long: values of an entry have at most 1000 bytes", fields[i]);
			return;
		}
		values[n] = weir__attribute_normalise(&policy->attributes.of[table->attributes[i]], fields[i], room[n]);
		n++;
	}
	if (table->limit_column >= 0)
		text = fields[table->limit_column];
	if (table->mode_column >= 0 && fields[table->mode_column].n > 0 &&
	    !weir__policy_mode_of(fields[table->mode_column], &mode)) {
		fault(table, "a mode is enforce, shadow or off", fields[table->mode_column]);
		return;
	}
	what = find_different(table, text, mode);
	if (what == UINT32_MAX)
		return;
	entry = weir__entries_add(&table->limit->entries, &policy->pool, values, &is_new);
	if (entry == NULL)
		fault(table, "no memory for this entry, or its values are too long", values[0]);
	else if (!is_new)
		fault(table, "there is an entry for it before", values[0]);
	else
		entry->what = what;
}

static uint64_t count_lines(struct weir__slice text)
{
	uint64_t n = 1;

	for (const char *at = text.at, *end = text.at + text.n; (at = memchr(at, '\n', (size_t)(end - at))); at++)
		n++;
	return n;
}

static bool read_table(struct table *table)
{
	struct weir__slice fields[COLUMNS_MAX] = { { "", 0 } };
	unsigned n;

	if (!read_columns(table) ||
	    !weir__entries_init(&table->limit->entries, &table->reading->policy->pool, count_lines(table->text)))
		return false;
	while ((n = next_line(table, fields)) > 0) {
		if (n == table->n_columns)
			read_entry(table, fields);
		else
			fault(table, "as many values as columns are named in the first line", fields[0]);
	}
	return true;
}

/* --- the file --------------------------------------------------------------------------------------------------- */

static bool find_path(const struct weir__policy_reading *reading, const struct weir__node *file, char path[PATH_ROOM])
{
	const bool is_absolute = file->text.n > 0 && file->text.at[0] == '/';
	const size_t folder = is_absolute ? 0 : reading->folder_length;

	if (reading->folder == NULL) {
		weir__fault(reading->faults, file->at, "a file cannot be named in a policy that is not one itself");
		return false;
	}
	if (folder + file->text.n >= PATH_ROOM) {
		weir__fault(reading->faults, file->at, "too long for a path");
		return false;
	}
	memcpy(path, reading->folder, folder);
	memcpy(path + folder, file->text.at, file->text.n + 1);
	return true;
}

/* Whoever watches a policy watches the files that it names, too. */
static void note_file(const struct table *table, const char *path)
{
	struct weir_policy *const policy = table->reading->policy;
	struct weir__policy_file *const note = weir__pool_take(&policy->pool, sizeof(*note));

	if (note == NULL)
		return;
	note->path = weir__pool_copy(&policy->pool, weir__slice_of(path));
	note->hash = weir__policy_hash(0, table->text.at, table->text.n);
	note->next = policy->files;
	if (note->path.at)
		policy->files = note;
}

static bool read_file(struct table *table, const struct weir__node *file)
{
	char path[PATH_ROOM], *text;
	int error;
	bool is_good;

	if (!find_path(table->reading, file, path))
		return false;
	error = weir__text_file_read(path, file_most, &text, &table->text.n);
	if (error != 0) {
		weir__fault(table->reading->faults, file->at, "%s: %s", path, strerror(error));
		return false;
	}
	table->text.at = text;
	note_file(table, path);
	table->faults = *table->reading->faults;
	table->faults.file = path;
	is_good = read_table(table);
	is_good = is_good && table->faults.n == table->reading->faults->n;
	table->reading->faults->n = table->faults.n;
	free(text);
	return is_good;
}

bool weir__policy_read_entries(struct weir__policy_reading *reading, struct weir__policy_limit *limit,
			       const struct weir__node *from, const struct weir__override *before, uint32_t n_before)
{
	const struct weir__node *const file = weir__node_text(reading->faults, from,
							      "overrides_from, the path of a file,");
	struct table table = { .reading = reading, .limit = limit };
	struct weir__override *all;

	if (file == NULL)
		return false;
	all = weir__pool_take_array(&reading->policy->pool, n_before + DIFFERENT_MAX, sizeof(*all));
	table.texts = calloc(DIFFERENT_MAX, sizeof(table.texts[0]));
	if (all == NULL || table.texts == NULL) {
		free(table.texts);
		return weir__policy_no_memory(reading, from->at);
	}
	if (n_before > 0)
		memcpy(all, before, n_before * sizeof(*all));
	table.different = all + n_before;
	limit->instead = all;
	if (!read_file(&table, file)) {
		free(table.texts);
		return false;
	}
	free(table.texts);
	return true;
}
