/* log_csv.c: each column has its uses. */
#include "replay/log_csv.h"

#include <errno.h>
#include <stdlib.h>

#include "core/text.h"

enum { COLUMNS_MAX = 128 };

struct weir__log_csv {
	char separator;
	size_t n;
	struct column {
		uint8_t n_uses;
		struct weir__log_field uses[WEIR__LOG_USES_MAX];
	} columns[COLUMNS_MAX];
};

/* Takes a value and the separator behind it. Returns false if its quotes are wrong. */
static bool take_value(struct weir__slice *rest, char separator, char **room, struct weir__slice *ret_value)
{
	const char *const end = rest->at + rest->n;
	const char *at = rest->at;
	char *to = *room;

	if (rest->n == 0 || *at != '"') {
		const char *const next = memchr(at, separator, rest->n);

		*ret_value = (struct weir__slice){ at, (size_t)((next ? next : end) - at) };
		at = next ? next : end;
	} else {
		for (at++;; at += 2) {
			const char *const quote = memchr(at, '"', (size_t)(end - at));

			if (quote == NULL)
				return false;
			memcpy(to, at, (size_t)(quote - at));
			to += quote - at;
			at = quote;
			if (at + 1 == end || at[1] != '"')
				break;
			*to++ = '"';
		}
		*ret_value = (struct weir__slice){ *room, (size_t)(to - *room) };
		*room = to;
		at++;
	}
	if (at < end && *at != separator)
		return false;
	/* An empty value may follow the last separator, so `rest` then still has a place. */
	*rest = at < end ? (struct weir__slice){ at + 1, (size_t)(end - at - 1) } : (struct weir__slice){ NULL, 0 };
	return true;
}

static char separator_of(struct weir__slice header)
{
	if (memchr(header.at, ',', header.n))
		return ',';
	if (memchr(header.at, '\t', header.n))
		return '\t';
	return memchr(header.at, ';', header.n) ? ';' : ',';
}

static int refuse(struct weir_message *ret_message, const char *what)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, what);
	return WEIR_ERR_SYNTAX;
}

static int read_header(struct weir__log_csv *csv, struct weir__slice header, struct weir__log_fields *fields,
		       char *room, struct weir_message *ret_message)
{
	bool has_time = false;

	while (header.at) {
		struct column *const column = &csv->columns[csv->n];
		struct weir__slice name;

		if (csv->n == COLUMNS_MAX)
			return refuse(ret_message, "csv: the header has more than 128 columns");
		if (!take_value(&header, csv->separator, &room, &name))
			return refuse(ret_message, "csv: the header has a quote that does not end");
		column->n_uses = (uint8_t)weir__log_fields_find(fields, name, column->uses);
		for (size_t i = 0; i < column->n_uses; i++)
			has_time |= column->uses[i].to == WEIR__LOG_TIME || column->uses[i].to == WEIR__LOG_START;
		csv->n++;
	}
	return has_time ? WEIR_OK :
			  refuse(ret_message, "csv: no column of the header is a time; use --map time=COLUMN");
}

int weir__log_csv_new(struct weir__slice header, struct weir__log_fields *fields, struct weir__log_csv **ret_csv,
		      struct weir_message *ret_message)
{
	struct weir__log_csv *const csv = calloc(1, sizeof(*csv));
	char *const room = malloc(header.n + 1);
	int error = WEIR_ERR_SYSTEM;

	if (csv && room) {
		csv->separator = separator_of(header);
		error = read_header(csv, header, fields, room, ret_message);
	} else {
		errno = ENOMEM;
	}
	free(room);
	if (error != WEIR_OK)
		free(csv);
	else
		*ret_csv = csv;
	return error;
}

void weir__log_csv_free(struct weir__log_csv *csv)
{
	free(csv);
}

const char *weir__log_csv_parse(const struct weir__log_csv *csv, struct weir__log_fields *fields,
				struct weir__slice bytes, char *room, struct weir__log_line *line)
{
	size_t column = 0;

	for (; bytes.at && column < csv->n; column++) {
		const struct column *const of = &csv->columns[column];
		struct weir__slice value;

		if (!take_value(&bytes, csv->separator, &room, &value))
			return "it has a quote that does not end";
		for (size_t i = 0; i < of->n_uses; i++) {
			const char *const why = weir__log_field_set(fields, &of->uses[i], value, line);

			if (why)
				return why;
		}
	}
	if (column != csv->n || bytes.at)
		return "it does not have as many columns as the header";
	return line->has_stamp ? NULL : "it has no time";
}
