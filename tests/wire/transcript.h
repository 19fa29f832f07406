/* transcript.h: bytes come in pieces to a reader of RESP; what it makes of them, as a text to compare.
 *
 * Before each call the bytes move to the very end of another block of memory, and those where they were are overwritten:
 * a sanitizer sees who reads beyond them, and the text shows who reads where they were. */
#ifndef WEIR_TESTS_WIRE_TRANSCRIPT_H
#define WEIR_TESTS_WIRE_TRANSCRIPT_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/resp.h"

struct transcript {
	char text[1 << 17];
	size_t length;
};

/* How bytes come: `first` of them, then `each` at a time. */
struct pieces {
	size_t first, each;
};

static const struct pieces at_once = { SIZE_MAX, SIZE_MAX };

struct inbox {
	const char *bytes;
	size_t size, come; /* all there will be, and so far */
	char *held;        /* those not yet used */
	size_t n_held;
	char *blocks[2];
	struct pieces pieces;
};

static inline void transcript_add(struct transcript *transcript, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static inline void transcript_add(struct transcript *transcript, const char *format, ...)
{
	const size_t left = sizeof(transcript->text) - transcript->length;
	va_list arguments;
	int n;

	va_start(arguments, format);
	n = vsnprintf(transcript->text + transcript->length, left, format, arguments);
	va_end(arguments);
	transcript->length += n < 0 ? 0 : (size_t)n < left ? (size_t)n : left - 1;
}

static inline void transcript_put(struct transcript *transcript, char byte)
{
	if (transcript->length + 1 >= sizeof(transcript->text))
		return;
	transcript->text[transcript->length++] = byte;
	transcript->text[transcript->length] = '\0';
}

/* Long ones by their length and a sum. Without stdio where it matters: fuzzers come here often. */
static inline void transcript_add_slice(struct transcript *transcript, struct weir__resp_slice slice)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < slice.length; i++) {
		const unsigned char byte = (unsigned char)slice.bytes[i];

		sum = (sum ^ byte) * UINT32_C(16777619);
		if (slice.length > 64)
			continue;
		if (byte > ' ' && byte < 127 && byte != '\\') {
			transcript_put(transcript, (char)byte);
			continue;
		}
		transcript_put(transcript, '\\');
		transcript_put(transcript, 'x');
		transcript_put(transcript, "0123456789abcdef"[byte >> 4]);
		transcript_put(transcript, "0123456789abcdef"[byte & 15]);
	}
	if (slice.length > 64)
		transcript_add(transcript, "<%zu bytes, %08" PRIx32 ">", slice.length, sum);
}

static inline struct inbox inbox_open(const void *bytes, size_t size, struct pieces pieces)
{
	struct inbox inbox = { .bytes = bytes, .size = size, .pieces = pieces };

	inbox.blocks[0] = malloc(size + 1);
	inbox.blocks[1] = malloc(size + 1);
	if (inbox.blocks[0] == NULL || inbox.blocks[1] == NULL)
		abort();
	return inbox;
}

static inline void inbox_close(struct inbox *inbox)
{
	free(inbox->blocks[0]);
	free(inbox->blocks[1]);
}

/* In the other block: those that are left without the first `used`, and the next piece. Says whether there was one. */
static inline bool inbox_next(struct inbox *inbox, size_t used)
{
	const size_t piece = inbox->come == 0 ? inbox->pieces.first : inbox->pieces.each;
	const size_t left = inbox->size - inbox->come, more = piece < left ? piece : left;
	const size_t kept = inbox->n_held - used;
	char *other = inbox->blocks[1], *next = other + (inbox->size + 1 - kept - more);

	if (kept > 0)
		memcpy(next, inbox->held + used, kept);
	if (inbox->n_held > 0)
		memset(inbox->held, '!', inbox->n_held);
	if (more > 0)
		memcpy(next + kept, inbox->bytes + inbox->come, more);
	inbox->blocks[1] = inbox->blocks[0];
	inbox->blocks[0] = other;
	inbox->held = next;
	inbox->n_held = kept + more;
	inbox->come += more;
	return more > 0;
}

/* "GET a\n" for each request; "fault 3" at the end if there is one, else how many bytes are left over. */
static inline void transcript_requests(struct transcript *transcript, struct weir__resp_request *request,
				       const void *bytes, size_t size, struct pieces pieces)
{
	struct inbox inbox = inbox_open(bytes, size, pieces);
	enum weir__resp_status status = WEIR__RESP_MORE;
	size_t used = 0, at = 0; /* what a call has used is dropped with the next piece */

	transcript->length = 0;
	transcript->text[0] = '\0';
	weir__resp_request_init(request);
	while (inbox_next(&inbox, at)) {
		at = 0;
		while ((status = weir__resp_request_read(request, inbox.held + at, inbox.n_held - at, &used)) ==
		       WEIR__RESP_WHOLE) {
			at += used;
			for (uint32_t i = 0; i < request->n; i++) {
				if (i > 0)
					transcript_put(transcript, ' ');
				transcript_add_slice(transcript, request->arguments[i]);
			}
			transcript_put(transcript, '\n');
		}
		at += used;
		if (status == WEIR__RESP_BAD)
			break;
	}
	if (status == WEIR__RESP_BAD)
		transcript_add(transcript, "bad: %s", weir__resp_fault_words(request->fault));
	else
		transcript_add(transcript, "%zu left", inbox.n_held);
	inbox_close(&inbox);
}

/* Each token as its type's letter, number and text, those of a reply on one line; then as above. */
static inline void transcript_replies(struct transcript *transcript, struct weir__resp_reply *reply, const void *bytes,
				      size_t size, struct pieces pieces)
{
	static const char letters[] = "+-:$=_#,(*%~>|";
	struct inbox inbox = inbox_open(bytes, size, pieces);
	enum weir__resp_status status = WEIR__RESP_MORE;
	size_t used = 0, at = 0;

	transcript->length = 0;
	transcript->text[0] = '\0';
	weir__resp_reply_init(reply);
	while (inbox_next(&inbox, at)) {
		at = 0;
		while ((status = weir__resp_reply_read(reply, inbox.held + at, inbox.n_held - at, &used)) ==
		       WEIR__RESP_WHOLE) {
			at += used;
			for (uint32_t i = 0; i < reply->n; i++) {
				const struct weir__resp_token *token = &reply->tokens[i];

				if (i > 0)
					transcript_put(transcript, ' ');
				transcript_put(transcript, letters[token->type]);
				if (token->type >= WEIR__RESP_ARRAY)
					transcript_add(transcript, "%" PRId64 "/%" PRIu32, token->number, token->span);
				else if (token->type == WEIR__RESP_INTEGER || token->type == WEIR__RESP_BOOLEAN)
					transcript_add(transcript, "%" PRId64, token->number);
				else
					transcript_add_slice(transcript, token->text);
			}
			transcript_put(transcript, '\n');
		}
		at += used;
		if (status == WEIR__RESP_BAD)
			break;
	}
	if (status == WEIR__RESP_BAD)
		transcript_add(transcript, "bad: %s", weir__resp_fault_words(reply->fault));
	else
		transcript_add(transcript, "%zu left", inbox.n_held);
	inbox_close(&inbox);
}

#endif
