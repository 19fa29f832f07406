/* transcript.h: what the RESP readers make of bytes that arrive in pieces, as text to compare.
 *
 * Before each call the bytes move to the end of another block of memory, and their old place is overwritten. A
 * sanitizer sees a read beyond them, and the text shows a read of the old place.
 *
 * Fuzzers call this often. So the blocks are reused, and the text is written without stdio. */
#ifndef WEIR_TESTS_WIRE_TRANSCRIPT_H
#define WEIR_TESTS_WIRE_TRANSCRIPT_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pieces.h"
#include "wire/resp.h"

struct transcript {
	char text[1 << 17];
	size_t length;
};

struct inbox {
	const char *bytes;
	size_t size, come; /* in total, and so far */
	char *held;        /* not yet used */
	size_t n_held;
	char *blocks[2];
	size_t room; /* of each */
	struct pieces pieces;
};

static inline void transcript_add_bytes(struct transcript *transcript, const char *bytes, size_t n)
{
	const size_t left = sizeof(transcript->text) - 1 - transcript->length;

	n = n < left ? n : left;
	memcpy(transcript->text + transcript->length, bytes, n);
	transcript->length += n;
	transcript->text[transcript->length] = '\0';
}

static inline void transcript_add(struct transcript *transcript, const char *words)
{
	transcript_add_bytes(transcript, words, strlen(words));
}

static inline void transcript_add_number(struct transcript *transcript, int64_t number)
{
	char digits[20], *at = digits + sizeof(digits);
	uint64_t left = number < 0 ? -(uint64_t)number : (uint64_t)number;

	do
		*--at = (char)('0' + left % 10);
	while ((left /= 10) > 0);
	if (number < 0)
		transcript_add(transcript, "-");
	transcript_add_bytes(transcript, at, (size_t)(digits + sizeof(digits) - at));
}

/* Long slices as their length and a checksum. */
static inline void transcript_add_slice(struct transcript *transcript, struct weir__resp_slice slice)
{
	enum { LONG = 64 };
	static const char hex[] = "0123456789abcdef";
	char words[4 * LONG], *to = words;
	uint32_t sum = 0;

	for (size_t i = 0; i < slice.length; i++) {
		const unsigned char byte = (unsigned char)slice.bytes[i];

		sum = (sum ^ byte) * UINT32_C(16777619);
		if (slice.length > LONG)
			continue;
		*to++ = (char)byte;
		if (byte > ' ' && byte < 127 && byte != '\\')
			continue;
		to[-1] = '\\';
		*to++ = 'x';
		*to++ = hex[byte >> 4];
		*to++ = hex[byte & 15];
	}
	if (slice.length > LONG)
		to += snprintf(words, sizeof(words), "<%zu bytes, %08" PRIx32 ">", slice.length, sum);
	transcript_add_bytes(transcript, words, (size_t)(to - words));
}

static inline struct inbox inbox_open(const void *bytes, size_t size, struct pieces pieces)
{
	static char *blocks[2];
	static size_t room;

	if (room < size + 1) {
		for (size_t i = 0; i < 2; i++) {
			free(blocks[i]);
			blocks[i] = malloc(size + 1);
			if (blocks[i] == NULL)
				abort();
		}
		room = size + 1;
	}
	return (struct inbox){
		.bytes = bytes, .size = size, .pieces = pieces, .blocks = { blocks[0], blocks[1] }, .room = room
	};
}

/* Moves the bytes without the first `used` to the other block and appends the next piece. Returns whether there was
 * one. */
static inline bool inbox_next(struct inbox *inbox, size_t used)
{
	const size_t piece = inbox->come == 0 ? inbox->pieces.first : inbox->pieces.each;
	const size_t left = inbox->size - inbox->come, more = piece < left ? piece : left;
	const size_t kept = inbox->n_held - used;
	char *other = inbox->blocks[1], *next = other + (inbox->room - kept - more);

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

static inline void transcript_end(struct transcript *transcript, enum weir__resp_status status,
				  enum weir__resp_error fault, size_t left)
{
	if (status == WEIR__RESP_BAD) {
		transcript_add(transcript, "bad: ");
		transcript_add(transcript, weir__resp_error_words(fault));
	} else {
		transcript_add_number(transcript, (int64_t)left);
		transcript_add(transcript, " left");
	}
}

/* "GET a\n" for each request; at the end "fault 3" after an error, otherwise how many bytes are left. */
static inline void transcript_requests(struct transcript *transcript, struct weir__resp_request *request,
				       const void *bytes, size_t size, struct pieces pieces)
{
	struct inbox inbox = inbox_open(bytes, size, pieces);
	enum weir__resp_status status = WEIR__RESP_MORE;
	size_t used = 0, at = 0; /* bytes used by a call are dropped with the next piece */

	transcript->length = 0;
	transcript->text[0] = '\0';
	weir__resp_request_init(request);
	while (inbox_next(&inbox, at)) {
		at = 0;
		while ((status = weir__resp_request_read(request, inbox.held + at, inbox.n_held - at, &used)) ==
		       WEIR__RESP_COMPLETE) {
			at += used;
			for (uint32_t i = 0; i < request->n; i++) {
				if (i > 0)
					transcript_add(transcript, " ");
				transcript_add_slice(transcript, request->arguments[i]);
			}
			transcript_add(transcript, "\n");
		}
		at += used;
		if (status == WEIR__RESP_BAD)
			break;
	}
	transcript_end(transcript, status, request->fault, inbox.n_held);
}

static inline void transcript_add_token(struct transcript *transcript, const struct weir__resp_token *token)
{
	static const char letters[] = "+-:$=_#,(*%~>|";

	transcript_add_bytes(transcript, &letters[token->type], 1);
	if (token->type >= WEIR__RESP_ARRAY) {
		transcript_add_number(transcript, token->number);
		transcript_add(transcript, "/");
		transcript_add_number(transcript, token->span);
	} else if (token->type == WEIR__RESP_INTEGER || token->type == WEIR__RESP_BOOLEAN) {
		transcript_add_number(transcript, token->number);
	} else {
		transcript_add_slice(transcript, token->text);
	}
}

/* Each token as the letter of its type, number and text, one line per reply; then as above. */
static inline void transcript_replies(struct transcript *transcript, struct weir__resp_reply *reply, const void *bytes,
				      size_t size, struct pieces pieces)
{
	struct inbox inbox = inbox_open(bytes, size, pieces);
	enum weir__resp_status status = WEIR__RESP_MORE;
	size_t used = 0, at = 0;

	transcript->length = 0;
	transcript->text[0] = '\0';
	weir__resp_reply_init(reply);
	while (inbox_next(&inbox, at)) {
		at = 0;
		while ((status = weir__resp_reply_read(reply, inbox.held + at, inbox.n_held - at, &used)) ==
		       WEIR__RESP_COMPLETE) {
			at += used;
			for (uint32_t i = 0; i < reply->n; i++) {
				if (i > 0)
					transcript_add(transcript, " ");
				transcript_add_token(transcript, &reply->tokens[i]);
			}
			transcript_add(transcript, "\n");
		}
		at += used;
		if (status == WEIR__RESP_BAD)
			break;
	}
	transcript_end(transcript, status, reply->fault, inbox.n_held);
}

#endif
