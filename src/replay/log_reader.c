/* log_reader.c: merges inputs by the times of their lines. */
#include "replay/log_reader.h"

#include <errno.h>
#include <stdlib.h>

#include "core/text.h"
#include "replay/log_input.h"
#include "replay/log_order.h"

enum { HELD_MAX = 256 << 20 };

/* An input, and its first line that the order has not got yet. */
struct source {
	struct weir__log_input *input;
	bool is_at_end;
	uint64_t number;
	struct weir__log_line line;
};

struct weir__log_reader {
	struct weir__log_order *order;
	bool is_at_end, is_out_of_memory;
	size_t current; /* the source from which lines are taken */
	weir_ns until;  /* the latest time until which that holds */
	size_t n;
	struct source sources[];
};

static void advance(struct source *source)
{
	source->is_at_end = !weir__log_input_next(source->input, &source->line, &source->number);
}

/* Finds the source with the oldest line, the first of several, and up to which time its lines stay the oldest. */
static bool choose(struct weir__log_reader *reader)
{
	bool is_found = false;

	reader->until = WEIR_NEVER;
	for (size_t i = 0; i < reader->n; i++) {
		const struct source *const source = &reader->sources[i], *const best =
										 &reader->sources[reader->current];

		if (source->is_at_end)
			continue;
		if (is_found && source->line.stamp.at >= best->line.stamp.at) {
			if (source->line.stamp.at < reader->until)
				reader->until = source->line.stamp.at;
			continue;
		}
		if (is_found)
			reader->until = best->line.stamp.at;
		reader->current = i;
		is_found = true;
	}
	return is_found;
}

/* Passes one more line to the order. */
static bool feed(struct weir__log_reader *reader)
{
	struct source *source = &reader->sources[reader->current];

	if (source->is_at_end || source->line.stamp.at > reader->until) {
		if (!choose(reader))
			return false;
		source = &reader->sources[reader->current];
	}
	if (!weir__log_order_add(reader->order, &source->line, (uint32_t)reader->current, source->number)) {
		reader->is_out_of_memory = true;
		return false;
	}
	advance(source);
	return true;
}

static int refuse(struct weir_message *ret_message, const char *what)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, what);
	return WEIR_ERR_LIMIT;
}

/* Some input must have the field of each map. Lines of JSON may have any field. */
static int check_maps(const struct weir__log_options *options, const struct weir__log_reader *reader,
		      struct weir_message *ret_message)
{
	uint64_t found = 0;

	for (size_t i = 0; i < reader->n; i++)
		found |= weir__log_input_maps(reader->sources[i].input);
	for (size_t i = 0; i < options->n_maps; i++) {
		struct weir__text why = weir__text_of_message(ret_message, 0);

		if (found >> i & 1)
			continue;
		weir__text_add(&why, options->n_paths == 1 ? "the log does not have" : "no log has");
		weir__text_add(&why, " the field ");
		weir__text_add_quoted(&why, options->maps[i].from.at, options->maps[i].from.n);
		weir__text_add(&why, " of --map, or it is mapped more than 4 times");
		return WEIR_ERR_SYNTAX;
	}
	return WEIR_OK;
}

int weir__log_reader_new(const struct weir__log_options *options, struct weir__log_reader **ret_reader,
			 struct weir_message *ret_message)
{
	struct weir__log_reader *reader;
	int error = WEIR_OK;

	if (options->n_paths > WEIR__LOG_INPUTS_MAX)
		return refuse(ret_message, "more than 256 log files; join some of them");
	if (options->n_wanted > WEIR__LOG_VALUES_MAX)
		return refuse(ret_message, "more than 32 attributes");
	reader = calloc(1, sizeof(*reader) + options->n_paths * sizeof(reader->sources[0]));
	if (reader == NULL) {
		errno = ENOMEM;
		return WEIR_ERR_SYSTEM;
	}
	reader->order = weir__log_order_new(options->n_wanted, options->reorder,
					    options->held_max ? options->held_max : HELD_MAX);
	if (reader->order == NULL) {
		weir__log_reader_free(reader);
		errno = ENOMEM;
		return WEIR_ERR_SYSTEM;
	}
	for (; reader->n < options->n_paths && error == WEIR_OK; reader->n += error == WEIR_OK) {
		struct source *const source = &reader->sources[reader->n];

		error = weir__log_input_new(options, options->paths[reader->n], &source->input, ret_message);
		if (error == WEIR_OK)
			advance(source);
	}
	if (error == WEIR_OK)
		error = check_maps(options, reader, ret_message);
	if (error != WEIR_OK) {
		weir__log_reader_free(reader);
		return error;
	}
	(void)choose(reader);
	*ret_reader = reader;
	return WEIR_OK;
}

size_t weir__log_reader_next(struct weir__log_reader *reader, size_t most,
			     const struct weir__log_record *const **ret_records)
{
	for (;;) {
		const size_t n = weir__log_order_take(reader->order, most, ret_records);

		if (n > 0 || reader->is_at_end)
			return n;
		if (!feed(reader)) {
			reader->is_at_end = true;
			reader->is_out_of_memory |= !weir__log_order_end(reader->order);
		}
	}
}

size_t weir__log_reader_inputs(const struct weir__log_reader *reader)
{
	return reader->n;
}

const struct weir__log_input_info *weir__log_reader_input(const struct weir__log_reader *reader, size_t input)
{
	return weir__log_input_info(reader->sources[input].input);
}

void weir__log_reader_totals(const struct weir__log_reader *reader, struct weir__log_totals *ret_totals)
{
	const struct weir__log_order_counts *const counts = weir__log_order_counts(reader->order);
	bool is_known = true;

	*ret_totals = (struct weir__log_totals){ .records = counts->records,
						 .spread = counts->spread,
						 .late = counts->late,
						 .latest_late = counts->latest_late,
						 .released_early = counts->released_early,
						 .is_out_of_memory = reader->is_out_of_memory };
	for (size_t i = 0; i < reader->n; i++) {
		uint64_t all;

		ret_totals->bad += weir__log_input_info(reader->sources[i].input)->bad;
		ret_totals->bytes_done += weir__log_input_done(reader->sources[i].input, &all);
		ret_totals->bytes_all += all;
		is_known &= all > 0;
	}
	if (!is_known)
		ret_totals->bytes_all = 0;
}

void weir__log_reader_free(struct weir__log_reader *reader)
{
	if (reader == NULL)
		return;
	for (size_t i = 0; i < reader->n; i++)
		weir__log_input_free(reader->sources[i].input);
	weir__log_order_free(reader->order);
	free(reader);
}
