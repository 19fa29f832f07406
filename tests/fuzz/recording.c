/* recording.c: fuzz target. The input is the frames of a recording. Reading and replaying any bytes must not crash, and
 * a frame that was read is written as the same bytes, unless numbers in it are longer than necessary. */
#include "replay/recording_replay.h"
#include "require.h"
#include "store/table/key_state.h"

enum { FRAMES_MOST = 64 };

/* The events of claims that were read, for the writer. */
static void fill_in_events(struct weir__recording_decision *decision, struct weir__event *events)
{
	for (uint32_t i = 0; i < decision->n; i++)
		if (decision->claims[i].state == WEIR__RECORDING_EVENTS) {
			weir__recording_events(&decision->claims[i], events);
			decision->claims[i].events = events;
			events += decision->claims[i].n_events;
		}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct weir__recording_frame frame, again;
	static struct weir__event events[8192];
	static unsigned char bytes[65536], twice[65536];
	struct weir__recording_size measured = { .limits = 0 };
	struct weir__recording_replay *replay;
	size_t ends[FRAMES_MOST], n = 0, at = 0, used;
	const char *fault;

	while (n < FRAMES_MOST &&
	       weir__recording_read(data + at, size - at, &frame, &used, &fault) == WEIR__RECORDING_COMPLETE) {
		size_t length;

		weir__recording_measure(&measured, &frame);
		if (frame.type == WEIR__RECORDING_DECISION)
			fill_in_events(&frame.decision, events);
		length = weir__recording_write(&frame, bytes, sizeof(bytes));
		require(length > 0 && length <= used, "a frame that was read cannot be written");
		require(weir__recording_read(bytes, length, &again, &(size_t){ 0 }, &fault) == WEIR__RECORDING_COMPLETE,
			"a frame that was written cannot be read");
		if (again.type == WEIR__RECORDING_DECISION)
			fill_in_events(&again.decision, events);
		require(weir__recording_write(&again, twice, sizeof(twice)) == length &&
				memcmp(bytes, twice, length) == 0,
			"a frame is written in two ways");
		at += used;
		ends[n++] = at;
	}
	if (n == 0 || weir__recording_replay_new(&measured, &replay, NULL) != WEIR_OK)
		return 0;
	for (size_t i = 0; i < n; i++) {
		const size_t from = i ? ends[i - 1] : 0;

		(void)weir__recording_read(data + from, size - from, &frame, &used, &fault);
		weir__recording_replay_frame(replay, &frame);
	}
	(void)weir__recording_replay_counts(replay);
	weir__recording_replay_free(replay);
	return 0;
}
