/* http_transcript.h: what the HTTP reader makes of bytes that arrive in pieces, as text. The bytes of each call are in
 * a new block of exactly their size, so that a sanitizer sees a read beyond it or through an old pointer. */
#ifndef WEIR_TESTS_HTTP_TRANSCRIPT_H
#define WEIR_TESTS_HTTP_TRANSCRIPT_H

#include "wire/http.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pieces.h"

struct http_transcript {
	char text[1 << 14];
	size_t length;
	bool is_cut; /* the text did not fit */
};

__attribute__((format(printf, 2, 3))) static inline void http_say(struct http_transcript *to, const char *words, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, words);
	length = vsnprintf(to->text + to->length, sizeof(to->text) - to->length, words, arguments);
	va_end(arguments);
	if ((size_t)length >= sizeof(to->text) - to->length) {
		to->text[to->length] = '\0';
		to->is_cut = true;
	} else {
		to->length += (size_t)length;
	}
}

static inline void http_say_bytes(struct http_transcript *to, const char *bytes, size_t n)
{
	for (size_t i = 0; i < n && !to->is_cut; i++)
		if (bytes[i] <= ' ' || bytes[i] >= 127 || bytes[i] == '\\')
			http_say(to, "\\x%02x", (unsigned char)bytes[i]);
		else if (to->length + 1 < sizeof(to->text))
			to->text[to->length++] = bytes[i];
		else
			to->is_cut = true;
	to->text[to->length] = '\0';
}

/* METHOD path ?query {name: value} =body, then + for keep-alive or - */
static inline void http_say_request(struct http_transcript *to, const struct weir__http_request *request)
{
	http_say(to, "%s ", llhttp_method_name(request->method));
	http_say_bytes(to, request->path.bytes, request->path.length);
	http_say(to, " ?");
	http_say_bytes(to, request->query.bytes, request->query.length);
	http_say(to, " {");
	for (uint32_t i = 0; i < request->reader->n; i++) {
		const struct weir__http_header *const header = &request->reader->headers[i];

		http_say(to, "%s", i ? ", " : "");
		http_say_bytes(to, request->bytes + header->name.at, header->name.length);
		http_say(to, ": ");
		http_say_bytes(to, request->bytes + header->value.at, header->value.length);
	}
	http_say(to, "} =");
	http_say_bytes(to, request->body.bytes, request->body.length);
	http_say(to, " %s\n", request->is_kept_alive ? "+" : "-");
}

/* Returns false if the bytes so far were rejected. */
static inline bool http_take_piece(struct http_transcript *to, struct weir__http_reader *reader, char **kept,
				   const char *piece, size_t n)
{
	while (n > 0) {
		const size_t before = reader->length;
		char *const bytes = malloc(before + n);
		struct weir__http_request request;
		enum weir__http_status status;
		size_t used = 0;

		if (before > 0)
			memcpy(bytes, *kept, before);
		memcpy(bytes + before, piece, n);
		free(*kept);
		*kept = NULL;
		status = weir__http_read(reader, bytes, before + n, &used, &request);
		if (status == WEIR__HTTP_BAD) {
			http_say(to, "%u %s at %u\n", weir__http_error_status(reader->fault),
				 weir__http_error_words(reader->fault), reader->fault_at);
			free(bytes);
			return false;
		}
		if (status == WEIR__HTTP_MORE) {
			*kept = malloc(reader->length);
			memcpy(*kept, bytes, reader->length);
			free(bytes);
			return true;
		}
		if (used <= before || used > before + n)
			abort();
		http_say_request(to, &request);
		free(bytes);
		piece += used - before;
		n -= used - before;
		weir__http_init(reader);
	}
	return true;
}

static inline void http_transcribe(struct http_transcript *to, const char *bytes, size_t n, struct pieces pieces)
{
	static struct weir__http_reader reader;
	size_t at = 0, next = pieces.first;
	char *kept = NULL;
	bool is_alive = true;

	memset(&reader, 0xaa, sizeof(reader));
	weir__http_init(&reader);
	to->length = 0;
	to->text[0] = '\0';
	to->is_cut = false;
	for (; is_alive && at < n; next = pieces.each) {
		const size_t length = next < n - at ? next : n - at;

		is_alive = http_take_piece(to, &reader, &kept, bytes + at, length);
		at += length;
	}
	if (is_alive && reader.length > 0)
		http_say(to, "more\n");
	free(kept);
}

#endif
