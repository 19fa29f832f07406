/* log_input.c: splits bytes into lines, and counts them. */
#include "replay/log_input.h"

#include <errno.h>
#include <stdlib.h>

#include "core/text.h"
#include "os/byte_stream.h"
#include "replay/recording_lines.h"

/* The buffer holds several of the longest lines, so that few bytes have to move to its front. */
enum { ROOM = 512 * 1024 };

struct weir__log_input {
	struct weir__byte_stream *stream;
	struct weir__log_format *format;
	struct weir__recording_lines *recording; /* instead of stream and format; NULL: the input is not a recording */
	struct weir__log_input_info info;
	uint64_t number;  /* lines so far, with empty ones */
	size_t at, n;     /* room[at..n) has not been parsed */
	bool is_skipping; /* the rest of a line that is too long */
	bool is_at_end;
	char room[ROOM];
};

static void note_bad(struct weir__log_input *input, struct weir__slice line, const char *why)
{
	struct weir__log_input_info *const info = &input->info;

	info->bad++;
	if (info->n_examples == WEIR__LOG_EXAMPLES)
		return;
	info->examples[info->n_examples].line = input->number;
	info->examples[info->n_examples].why = why;
	info->examples[info->n_examples].length = line.n < WEIR__LOG_EXAMPLE_SIZE ? line.n : WEIR__LOG_EXAMPLE_SIZE;
	if (line.n > 0)
		memcpy(info->examples[info->n_examples].text, line.at, info->examples[info->n_examples].length);
	info->n_examples++;
}

static void read_more(struct weir__log_input *input)
{
	size_t n;
	int error;

	if (input->at > 0)
		memmove(input->room, input->room + input->at, input->n - input->at);
	input->n -= input->at;
	input->at = 0;
	error = weir__byte_stream_read(input->stream, input->room + input->n, ROOM - input->n, &n);
	if (error)
		input->info.error = weir__byte_stream_error(error);
	input->is_at_end = error || n == 0;
	input->n += n;
	input->info.bytes += n;
}

/* The next line that is not too long, without its newline. The last line may lack one; after an error it is dropped,
 * since it was cut. */
static bool next_line(struct weir__log_input *input, struct weir__slice *ret_line)
{
	size_t looked = 0; /* bytes from `at` on that were searched: they have no newline */

	for (;;) {
		char *const start = input->room + input->at;
		const size_t n = input->n - input->at;
		char *const newline = memchr(start + looked, '\n', n - looked);
		const size_t length = newline ? (size_t)(newline - start) : n;

		if (newline == NULL && !input->is_at_end && length <= WEIR__LOG_LINE_MAX) {
			looked = length;
			read_more(input);
			continue;
		}
		if (newline == NULL && (n == 0 || (input->is_at_end && input->info.error))) {
			if (input->is_at_end)
				return false;
			read_more(input);
			continue;
		}
		looked = 0;
		input->at += length + (newline != NULL);
		if (input->is_skipping || length > WEIR__LOG_LINE_MAX) {
			if (!input->is_skipping) {
				input->number++;
				input->info.lines++;
				note_bad(input, (struct weir__slice){ start, length }, "it is longer than 65536 bytes");
			}
			input->is_skipping = newline == NULL;
			continue;
		}
		input->number++;
		*ret_line = (struct weir__slice){ start, length };
		if (length > 0 && start[length - 1] == '\r')
			ret_line->n--;
		if (ret_line->n > 0)
			return true;
	}
}

/* The next request of a recording that has attributes. Requests without them had inline limits, so no policy
 * applies. */
static bool next_request(struct weir__log_input *input, struct weir__log_line *ret_line, uint64_t *ret_number)
{
	enum weir__recording_line found;

	while ((found = weir__recording_lines_next(input->recording, ret_line)) != WEIR__RECORDING_LINE_NONE) {
		input->number++;
		input->info.lines++;
		if (found == WEIR__RECORDING_LINE_GOOD) {
			input->info.has_fractions = input->info.has_durations = true;
			*ret_number = input->number;
			return true;
		}
		note_bad(input, (struct weir__slice){ "", 0 }, "it has an inline limit, so no policy applies to it");
	}
	input->info.error = weir__recording_lines_fault(input->recording);
	weir__recording_lines_left_out(input->recording, &input->info.sample, &input->info.missing);
	return false;
}

bool weir__log_input_next(struct weir__log_input *input, struct weir__log_line *ret_line, uint64_t *ret_number)
{
	struct weir__slice bytes;

	if (input->recording)
		return next_request(input, ret_line, ret_number);
	while (input->format && next_line(input, &bytes)) {
		const char *why;

		input->info.lines++;
		why = weir__log_format_parse(input->format, bytes, ret_line);
		if (why) {
			note_bad(input, bytes, why);
			continue;
		}
		input->info.has_fractions |= !ret_line->stamp.is_whole_second;
		input->info.has_rests |= ret_line->has_rest;
		input->info.has_durations |= ret_line->has_duration || ret_line->is_start;
		*ret_number = input->number;
		return true;
	}
	return false;
}

/* Reads the bytes from which the format is detected: 64 KiB, and at least one line. A byte order mark, which some programs
 * write first, is not part of the line. */
static void read_beginning(struct weir__log_input *input)
{
	static const char mark[] = "\xef\xbb\xbf";

	while (!input->is_at_end && input->n < ROOM &&
	       (input->n < WEIR__LOG_LINE_MAX || memchr(input->room, '\n', input->n) == NULL))
		read_more(input);
	if (input->n >= strlen(mark) && memcmp(input->room, mark, strlen(mark)) == 0) {
		input->n -= strlen(mark);
		memmove(input->room, input->room + strlen(mark), input->n);
	}
}

/* A recording is opened again, to read it by frames. */
static int open_recording(const struct weir__log_options *options, struct weir__log_input *input,
			  struct weir_message *ret_message)
{
	if (strcmp(input->info.path, "-") == 0)
		return weir__byte_stream_refuse(ret_message, input->info.path, "a recording must be a file",
						WEIR_ERR_SYNTAX);
	weir__byte_stream_close(input->stream);
	input->stream = NULL;
	input->info.format = "recording";
	return weir__recording_lines_new(options, input->info.path, &input->recording, ret_message);
}

static int choose_format(const struct weir__log_options *options, struct weir__log_input *input,
			 struct weir_message *ret_message)
{
	const struct weir__slice bytes = { input->room, input->n };
	const char *const newline = memchr(bytes.at, '\n', bytes.n);
	struct weir__slice header = { bytes.at, newline ? (size_t)(newline - bytes.at) : bytes.n };
	const char *name = options->format ? options->format : weir__log_format_detect(options, bytes);
	struct weir_message why;
	int error;

	if (name == NULL)
		return weir__byte_stream_refuse(
			ret_message, input->info.path,
			input->info.error ? input->info.error :
					    "its format cannot be detected from its first lines; use --format",
			WEIR_ERR_SYNTAX);
	if (header.n > 0 && header.at[header.n - 1] == '\r')
		header.n--;
	error = weir__log_format_new(options, name, header, &input->format, &why);
	if (error != WEIR_OK)
		return error == WEIR_ERR_SYNTAX ?
			       weir__byte_stream_refuse(ret_message, input->info.path, why.text, error) :
			       error;
	input->info.format = weir__log_format_name(input->format);
	if (weir__log_format_has_header(input->format)) {
		input->at = newline ? (size_t)(newline - bytes.at) + 1 : input->n;
		input->number = 1;
	}
	return WEIR_OK;
}

int weir__log_input_new(const struct weir__log_options *options, const char *path, struct weir__log_input **ret_input,
			struct weir_message *ret_message)
{
	struct weir__log_input *const input = malloc(sizeof(*input));
	int error;

	if (input == NULL) {
		errno = ENOMEM;
		return WEIR_ERR_SYSTEM;
	}
	memset(input, 0, offsetof(struct weir__log_input, room));
	input->info.path = path;
	error = weir__byte_stream_open(path, &input->stream);
	if (error) {
		errno = error;
		error = weir__byte_stream_refuse(ret_message, path, weir__byte_stream_error(error), WEIR_ERR_SYSTEM);
	} else {
		read_beginning(input);
		/* An empty input has no format, and no lines. */
		if (weir__recording_is((struct weir__slice){ input->room, input->n }))
			error = open_recording(options, input, ret_message);
		else if (input->n > 0)
			error = choose_format(options, input, ret_message);
	}
	if (error != WEIR_OK) {
		weir__log_input_free(input);
		return error;
	}
	*ret_input = input;
	return WEIR_OK;
}

const struct weir__log_input_info *weir__log_input_info(const struct weir__log_input *input)
{
	return &input->info;
}

uint64_t weir__log_input_maps(const struct weir__log_input *input)
{
	return input->format ? weir__log_format_maps(input->format) : UINT64_MAX;
}

uint64_t weir__log_input_done(const struct weir__log_input *input, uint64_t *ret_all)
{
	return input->recording ? weir__recording_lines_done(input->recording, ret_all) :
				  weir__byte_stream_done(input->stream, ret_all);
}

void weir__log_input_free(struct weir__log_input *input)
{
	if (input == NULL)
		return;
	weir__byte_stream_close(input->stream);
	weir__log_format_free(input->format);
	weir__recording_lines_free(input->recording);
	free(input);
}
