/* recording.c: frames of recordings, both directions. */
#include "wire/recording.h"

#include <string.h>

enum { HEAD = 5 /* bytes before the numbers of a frame: its length, and its type */ };

/* --- writing ----------------------------------------------------------------------------------------------------- */

struct writer {
	unsigned char *bytes;
	size_t size, n; /* n is beyond size if it does not fit */
};

static void put_byte(struct writer *writer, unsigned byte)
{
	if (writer->n < writer->size)
		writer->bytes[writer->n] = (unsigned char)byte;
	writer->n++;
}

static void put(struct writer *writer, uint64_t number)
{
	for (; number >= 0x80; number >>= 7)
		put_byte(writer, (unsigned)(number & 0x7f) | 0x80);
	put_byte(writer, (unsigned)number);
}

static void put_fixed(struct writer *writer, uint64_t number)
{
	for (int i = 0; i < 8; i++)
		put_byte(writer, (unsigned)(number >> (8 * i)) & 0xff);
}

static void put_text(struct writer *writer, const struct weir__recording_text *text)
{
	put(writer, text->n);
	if (text->n > 0 && writer->n <= writer->size && text->n <= writer->size - writer->n)
		memcpy(writer->bytes + writer->n, text->at, text->n);
	writer->n += text->n;
}

static void put_state(struct writer *writer, const struct weir__recording_claim *claim)
{
	const struct weir__event *before = NULL;

	put_byte(writer, claim->state);
	switch (claim->state) {
	case WEIR__RECORDING_SLOT:
		put_fixed(writer, claim->slot.lo);
		put_fixed(writer, claim->slot.hi);
		break;
	case WEIR__RECORDING_EVENTS: /* differences, which are short */
		put(writer, claim->n_events);
		for (uint32_t i = 0; i < claim->n_events; before = &claim->events[i++]) {
			put(writer, claim->events[i].at - (before ? before->at : 0));
			put(writer, claim->events[i].total - (before ? before->total : 0));
		}
		break;
	case WEIR__RECORDING_FOLDED:
		put(writer, claim->units);
		put(writer, claim->full_at);
		break;
	default:
		break;
	}
}

static void put_verdict(struct writer *writer, const struct weir_verdict *verdict)
{
	put_byte(writer, (unsigned)verdict->allowed | (unsigned)verdict->never << 1);
	put(writer, verdict->limit);
	put(writer, verdict->remaining);
	put(writer, verdict->granted);
	put(writer, verdict->retry_after);
	put(writer, verdict->reset_after);
	put(writer, verdict->delay);
}

static void put_attributes(struct writer *writer, const struct weir__recording_decision *decision)
{
	put(writer, decision->n_attributes);
	for (uint32_t i = 0; i < decision->n_attributes; i++) {
		put_text(writer, &decision->attributes[i].name);
		put_text(writer, &decision->attributes[i].value);
	}
}

static bool has_charge(enum weir__recording_operation operation)
{
	return operation == WEIR__RECORDING_UNDO || operation == WEIR__RECORDING_CANCEL;
}

static void put_decision(struct writer *writer, const struct weir__recording_decision *decision)
{
	put(writer, decision->at);
	put_byte(writer, decision->operation);
	put_byte(writer, decision->source);
	put_byte(writer, (unsigned)decision->is_each | (unsigned)decision->is_uncertain << 1 |
				 (unsigned)decision->is_closed << 2 | (unsigned)decision->is_partial << 3 |
				 (unsigned)decision->is_changing << 4 | (unsigned)decision->is_shadow << 5);
	if (decision->operation == WEIR__RECORDING_DEPART)
		put(writer, decision->max_delay);
	if (has_charge(decision->operation)) {
		put(writer, decision->charged_at);
		put(writer, decision->charged_cost);
		put(writer, decision->charged_full_at);
	}
	put(writer, decision->decided_by);
	put(writer, decision->cost);
	put_attributes(writer, decision);
	put(writer, decision->n);
	for (uint32_t i = 0; i < decision->n; i++) {
		const struct weir__recording_claim *const claim = &decision->claims[i];

		put(writer, claim->limit);
		put(writer, claim->cost);
		put_text(writer, &claim->key);
		put_state(writer, claim);
		put_verdict(writer, &claim->verdict);
	}
}

static void put_limit(struct writer *writer, const struct weir__recording_limit *limit)
{
	put(writer, limit->id);
	put_byte(writer, (unsigned)limit->is_inline | (unsigned)limit->is_shared << 1);
	put(writer, limit->number);
	put(writer, limit->changed_at);
	put(writer, limit->space);
	put_text(writer, &limit->name);
	put_text(writer, &limit->text);
}

static void put_frame(struct writer *writer, const struct weir__recording_frame *frame)
{
	switch (frame->type) {
	case WEIR__RECORDING_BEGIN:
		put(writer, frame->begin.at);
		put(writer, frame->begin.sample);
		put_byte(writer, frame->begin.is_plain);
		put_text(writer, &frame->begin.version);
		break;
	case WEIR__RECORDING_POLICY:
		put(writer, frame->policy.at);
		put_fixed(writer, frame->policy.identity);
		put_byte(writer, frame->policy.is_hidden);
		put_text(writer, &frame->policy.text);
		break;
	case WEIR__RECORDING_LIMIT:
		put_limit(writer, &frame->limit);
		break;
	case WEIR__RECORDING_DECISION:
		put_decision(writer, &frame->decision);
		break;
	case WEIR__RECORDING_UNMATCHED:
		put(writer, frame->decision.at);
		put(writer, frame->decision.cost);
		put_byte(writer, frame->decision.is_denied);
		put_attributes(writer, &frame->decision);
		break;
	case WEIR__RECORDING_GAP:
		put(writer, frame->gap.lost);
		put(writer, frame->gap.from);
		put(writer, frame->gap.until);
		break;
	case WEIR__RECORDING_END:
		put(writer, frame->end.at);
		put(writer, frame->end.decisions);
		put(writer, frame->end.lost);
		break;
	}
}

static bool is_within_maxima(const struct weir__recording_frame *frame)
{
	if (frame->type == WEIR__RECORDING_LIMIT)
		return frame->limit.id < WEIR__RECORDING_LIMITS_MAX;
	if (frame->type != WEIR__RECORDING_DECISION && frame->type != WEIR__RECORDING_UNMATCHED)
		return true;
	return frame->decision.n_attributes <= WEIR__RECORDING_ATTRIBUTES_MAX &&
	       (frame->type == WEIR__RECORDING_UNMATCHED ||
		(frame->decision.n > 0 && frame->decision.n <= WEIR__RECORDING_CLAIMS_MAX));
}

size_t weir__recording_write(const struct weir__recording_frame *frame, void *bytes, size_t size)
{
	struct writer writer = { bytes, weir__min(size, WEIR__RECORDING_FRAME_MOST), HEAD };
	size_t length;

	if (!is_within_maxima(frame))
		return 0;
	put_frame(&writer, frame);
	if (writer.n > writer.size)
		return 0;
	length = writer.n - 4;
	for (int i = 0; i < 4; i++)
		writer.bytes[i] = (unsigned char)(length >> (8 * i));
	writer.bytes[4] = (unsigned char)frame->type;
	return writer.n;
}

/* --- reading ----------------------------------------------------------------------------------------------------- */

struct reader {
	const unsigned char *at, *end;
	bool is_bad;
};

static uint64_t get_byte(struct reader *reader)
{
	if (reader->at == reader->end) {
		reader->is_bad = true;
		return 0;
	}
	return *reader->at++;
}

static uint64_t get(struct reader *reader)
{
	uint64_t number = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		const uint64_t byte = get_byte(reader);

		if (shift == 63 && byte > 1)
			break;
		number |= (byte & 0x7f) << shift;
		if (byte < 0x80)
			return number;
	}
	reader->is_bad = true;
	return 0;
}

static uint64_t get_fixed(struct reader *reader)
{
	uint64_t number = 0;

	for (unsigned i = 0; i < 8; i++)
		number |= get_byte(reader) << (8 * i);
	return number;
}

/* A number of at most `most`. */
static uint64_t get_up_to(struct reader *reader, uint64_t most)
{
	const uint64_t number = get(reader);

	if (number > most)
		reader->is_bad = true;
	return number > most ? 0 : number;
}

static void get_text(struct reader *reader, struct weir__recording_text *ret_text)
{
	ret_text->n = (size_t)get_up_to(reader, (uint64_t)(reader->end - reader->at));
	ret_text->at = (const char *)reader->at;
	if (ret_text->n > (size_t)(reader->end - reader->at)) { /* the number itself took bytes */
		reader->is_bad = true;
		ret_text->n = 0;
	}
	reader->at += ret_text->n;
}

/* Only checks that the events are there. */
static void skip_events(struct reader *reader, struct weir__recording_claim *claim)
{
	claim->n_events = (uint32_t)get_up_to(reader, (uint64_t)(reader->end - reader->at) / 2);
	claim->raw.at = (const char *)reader->at;
	for (uint32_t i = 0; i < claim->n_events; i++) {
		(void)get(reader);
		(void)get(reader);
	}
	claim->raw.n = (size_t)((const char *)reader->at - claim->raw.at);
}

static void get_state(struct reader *reader, struct weir__recording_claim *claim)
{
	claim->state = (enum weir__recording_state)get_up_to(reader, WEIR__RECORDING_STATES - 1);
	switch (claim->state) {
	case WEIR__RECORDING_SLOT:
		claim->slot.lo = get_fixed(reader);
		claim->slot.hi = get_fixed(reader);
		break;
	case WEIR__RECORDING_EVENTS:
		skip_events(reader, claim);
		break;
	case WEIR__RECORDING_FOLDED:
		claim->units = get(reader);
		claim->full_at = get(reader);
		break;
	default:
		break;
	}
}

static void get_verdict(struct reader *reader, struct weir_verdict *ret_verdict)
{
	const uint64_t flags = get_up_to(reader, 3);

	ret_verdict->allowed = flags & 1;
	ret_verdict->never = flags >> 1;
	ret_verdict->limit = get(reader);
	ret_verdict->remaining = get(reader);
	ret_verdict->granted = get(reader);
	ret_verdict->retry_after = get(reader);
	ret_verdict->reset_after = get(reader);
	ret_verdict->delay = get(reader);
}

static void get_attributes(struct reader *reader, struct weir__recording_decision *decision)
{
	decision->n_attributes = (uint32_t)get_up_to(reader, WEIR__RECORDING_ATTRIBUTES_MAX);
	for (uint32_t i = 0; i < decision->n_attributes; i++) {
		get_text(reader, &decision->attributes[i].name);
		get_text(reader, &decision->attributes[i].value);
	}
}

static void get_decision(struct reader *reader, struct weir__recording_decision *decision)
{
	uint64_t flags;

	decision->at = get(reader);
	decision->operation = (enum weir__recording_operation)get_up_to(reader, WEIR__RECORDING_OPERATIONS - 1);
	decision->source = (enum weir__recording_source)get_up_to(reader, WEIR__RECORDING_SOURCES - 1);
	flags = get_up_to(reader, 63);
	decision->is_each = flags & 1;
	decision->is_uncertain = flags >> 1 & 1;
	decision->is_closed = flags >> 2 & 1;
	decision->is_partial = flags >> 3 & 1;
	decision->is_changing = flags >> 4 & 1;
	decision->is_shadow = flags >> 5 & 1;
	decision->max_delay = decision->operation == WEIR__RECORDING_DEPART ? get(reader) : 0;
	decision->charged_at = decision->charged_cost = decision->charged_full_at = 0;
	if (has_charge(decision->operation)) {
		decision->charged_at = get(reader);
		decision->charged_cost = get(reader);
		decision->charged_full_at = get(reader);
	}
	decision->decided_by = (uint32_t)get_up_to(reader, WEIR__RECORDING_CLAIMS_MAX - 1);
	decision->cost = get(reader);
	get_attributes(reader, decision);
	decision->n = (uint32_t)get_up_to(reader, WEIR__RECORDING_CLAIMS_MAX);
	for (uint32_t i = 0; i < decision->n && !reader->is_bad; i++) {
		struct weir__recording_claim *const claim = &decision->claims[i];

		claim->limit = (uint32_t)get_up_to(reader, WEIR__RECORDING_LIMITS_MAX - 1);
		claim->cost = get(reader);
		get_text(reader, &claim->key);
		get_state(reader, claim);
		get_verdict(reader, &claim->verdict);
	}
	if (decision->n == 0 || decision->decided_by >= decision->n)
		reader->is_bad = true;
}

static void get_limit(struct reader *reader, struct weir__recording_limit *limit)
{
	uint64_t flags;

	limit->id = (uint32_t)get_up_to(reader, WEIR__RECORDING_LIMITS_MAX - 1);
	flags = get_up_to(reader, 3);
	limit->is_inline = flags & 1;
	limit->is_shared = flags >> 1;
	limit->number = get(reader);
	limit->changed_at = get(reader);
	limit->space = get(reader);
	get_text(reader, &limit->name);
	get_text(reader, &limit->text);
}

/* Returns false if the type is unknown. */
static bool get_frame(struct reader *reader, struct weir__recording_frame *frame)
{
	switch (frame->type) {
	case WEIR__RECORDING_BEGIN:
		frame->begin.at = get(reader);
		frame->begin.sample = get(reader);
		frame->begin.is_plain = get_up_to(reader, 1);
		get_text(reader, &frame->begin.version);
		return true;
	case WEIR__RECORDING_POLICY:
		frame->policy.at = get(reader);
		frame->policy.identity = get_fixed(reader);
		frame->policy.is_hidden = get_up_to(reader, 1);
		get_text(reader, &frame->policy.text);
		return true;
	case WEIR__RECORDING_LIMIT:
		get_limit(reader, &frame->limit);
		return true;
	case WEIR__RECORDING_DECISION:
		get_decision(reader, &frame->decision);
		return true;
	case WEIR__RECORDING_UNMATCHED:
		frame->decision.at = get(reader);
		frame->decision.cost = get(reader);
		frame->decision.is_denied = get_up_to(reader, 1);
		frame->decision.n = 0;
		get_attributes(reader, &frame->decision);
		return true;
	case WEIR__RECORDING_GAP:
		frame->gap.lost = get(reader);
		frame->gap.from = get(reader);
		frame->gap.until = get(reader);
		return true;
	case WEIR__RECORDING_END:
		frame->end.at = get(reader);
		frame->end.decisions = get(reader);
		frame->end.lost = get(reader);
		return true;
	default:
		return false;
	}
}

enum weir__recording_status weir__recording_read(const void *bytes, size_t size, struct weir__recording_frame *frame,
						 size_t *ret_used, const char **ret_fault)
{
	const unsigned char *const at = bytes;
	struct reader reader;
	size_t length = 0;
	bool is_known;

	if (size < 4)
		return WEIR__RECORDING_MORE;
	for (unsigned i = 0; i < 4; i++)
		length |= (size_t)at[i] << (8 * i);
	if (length < 1 || length > WEIR__RECORDING_FRAME_MOST - 4) {
		*ret_fault = "the length of a frame is out of range";
		return WEIR__RECORDING_BAD;
	}
	if (size - 4 < length)
		return WEIR__RECORDING_MORE;
	reader = (struct reader){ at + HEAD, at + 4 + length, false };
	frame->type = at[4];
	is_known = get_frame(&reader, frame);
	if (is_known && (reader.is_bad || reader.at != reader.end)) {
		*ret_fault = "a frame has numbers or text beyond its end or range";
		return WEIR__RECORDING_BAD;
	}
	*ret_used = 4 + length;
	return is_known ? WEIR__RECORDING_COMPLETE : WEIR__RECORDING_SKIP;
}

void weir__recording_events(const struct weir__recording_claim *claim, struct weir__event *events)
{
	struct reader reader = { (const unsigned char *)claim->raw.at,
				 (const unsigned char *)claim->raw.at + claim->raw.n, false };
	struct weir__event event = { 0, 0 };

	for (uint32_t i = 0; i < claim->n_events; i++) {
		event.at += get(&reader);
		event.total += get(&reader);
		events[i] = event;
	}
}
