/* recording_lines.c: takes the first decision of each request, which has its attributes. */
#include "replay/recording_lines.h"

#include <errno.h>
#include <stdlib.h>

enum { STATUS_DENIED = 429 };

struct weir__recording_lines {
	const struct weir__log_options *options;
	struct weir__recording_reader *reader;
	uint64_t sample, missing;
};

int weir__recording_lines_new(const struct weir__log_options *options, const char *path,
			      struct weir__recording_lines **ret_lines, struct weir_message *ret_message)
{
	struct weir__recording_lines *const lines = malloc(sizeof(*lines));
	int error;

	if (lines == NULL) {
		errno = ENOMEM;
		return WEIR_ERR_SYSTEM;
	}
	lines->options = options;
	lines->sample = 1;
	lines->missing = 0;
	error = weir__recording_reader_new(path, &lines->reader, ret_message);
	if (error == WEIR_OK)
		*ret_lines = lines;
	else
		free(lines);
	return error;
}

/* The name of the attribute in the recording, which --map may replace. */
static struct weir__slice name_of(const struct weir__log_options *options, struct weir__slice wanted)
{
	for (size_t i = 0; i < options->n_maps; i++)
		if (weir__slice_equal(options->maps[i].to, wanted))
			return options->maps[i].from;
	return wanted;
}

static struct weir__slice value_of(const struct weir__recording_decision *decision, struct weir__slice name)
{
	for (uint32_t i = 0; i < decision->n_attributes; i++) {
		const struct weir__recording_attribute *const attribute = &decision->attributes[i];

		if (weir__slice_equal((struct weir__slice){ attribute->name.at, attribute->name.n }, name))
			return (struct weir__slice){ attribute->value.at, attribute->value.n };
	}
	return (struct weir__slice){ NULL, 0 };
}

/* Limits in shadow let all requests pass. */
static bool is_denied(const struct weir__recording_frame *frame)
{
	const struct weir__recording_decision *const decision = &frame->decision;
	bool is = false;

	if (frame->type == WEIR__RECORDING_UNMATCHED)
		return decision->is_denied;
	for (uint32_t i = 0; i < decision->n && !decision->is_shadow; i++)
		is = is || !decision->claims[i].verdict.allowed;
	return is;
}

static void set_line(const struct weir__recording_lines *lines, const struct weir__recording_frame *frame,
		     struct weir__log_line *ret_line)
{
	const struct weir__log_options *const options = lines->options;

	*ret_line = (struct weir__log_line){ .stamp = { .at = frame->decision.at },
					     .has_stamp = true,
					     .is_start = true,
					     .cost = frame->decision.cost,
					     .status = is_denied(frame) ? STATUS_DENIED : 0 };
	for (size_t i = 0; i < options->n_wanted && i < WEIR__LOG_VALUES_MAX; i++)
		ret_line->values[i] = value_of(&frame->decision, name_of(options, options->wanted[i]));
}

/* A check of a policy may have further decisions, by limits in shadow. They have no attributes either, and a mark. */
static bool is_stated(const struct weir__recording_decision *decision)
{
	return !decision->is_shadow &&
	       (decision->operation == WEIR__RECORDING_TAKE || decision->operation == WEIR__RECORDING_UPTO ||
		decision->operation == WEIR__RECORDING_DEPART);
}

enum weir__recording_line weir__recording_lines_next(struct weir__recording_lines *lines,
						     struct weir__log_line *ret_line)
{
	const struct weir__recording_frame *frame;

	while ((frame = weir__recording_reader_next(lines->reader))) {
		const bool is_decision = frame->type == WEIR__RECORDING_DECISION;

		if (frame->type == WEIR__RECORDING_BEGIN && frame->begin.sample > lines->sample)
			lines->sample = frame->begin.sample;
		if (frame->type == WEIR__RECORDING_GAP)
			lines->missing += frame->gap.lost;
		if (!is_decision && frame->type != WEIR__RECORDING_UNMATCHED)
			continue;
		if (frame->decision.at >= WEIR__LOG_TIME_END)
			continue;
		if (frame->decision.n_attributes > 0) {
			set_line(lines, frame, ret_line);
			return WEIR__RECORDING_LINE_GOOD;
		}
		if (is_decision && is_stated(&frame->decision))
			return WEIR__RECORDING_LINE_STATED;
	}
	return WEIR__RECORDING_LINE_NONE;
}

void weir__recording_lines_left_out(const struct weir__recording_lines *lines, uint64_t *ret_sample,
				    uint64_t *ret_missing)
{
	*ret_sample = lines->sample;
	*ret_missing = lines->missing;
}

const char *weir__recording_lines_fault(const struct weir__recording_lines *lines)
{
	return weir__recording_reader_fault(lines->reader);
}

uint64_t weir__recording_lines_done(const struct weir__recording_lines *lines, uint64_t *ret_all)
{
	return weir__recording_reader_done(lines->reader, ret_all);
}

void weir__recording_lines_free(struct weir__recording_lines *lines)
{
	if (lines)
		weir__recording_reader_free(lines->reader);
	free(lines);
}
