/* recording_test.c: frames that are written are read as they were, and bytes that are not frames are refused. */
#include "wire/recording.h"

#include <stdlib.h>

#include "check.h"

enum { ROUNDS = 3000, SIZE = 1 << 16 };

static uint64_t any(void)
{
	static uint64_t state = 0x9e3779b97f4a7c15;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static uint64_t below(uint64_t n)
{
	return any() % n;
}

/* Numbers of all sizes. */
static uint64_t any_size(void)
{
	return any() >> below(64);
}

static const char letters[] = "the quick brown fox jumps over the lazy dog";
static struct weir__event events[8];
static unsigned char bytes[SIZE];
static struct weir__recording_frame frame, found;

static struct weir__recording_text any_text(void)
{
	const size_t from = below(20);

	return (struct weir__recording_text){ letters + from, below(20) };
}

static bool is_text(struct weir__recording_text a, struct weir__recording_text b)
{
	return a.n == b.n && memcmp(a.at, b.at, a.n) == 0;
}

static void fill_claim(struct weir__recording_claim *claim)
{
	*claim = (struct weir__recording_claim){ .limit = (uint32_t)below(WEIR__RECORDING_LIMITS_MAX),
						 .cost = any_size(),
						 .key = any_text(),
						 .state = (enum weir__recording_state)below(WEIR__RECORDING_STATES) };
	claim->verdict = (struct weir_verdict){ any() & 1,  any() & 1,  any_size(), any_size(),
						any_size(), any_size(), any_size(), any_size() };
	if (claim->state == WEIR__RECORDING_SLOT)
		claim->slot = (struct weir_state){ any(), any_size() };
	if (claim->state == WEIR__RECORDING_FOLDED) {
		claim->units = any_size();
		claim->full_at = any_size();
	}
	if (claim->state == WEIR__RECORDING_EVENTS) {
		claim->n_events = (uint32_t)below(8);
		claim->events = events;
	}
}

static void fill_decision(struct weir__recording_decision *decision)
{
	*decision = (struct weir__recording_decision){
		.at = any_size(),
		.cost = any_size(),
		.operation = (enum weir__recording_operation)below(WEIR__RECORDING_OPERATIONS),
		.source = (enum weir__recording_source)below(WEIR__RECORDING_SOURCES),
		.is_each = any() & 1,
		.is_uncertain = any() & 1,
		.is_closed = any() & 1,
		.is_partial = any() & 1,
		.is_changing = any() & 1,
		.is_shadow = any() & 1
	};
	decision->n = 1 + (uint32_t)below(WEIR__RECORDING_CLAIMS_MAX);
	decision->decided_by = (uint32_t)below(decision->n);
	if (decision->operation == WEIR__RECORDING_DEPART)
		decision->max_delay = any_size();
	if (decision->operation == WEIR__RECORDING_UNDO || decision->operation == WEIR__RECORDING_CANCEL) {
		decision->charged_at = any_size();
		decision->charged_cost = any_size();
		decision->charged_full_at = any_size();
	}
	decision->n_attributes = (uint32_t)below(5);
	for (uint32_t i = 0; i < decision->n_attributes; i++)
		decision->attributes[i] = (struct weir__recording_attribute){ any_text(), any_text() };
	for (uint32_t i = 0; i < decision->n; i++)
		fill_claim(&decision->claims[i]);
}

static bool is_claim(const struct weir__recording_claim *a, const struct weir__recording_claim *b)
{
	struct weir__event read[8];

	if (a->limit != b->limit || a->cost != b->cost || !is_text(a->key, b->key) || a->state != b->state ||
	    memcmp(&a->verdict.limit, &b->verdict.limit, sizeof(a->verdict) - offsetof(struct weir_verdict, limit)) !=
		    0 ||
	    a->verdict.allowed != b->verdict.allowed || a->verdict.never != b->verdict.never)
		return false;
	switch (a->state) {
	case WEIR__RECORDING_SLOT:
		return a->slot.lo == b->slot.lo && a->slot.hi == b->slot.hi;
	case WEIR__RECORDING_FOLDED:
		return a->units == b->units && a->full_at == b->full_at;
	case WEIR__RECORDING_EVENTS:
		if (a->n_events != b->n_events)
			return false;
		weir__recording_events(b, read);
		return memcmp(read, a->events, a->n_events * sizeof(read[0])) == 0;
	default:
		return true;
	}
}

static bool is_decision(const struct weir__recording_decision *a, const struct weir__recording_decision *b)
{
	bool is = a->operation == b->operation && a->source == b->source && a->is_each == b->is_each &&
		  a->is_uncertain == b->is_uncertain && a->is_closed == b->is_closed &&
		  a->is_partial == b->is_partial && a->is_changing == b->is_changing && a->is_shadow == b->is_shadow &&
		  a->at == b->at && a->cost == b->cost && a->max_delay == b->max_delay &&
		  a->charged_at == b->charged_at && a->charged_cost == b->charged_cost &&
		  a->charged_full_at == b->charged_full_at && a->decided_by == b->decided_by &&
		  a->n_attributes == b->n_attributes && a->n == b->n;

	for (uint32_t i = 0; is && i < a->n_attributes; i++)
		is = is_text(a->attributes[i].name, b->attributes[i].name) &&
		     is_text(a->attributes[i].value, b->attributes[i].value);
	for (uint32_t i = 0; is && i < a->n; i++)
		is = is_claim(&a->claims[i], &b->claims[i]);
	return is;
}

static enum weir__recording_status read_back(size_t size, size_t *ret_used)
{
	const char *fault = NULL;
	const enum weir__recording_status status = weir__recording_read(bytes, size, &found, ret_used, &fault);

	CHECK((status == WEIR__RECORDING_BAD) == (fault != NULL));
	return status;
}

static void decisions_are_read_as_they_were_written(void)
{
	for (uint32_t i = 0; i < 8; i++)
		events[i] = (struct weir__event){ 1000 + i * any_size() % 1000000, i + 1 };
	for (uint32_t i = 1; i < 8; i++)
		events[i].at = events[i - 1].at + below(1000000000);
	for (int round = 0; round < ROUNDS; round++) {
		size_t n, used = 0;

		frame.type = WEIR__RECORDING_DECISION;
		fill_decision(&frame.decision);
		n = weir__recording_write(&frame, bytes, sizeof(bytes));
		if (n == 0 || read_back(n, &used) != WEIR__RECORDING_COMPLETE || used != n ||
		    !is_decision(&frame.decision, &found.decision)) {
			check_fail(__FILE__, __LINE__, "another decision");
			return;
		}
		CHECK_EQ(read_back(below(n), &used), WEIR__RECORDING_MORE);
	}
}

static void other_frames_are_read_as_they_were_written(void)
{
	size_t n, used;

	frame = (struct weir__recording_frame){ .type = WEIR__RECORDING_BEGIN, .begin = { 5, 10, true, any_text() } };
	n = weir__recording_write(&frame, bytes, sizeof(bytes));
	CHECK_EQ(read_back(n, &used), WEIR__RECORDING_COMPLETE);
	CHECK(found.begin.at == 5 && found.begin.sample == 10 && found.begin.is_plain &&
	      is_text(found.begin.version, frame.begin.version));
	frame = (struct weir__recording_frame){ .type = WEIR__RECORDING_POLICY,
						.policy = { 6, UINT64_MAX, false, { letters, sizeof(letters) } } };
	n = weir__recording_write(&frame, bytes, sizeof(bytes));
	CHECK_EQ(read_back(n, &used), WEIR__RECORDING_COMPLETE);
	CHECK(found.policy.at == 6 && found.policy.identity == UINT64_MAX && !found.policy.is_hidden &&
	      is_text(found.policy.text, frame.policy.text));
	frame = (struct weir__recording_frame){ .type = WEIR__RECORDING_LIMIT,
						.limit = { 7, true, true, 3, 99, UINT64_MAX, any_text(), any_text() } };
	n = weir__recording_write(&frame, bytes, sizeof(bytes));
	CHECK_EQ(read_back(n, &used), WEIR__RECORDING_COMPLETE);
	CHECK(found.limit.id == 7 && found.limit.is_inline && found.limit.is_shared && found.limit.number == 3 &&
	      found.limit.changed_at == 99 && found.limit.space == UINT64_MAX &&
	      is_text(found.limit.name, frame.limit.name) && is_text(found.limit.text, frame.limit.text));
	frame = (struct weir__recording_frame){ .type = WEIR__RECORDING_GAP, .gap = { 1, 2, 3 } };
	n = weir__recording_write(&frame, bytes, sizeof(bytes));
	CHECK_EQ(read_back(n, &used), WEIR__RECORDING_COMPLETE);
	CHECK(found.gap.lost == 1 && found.gap.from == 2 && found.gap.until == 3);
	frame = (struct weir__recording_frame){ .type = WEIR__RECORDING_END, .end = { 1, 2, 3 } };
	n = weir__recording_write(&frame, bytes, sizeof(bytes));
	CHECK_EQ(read_back(n, &used), WEIR__RECORDING_COMPLETE);
	CHECK(found.end.at == 1 && found.end.decisions == 2 && found.end.lost == 3);
}

/* docs/reference/recordings.md has these bytes. */
static void the_format_stays(void)
{
	static const unsigned char gap[] = { 6, 0, 0, 0, 6, 5, 0x80, 1, 0xac, 2 };

	frame = (struct weir__recording_frame){ .type = WEIR__RECORDING_GAP, .gap = { 5, 128, 300 } };
	CHECK_EQ(weir__recording_write(&frame, bytes, sizeof(bytes)), sizeof(gap));
	CHECK(memcmp(bytes, gap, sizeof(gap)) == 0);
}

static void a_frame_that_does_not_fit_is_not_written(void)
{
	size_t n;

	frame.type = WEIR__RECORDING_DECISION;
	fill_decision(&frame.decision);
	n = weir__recording_write(&frame, bytes, sizeof(bytes));
	for (size_t size = 0; size < n; size++)
		CHECK_EQ(weir__recording_write(&frame, bytes, size), 0);
	frame.decision.n = WEIR__RECORDING_CLAIMS_MAX + 1;
	CHECK_EQ(weir__recording_write(&frame, bytes, sizeof(bytes)), 0);
	frame = (struct weir__recording_frame){ .type = WEIR__RECORDING_LIMIT,
						.limit = { .id = WEIR__RECORDING_LIMITS_MAX } };
	CHECK_EQ(weir__recording_write(&frame, bytes, sizeof(bytes)), 0);
}

static void a_frame_of_a_later_version_is_skipped(void)
{
	size_t used;

	memcpy(bytes, (const unsigned char[]){ 3, 0, 0, 0, 200, 1, 2 }, 7);
	CHECK_EQ(read_back(7, &used), WEIR__RECORDING_SKIP);
	CHECK_EQ(used, 7);
}

/* Any other bytes are a frame, or refused, and never read beyond their end: the copy is as long as the frame. */
static void damaged_frames_are_refused(void)
{
	size_t bad = 0;

	for (int round = 0; round < ROUNDS; round++) {
		size_t n, used;
		unsigned char *copy;
		const char *fault;

		frame.type = WEIR__RECORDING_DECISION;
		fill_decision(&frame.decision);
		n = weir__recording_write(&frame, bytes, sizeof(bytes));
		copy = malloc(n);
		if (copy == NULL)
			return;
		memcpy(copy, bytes, n);
		for (uint64_t i = 1 + below(3); i > 0; i--)
			copy[4 + below(n - 4)] = (unsigned char)any();
		bad += weir__recording_read(copy, n, &found, &used, &fault) == WEIR__RECORDING_BAD;
		free(copy);
	}
	CHECK(bad > ROUNDS / 10);
	memcpy(bytes, (const unsigned char[]){ 0, 0, 0, 0, 6 }, 5);
	CHECK_EQ(read_back(5, &(size_t){ 0 }), WEIR__RECORDING_BAD);
	memcpy(bytes, (const unsigned char[]){ 255, 255, 255, 255, 6 }, 5);
	CHECK_EQ(read_back(5, &(size_t){ 0 }), WEIR__RECORDING_BAD);
}

TESTS(TEST(decisions_are_read_as_they_were_written), TEST(other_frames_are_read_as_they_were_written),
      TEST(the_format_stays), TEST(a_frame_that_does_not_fit_is_not_written),
      TEST(a_frame_of_a_later_version_is_skipped), TEST(damaged_frames_are_refused))
