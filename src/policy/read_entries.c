/* read_entries.c: overrides from a file of comma-separated values.
 *
 *     api_key,limit,mode
 *     a81f,1000/s burst 2000,
 *     77c0,,off
 *
 * The first line names the columns: one to four attributes, and limit, mode or both. A value with a comma or a quote is
 * written in quotes, with each inner quote doubled. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "os/text_file.h"
#include "policy/read.h"

enum {
	COLUMNS_MAX = WEIR__ENTRY_COLUMNS_MAX + 2,
	DIFFERENT_MAX = 4096, /* different limits in one file; there may be many entries, but few plans */
	PATH_ROOM = 4096,
};

static const size_t file_most = (size_t)1 << 30;

struct table {
	struct weir__policy_reading *reading;
	struct weir__policy_limit *limit;
	struct weir__diagnostics diagnostics; /* for this file */
	struct weir__slice text;
	size_t at;
	size_t begin; /* where the current line begins */
	uint32_t line;
	uint32_t more_lines; /* line breaks within quotes of the current line */
	/* The meaning of the columns. */
	int attributes[COLUMNS_MAX]; /* attribute number, or -1 */
	int limit_column, mode_column;
	unsigned n_columns;
	/* The different plans and modes of the entries, each once. */
	struct weir__override *different;
	struct weir__slice *texts; /* their limits as text */
	uint32_t n_different;
};

/* --- lines ------------------------------------------------------------------------------------------------------ */

/* Reads a quoted field and removes its quotes in place. The text after the field does not move, so that errors report
 * the right position. */
static struct weir__slice unquote(struct table *table)
{
	char *const text = (char *)table->text.at; /* the text is this module's own copy */
	const size_t begin = table->at + 1, n = table->text.n;
	size_t length = 0, i = begin;

	for (; i < n; i++) {
		if (text[i] == '"') {
			if (i + 1 == n || text[i + 1] != '"')
				break;
			i++;
		}
		table->more_lines += text[i] == '\n';
		text[begin + length++] = text[i];
	}
	memset(text + begin + length, ' ', i - begin - length);
	table->at = i < n ? i + 1 : n;
	return (struct weir__slice){ text + begin, length };
}

static size_t end_of_field(const char *text, size_t n, size_t at)
{
	while (at < n && text[at] != ',' && text[at] != '\n' && text[at] != '\r')
		at++;
	return at;
}

/* Reads the fields of the next line that is not empty. Returns their number; 0: end of the file. Fields beyond
 * COLUMNS_MAX are counted but not stored. */
static unsigned next_line(struct table *table, struct weir__slice fields[COLUMNS_MAX])
{
	const char *const text = table->text.at;
	unsigned n = 0;

	table->line += table->more_lines;
	table->more_lines = 0;
	for (;;) {
		table->line++;
		while (table->at < table->text.n && text[table->at] == '\r')
			table->at++;
		if (table->at >= table->text.n || text[table->at] != '\n')
			break;
		table->at++;
	}
	table->begin = table->at;
	while (table->at < table->text.n) {
		struct weir__slice field;

		if (text[table->at] == '"') {
			field = unquote(table);
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

/* Where a field of the current line begins. Columns count characters, as in YAML. */
static struct weir__mark mark_of(const struct table *table, struct weir__slice field)
{
	struct weir__mark mark = { table->line, 1 };

	for (const char *at = table->text.at + table->begin; at < field.at; at++)
		if (*at == '\n')
			mark = (struct weir__mark){ mark.line + 1, 1 };
		else
			mark.column += ((unsigned char)*at & 0xc0) != 0x80; /* UTF-8 continuation bytes do not count */
	return mark;
}

static void fault(struct table *table, const char *what, struct weir__slice field)
{
	weir__diagnostics_add(&table->diagnostics, mark_of(table, field), "'%.*s': %s",
			      (int)(field.n < 80 ? field.n : 80), field.at, what);
}

static void fault_of_line(struct table *table, const char *what)
{
	weir__diagnostics_add(&table->diagnostics, (struct weir__mark){ table->line, 1 }, "%s", what);
}

static const char first_line[] = "wrong first line; name 1 to 4 attributes, and limit, mode or both";

/* Reads a column that is an attribute. */
static bool read_column(struct table *table, struct weir__slice field, int *ret_attribute)
{
	struct weir__entries *const entries = &table->limit->entries;
	struct weir__attributes *const attributes = &table->reading->policy->attributes;
	int number;

	if (!weir__attribute_is_name(field)) {
		fault(table, "invalid attribute name; use 1 to 63 bytes without control characters", field);
		return false;
	}
	if (entries->n_columns == WEIR__ENTRY_COLUMNS_MAX) {
		fault(table, first_line, field);
		return false;
	}
	number = weir__attributes_add(attributes, weir__pool_copy(&table->reading->policy->pool, field));
	if (number < 0) {
		fault(table, "too many attributes; a policy has at most 32", field);
		return false;
	}
	entries->columns[entries->n_columns] = (unsigned)number;
	entries->is_address[entries->n_columns++] = attributes->of[number].type == WEIR__ADDRESS_ATTRIBUTE;
	*ret_attribute = number;
	return true;
}

static bool read_columns(struct table *table)
{
	struct weir__slice fields[COLUMNS_MAX];

	table->n_columns = next_line(table, fields);
	table->limit_column = table->mode_column = -1;
	if (table->n_columns < 2 || table->n_columns > COLUMNS_MAX) {
		fault_of_line(table, first_line);
		return false;
	}
	for (unsigned i = 0; i < table->n_columns; i++) {
		table->attributes[i] = -1;
		if (weir__slice_is(fields[i], "limit"))
			table->limit_column = (int)i;
		else if (weir__slice_is(fields[i], "mode"))
			table->mode_column = (int)i;
		else if (!read_column(table, fields[i], &table->attributes[i]))
			return false;
	}
	if (table->limit->entries.n_columns == 0 || (table->limit_column < 0 && table->mode_column < 0)) {
		fault(table, first_line, fields[0]);
		return false;
	}
	return true;
}

/* Returns the index of the entry's plan and mode in `different`, or UINT32_MAX after a report. */
static uint32_t find_different(struct table *table, struct weir__slice text, enum weir_mode mode)
{
	struct weir__policy_reading *const reading = table->reading;
	struct weir__override *const one = &table->different[table->n_different];

	for (uint32_t i = table->n_different; i-- > 0;) /* most often the same as in the line before */
		if (table->different[i].mode == mode && weir__slice_equal(table->texts[i], text))
			return i;
	if (table->n_different == DIFFERENT_MAX) {
		fault(table, "too many limits; a file has at most 4096 different ones", text);
		return UINT32_MAX;
	}
	one->mode = mode;
	one->plan = WEIR__NO_PLAN;
	if (text.n > 0) {
		char apart[WEIR_LIMIT_TEXT_MAX + 1] = "=";
		const struct weir__slice copy = weir__pool_copy(&reading->policy->pool, text);
		const size_t shown = text.n < sizeof(apart) - 2 ? text.n : sizeof(apart) - 2;
		struct weir__diagnostics *const diagnostics = reading->diagnostics;

		if (copy.at)
			memcpy(apart + 1, text.at, shown);
		reading->diagnostics = &table->diagnostics;
		one->plan = copy.at ? weir__policy_read_plan(
					      reading, table->limit,
					      weir__policy_plan_name(reading, table->limit->name,
								     (struct weir__slice){ apart, shown + 1 }),
					      copy, mark_of(table, text)) :
				      WEIR__NO_PLAN;
		reading->diagnostics = diagnostics;
		if (one->plan == WEIR__NO_PLAN)
			return UINT32_MAX;
		weir__policy_inherit_failure(reading, table->limit, one->plan);
		weir__policy_inherit_wait(reading, table->limit, one->plan);
		table->texts[table->n_different] = copy;
	} else {
		table->texts[table->n_different] = (struct weir__slice){ "", 0 };
	}
	return table->n_different++;
}

/* Reads an address into its bytes. */
static bool read_address(struct table *table, struct weir__slice field, char *room, struct weir__slice *ret_value)
{
	struct weir__address address;

	if (!weir__address_read(field, &address)) {
		fault(table,
		      field.n > 0 && memchr(field.at, '/', field.n) ?
			      "found a network, and a row is for one address; use overrides: [{when: {ip: 10.0.0.0/8}, limit: 5/s}] in the policy" :
			      "not an address; use one such as 192.0.2.1 or 2001:db8::1",
		      field);
		return false;
	}
	*ret_value = (struct weir__slice){ room, weir__address_length(&address) };
	memcpy(room, address.bytes, ret_value->n);
	return true;
}

/* Normalises a value for comparison. Returns false after a report. */
static bool read_value(struct table *table, unsigned column, struct weir__slice field, char *room,
		       struct weir__slice *ret_value)
{
	const struct weir__attribute *const attribute =
		&table->reading->policy->attributes.of[table->attributes[column]];

	if (field.n >= WEIR__ENTRY_KEY_MAX) {
		fault(table, "value too long; use at most 1000 bytes", field);
		return false;
	}
	if (attribute->type == WEIR__ADDRESS_ATTRIBUTE)
		return read_address(table, field, room, ret_value);
	*ret_value = weir__attribute_normalise(attribute, field, room);
	return true;
}

static void read_entry(struct table *table, const struct weir__slice *fields)
{
	struct weir__slice values[WEIR__ENTRY_COLUMNS_MAX] = { { "", 0 } };
	struct weir__slice text = { fields[0].at, 0 }, first = text;
	char room[WEIR__ENTRY_COLUMNS_MAX][WEIR__ENTRY_KEY_MAX];
	enum weir_mode mode = table->limit->mode;
	struct weir__entry *entry;
	unsigned n = 0;
	uint32_t what;
	bool is_new;

	for (unsigned i = 0; i < table->n_columns; i++) {
		if (table->attributes[i] < 0)
			continue;
		first = n == 0 ? fields[i] : first;
		if (!read_value(table, i, fields[i], room[n], &values[n]))
			return;
		n++;
	}
	if (table->limit_column >= 0)
		text = fields[table->limit_column];
	if (table->mode_column >= 0 && fields[table->mode_column].n > 0 &&
	    !weir__policy_mode_of(fields[table->mode_column], &mode)) {
		fault(table, "unknown mode; use enforce, shadow or off", fields[table->mode_column]);
		return;
	}
	what = find_different(table, text, mode);
	if (what == UINT32_MAX)
		return;
	entry = weir__entries_add(&table->limit->entries, &table->reading->policy->pool, values, &is_new);
	if (entry == NULL)
		fault(table, "no memory for this row, or its values are too long", first);
	else if (!is_new)
		fault(table, "duplicate row", first);
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
			fault(table, "wrong number of values; use one for each column of the first line", fields[0]);
	}
	return true;
}

/* --- the file --------------------------------------------------------------------------------------------------- */

static bool find_path(const struct weir__policy_reading *reading, const struct weir__node *file, char path[PATH_ROOM])
{
	const bool is_absolute = file->text.n > 0 && file->text.at[0] == '/';
	const size_t folder = is_absolute ? 0 : reading->folder_length;

	if (reading->folder == NULL) {
		weir__diagnostics_add(reading->diagnostics, file->at,
				      "overrides_from works only in a policy that is a file");
		return false;
	}
	if (folder + file->text.n >= PATH_ROOM) {
		weir__diagnostics_add(reading->diagnostics, file->at, "path too long");
		return false;
	}
	memcpy(path, reading->folder, folder);
	memcpy(path + folder, file->text.at, file->text.n + 1);
	return true;
}

/* Records the file, so that the code that watches the policy also watches this file. */
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
		weir__diagnostics_add(table->reading->diagnostics, file->at, "%s: %s", path,
				      weir__text_file_error(error));
		return false;
	}
	table->text.at = text;
	note_file(table, path);
	table->diagnostics = *table->reading->diagnostics;
	table->diagnostics.file = path;
	is_good = read_table(table);
	is_good = is_good && table->diagnostics.n == table->reading->diagnostics->n;
	table->reading->diagnostics->n = table->diagnostics.n;
	free(text);
	return is_good;
}

bool weir__policy_read_entries(struct weir__policy_reading *reading, struct weir__policy_limit *limit,
			       const struct weir__node *from, const struct weir__override *before, uint32_t n_before)
{
	const struct weir__node *const file = weir__node_text(reading->diagnostics, from,
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
