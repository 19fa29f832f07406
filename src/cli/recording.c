/* recording.c: reads a recording twice, to learn its size and to decide again, and prints what came out. */
#include "cli/recording.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/json.h"
#include "cli/words.h"
#include "replay/recording_reader.h"
#include "replay/recording_replay.h"

enum { SAME = 0, DIFFERENT = 1, FAILED = 3 };

/* Rows that are printed if their number is not 0. */
static const struct row {
	const char *name;
	size_t offset;
	const char *means;
} rows[] = {
#define ROW(name, means)                                                                                               \
	{                                                                                                              \
#name, offsetof(struct weir__recording_counts, name), means                                            \
	}
	ROW(by_fallback, "decided by the fallback, because Redis could not be reached: not compared"),
	ROW(by_store, "decided by Redis: not compared, other servers may have used the same keys"),
	ROW(by_none, "not decided, because Redis failed: not compared"),
	ROW(partial, "with a key that was not sampled: not compared"),
	ROW(unknown, "with a key whose state is not in the recording: not compared"),
	ROW(unusable, "with a limit that is not in the recording: not compared"),
	ROW(raced, "differ, and were made while one of their limits was changed"),
	ROW(evicted, "keys evicted by the server, because its table was full: continued as in the recording"),
	ROW(folded, "keys folded by the server, because its arena was full: continued as in the recording"),
	ROW(elsewhere, "keys changed by something that is not recorded: continued as in the recording"),
	ROW(lost, "decisions missing in gaps, because the server made them faster than they were read"),
	ROW(own_evicted, "keys evicted by this replay, for lack of memory: differences mean nothing"),
#undef ROW
};

static uint64_t number_of(const struct weir__recording_counts *counts, const struct row *row)
{
	uint64_t number;

	memcpy(&number, (const char *)counts + row->offset, sizeof(number));
	return number;
}

static int fail(const char *command, const char *why)
{
	fprintf(stderr, "%s: ", command);
	weir__words_safe(stderr, why);
	putc('\n', stderr);
	return FAILED;
}

static void print_json(const struct weir__recording_counts *counts, const char *fault, uint64_t skipped)
{
	struct weir__json json = { .out = stdout };

	weir__json_open(&json, NULL, '{');
	weir__json_number(&json, "decisions", counts->decisions);
	weir__json_number(&json, "compared", counts->compared);
	weir__json_number(&json, "differences", counts->differences);
	weir__json_number(&json, "unmatched", counts->unmatched);
	weir__json_number(&json, "keys", counts->keys);
	weir__json_number(&json, "policies", counts->policies);
	weir__json_number(&json, "limits_changed", counts->changes);
	weir__json_number(&json, "gaps", counts->gaps);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		weir__json_number(&json, rows[i].name, number_of(counts, &rows[i]));
	weir__json_number(&json, "begins", counts->begins);
	weir__json_number(&json, "ends", counts->ends);
	weir__json_number(&json, "sample", counts->sample);
	weir__json_number(&json, "skipped_frames", skipped);
	weir__json_word(&json, "has_plain_keys", counts->is_plain ? "true" : "false");
	weir__json_word(&json, "is_complete", counts->is_ended ? "true" : "false");
	if (fault)
		weir__json_text(&json, "fault", fault);
	weir__json_close(&json, '}');
}

static void print(const struct weir__recording_counts *counts, const char *fault, uint64_t skipped)
{
	char begins[WEIR__WORDS_SIZE], span[WEIR__WORDS_SIZE], at[WEIR__WORDS_SIZE];

	weir__words_instant(counts->begins, begins);
	weir__words_span(counts->ends - counts->begins, span);
	printf("%" PRIu64 " decisions on %" PRIu64 " keys, in %s from %s\n", counts->decisions, counts->keys, span,
	       begins);
	printf("%" PRIu64 " compared, %" PRIu64 " different\n", counts->compared, counts->differences);
	if (counts->differences > 0) {
		weir__words_instant(counts->different_at, at);
		printf("the first that differs is of limit ");
		weir__words_safe(stdout, counts->different_limit);
		printf(", at %s\n", at);
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (number_of(counts, &rows[i]) > 0)
			printf("%" PRIu64 " %s\n", number_of(counts, &rows[i]), rows[i].means);
	if (skipped > 0)
		printf("%" PRIu64 " frames of a later version of Weir were left out\n", skipped);
	if (fault)
		printf("ends early: %s\n", fault);
	else if (!counts->is_ended)
		puts("ends early: weir record was stopped before the recording ended");
}

static int measure(const char *path, struct weir__recording_size *size, struct weir_message *why)
{
	const struct weir__recording_frame *frame;
	struct weir__recording_reader *reader;
	const int error = weir__recording_reader_new(path, &reader, why);

	if (error != WEIR_OK)
		return error;
	while ((frame = weir__recording_reader_next(reader)))
		weir__recording_measure(size, frame);
	weir__recording_reader_free(reader);
	return WEIR_OK;
}

int weir__recording_check(const char *command, const char *path, bool is_json)
{
	const struct weir__recording_counts *counts;
	static struct weir__recording_size size;
	const struct weir__recording_frame *frame;
	struct weir__recording_reader *reader;
	struct weir__recording_replay *replay;
	struct weir_message why;
	bool is_same;

	if (strcmp(path, "-") == 0)
		return fail(command, "a recording is read twice, so it must be a file");
	if (measure(path, &size, &why) != WEIR_OK || weir__recording_replay_new(&size, &replay, &why) != WEIR_OK)
		return fail(command, why.text);
	if (weir__recording_reader_new(path, &reader, &why) != WEIR_OK) {
		weir__recording_replay_free(replay);
		return fail(command, why.text);
	}
	while ((frame = weir__recording_reader_next(reader)))
		weir__recording_replay_frame(replay, frame);
	counts = weir__recording_replay_counts(replay);
	(is_json ? print_json : print)(counts, weir__recording_reader_fault(reader),
				       weir__recording_reader_skipped(reader));
	is_same = counts->differences == 0;
	weir__recording_reader_free(reader);
	weir__recording_replay_free(replay);
	return is_same ? SAME : DIFFERENT;
}
