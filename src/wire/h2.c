/* h2.c: sessions and streams on nghttp2. */
#include "wire/h2.h"

#include <malloc.h>
#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>

#include "core/hex.h"
#include "wire/digits.h"

enum {
	WINDOW = WEIR__HTTP_BODY_MAX + 1, /* of a stream: the extra byte shows that a body is too long */
	CONNECTION_WINDOW = 1024 * 1024,
	DECODED_MAX = 2 * WEIR__HTTP_HEAD_MAX, /* bytes of the fields of a block */
	FIELD_HEAD = 4,                        /* lengths of name and value, before them */
};

struct weir__h2 {
	nghttp2_session *nghttp2;
	nghttp2_mem memory;
	size_t bytes;       /* allocated */
	size_t asked_bytes; /* of requests that have no response yet */
	struct weir__h2_options options;
	struct weir__h2_floods floods;
	struct weir__h2_stream streams; /* head of the ring */
	struct weir__h2_stream *first_whole, *last_whole;
	const uint8_t *left; /* written by nghttp2, and not copied yet */
	size_t n_left;
	uint64_t sent;
	size_t unsent; /* bytes of bodies */
	weir_ns now;
	size_t decoded; /* bytes of fields in the current header block */
	bool had_request, is_over, has_left;
};

/* --- memory ------------------------------------------------------------------------------------------------------ */

static void *count_allocation(struct weir__h2 *session, void *block)
{
	if (block)
		session->bytes += malloc_usable_size(block);
	return block;
}

static void *take_bytes(size_t size, void *session)
{
	return count_allocation(session, malloc(size));
}

static void *take_zeros(size_t n, size_t size, void *session)
{
	return count_allocation(session, calloc(n, size));
}

static void give_bytes(void *block, void *session_)
{
	struct weir__h2 *const session = session_;

	if (block)
		session->bytes -= malloc_usable_size(block);
	free(block);
}

static void *move_bytes(void *block, size_t size, void *session_)
{
	struct weir__h2 *const session = session_;
	const size_t before = block ? malloc_usable_size(block) : 0;
	void *const moved = realloc(block, size);

	if (moved) {
		session->bytes -= before;
		session->bytes += malloc_usable_size(moved);
	}
	return moved;
}

/* Frees the request. Call it when the response begins: the bytes are not read after that. */
static void drop_request(struct weir__h2_stream *stream)
{
	if (stream->bytes == NULL)
		return;
	stream->session->asked_bytes -= stream->size;
	if (stream->bytes != stream->own)
		give_bytes(stream->bytes, stream->session);
	stream->bytes = NULL;
	stream->length = stream->size = 0;
}

static void drop_out(struct weir__h2_stream *stream)
{
	stream->session->unsent -= stream->out_length - stream->out_sent;
	if (stream->out && stream->out != stream->own)
		give_bytes(stream->out, stream->session);
	stream->out = NULL;
	stream->out_sent = stream->out_length = stream->out_size = 0;
}

/* --- streams ----------------------------------------------------------------------------------------------------- */

static struct weir__h2_stream *stream_of(nghttp2_session *nghttp2, int32_t number)
{
	return nghttp2_session_get_stream_user_data(nghttp2, number);
}

static struct weir__h2_stream *new_stream(struct weir__h2 *session, int32_t number)
{
	/* A gRPC request fits `own`, which needs no zeros. */
	struct weir__h2_stream *const stream = take_bytes(session->options.stream_size, session);

	if (stream == NULL)
		return NULL;
	memset(stream, 0, offsetof(struct weir__h2_stream, own));
	memset((char *)stream + sizeof(*stream), 0, session->options.stream_size - sizeof(*stream));
	stream->session = session;
	stream->number = number;
	stream->begun_at = session->now;
	stream->bytes = stream->own;
	stream->size = sizeof(stream->own);
	session->asked_bytes += stream->size;
	stream->next = &session->streams;
	stream->previous = session->streams.previous;
	stream->next->previous = stream->previous->next = stream;
	return stream;
}

static void leave_queue(struct weir__h2_stream *stream)
{
	struct weir__h2 *const session = stream->session;
	struct weir__h2_stream *before = NULL;

	if (!stream->is_queued)
		return;
	stream->is_queued = false;
	for (struct weir__h2_stream *at = session->first_whole; at != stream; at = at->next_whole)
		before = at;
	if (before)
		before->next_whole = stream->next_whole;
	else
		session->first_whole = stream->next_whole;
	if (session->last_whole == stream)
		session->last_whole = before;
}

static void free_stream(struct weir__h2_stream *stream)
{
	struct weir__h2 *const session = stream->session;

	leave_queue(stream);
	if (session->options.closed)
		session->options.closed(session->options.context, stream);
	drop_request(stream);
	drop_out(stream);
	give_bytes(stream->grpc_words, session);
	stream->next->previous = stream->previous;
	stream->previous->next = stream->next;
	give_bytes(stream, session);
}

static void queue(struct weir__h2_stream *stream)
{
	struct weir__h2 *const session = stream->session;

	if (stream->is_queued || stream->is_responding)
		return;
	session->had_request = stream->is_queued = true;
	stream->next_whole = NULL;
	if (session->last_whole)
		session->last_whole->next_whole = stream;
	else
		session->first_whole = stream;
	session->last_whole = stream;
}

static void fail(struct weir__h2_stream *stream, enum weir__http_error fault)
{
	stream->fault = (uint16_t)weir__http_error_status(fault);
}

/* Resets a stream whose request would exceed the session's bound. */
static void refuse(struct weir__h2_stream *stream)
{
	stream->is_refused = true;
	drop_request(stream);
	weir__h2_reset(stream, WEIR__H2_ENHANCE_YOUR_CALM);
}

/* Makes room for n more bytes of a request. */
static bool make_room(struct weir__h2_stream *stream, size_t n)
{
	struct weir__h2 *const session = stream->session;
	const size_t needed = stream->length + n, size = 2 * needed;
	char *bytes;

	if (needed <= stream->size)
		return true;
	if (session->asked_bytes - stream->size + size > WEIR__H2_BODIES_MAX) {
		refuse(stream);
		return false;
	}
	bytes = stream->bytes == stream->own ? take_bytes(size, session) : move_bytes(stream->bytes, size, session);
	if (bytes == NULL) {
		refuse(stream);
		return false;
	}
	if (stream->bytes == stream->own)
		memcpy(bytes, stream->own, stream->length);
	session->asked_bytes += size - stream->size;
	stream->bytes = bytes;
	stream->size = (uint32_t)size;
	return true;
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

static const struct method {
	const char *name;
	llhttp_method_t method;
} methods[] = {
	{ "POST", HTTP_POST }, { "GET", HTTP_GET },     { "PUT", HTTP_PUT },         { "DELETE", HTTP_DELETE },
	{ "HEAD", HTTP_HEAD }, { "PATCH", HTTP_PATCH }, { "OPTIONS", HTTP_OPTIONS },
};

/* Unknown methods become CONNECT, which no route has. */
static uint8_t method_of(const uint8_t *name, size_t n)
{
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (strlen(methods[i].name) == n && memcmp(methods[i].name, name, n) == 0)
			return (uint8_t)methods[i].method;
	return HTTP_CONNECT;
}

static bool is_name(const uint8_t *name, size_t n, const char *word)
{
	return strlen(word) == n && memcmp(name, word, n) == 0;
}

/* Keeps a field: two lengths of two bytes, then the name and the value. Returns false if it is not kept. */
static bool add_field(struct weir__h2_stream *stream, const void *name, size_t n, const void *value, size_t length)
{
	const uint16_t lengths[2] = { (uint16_t)n, (uint16_t)length };
	char *to;

	if (stream->n_fields == WEIR__HTTP_HEADERS_MAX) {
		fail(stream, WEIR__HTTP_ERROR_HEADERS);
		return false;
	}
	if (stream->length + FIELD_HEAD + n + length > WEIR__HTTP_HEAD_MAX) {
		fail(stream, WEIR__HTTP_ERROR_HEAD_SIZE);
		return false;
	}
	if (!make_room(stream, FIELD_HEAD + n + length))
		return false;
	to = stream->bytes + stream->length;
	memcpy(to, lengths, FIELD_HEAD);
	memcpy(to + FIELD_HEAD, name, n);
	if (length > 0)
		memcpy(to + FIELD_HEAD + n, value, length);
	stream->n_fields++;
	stream->length += (uint32_t)(FIELD_HEAD + n + length);
	return true;
}

static int on_begin_headers(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *session)
{
	struct weir__h2_stream *stream;

	((struct weir__h2 *)session)->decoded = 0;
	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	stream = new_stream(session, frame->hd.stream_id);
	if (stream == NULL)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	(void)nghttp2_session_set_stream_user_data(nghttp2, frame->hd.stream_id, stream);
	return 0;
}

static int on_header(nghttp2_session *nghttp2, const nghttp2_frame *frame, const uint8_t *name, size_t n,
		     const uint8_t *value, size_t length, uint8_t flags, void *session_)
{
	struct weir__h2 *const session = session_;
	struct weir__h2_stream *const stream = stream_of(nghttp2, frame->hd.stream_id);

	(void)flags;
	/* A few bytes can refer to a long field many times, and nghttp2 checks the field each time. */
	session->decoded += n + length;
	if (session->decoded > DECODED_MAX) {
		(void)weir__h2_floods_fail_block(&session->floods);
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	}
	if (stream == NULL || stream->head_length > 0 || stream->fault != 0 || stream->is_refused)
		return 0; /* a trailer, or a request that has failed */
	if (n == 0 || name[0] != ':') {
		(void)add_field(stream, name, n, value, length);
	} else if (is_name(name, n, ":method")) {
		stream->method = method_of(value, length);
	} else if (is_name(name, n, ":authority")) {
		(void)add_field(stream, "host", 4, value, length);
	} else if (is_name(name, n, ":path") && add_field(stream, name, n, value, length)) {
		stream->path_at = stream->length - (uint32_t)length;
		stream->path_length = (uint32_t)length;
	}
	return 0;
}

static void end_head(struct weir__h2_stream *stream)
{
	stream->head_length = stream->length;
	if (stream->fault != 0 || stream->is_refused)
		return;
	if (stream->method == HTTP_CONNECT)
		fail(stream, WEIR__HTTP_ERROR_METHOD);
	else if (stream->path_length == 0 || memchr(stream->bytes + stream->path_at, '#', stream->path_length))
		fail(stream, WEIR__HTTP_ERROR_TARGET);
}

/* A client that streams may wait for a response before it ends its request. */
static bool is_enough(struct weir__h2_stream *stream, const nghttp2_frame *frame)
{
	const struct weir__h2_options *const options = &stream->session->options;

	if (frame->hd.type != NGHTTP2_DATA || stream->is_seen_early || stream->is_responding ||
	    options->is_enough == NULL)
		return false;
	stream->is_seen_early = true;
	return options->is_enough(options->context, stream);
}

static int on_frame_recv(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *session_)
{
	struct weir__h2 *const session = session_;
	struct weir__h2_stream *stream;

	if (frame->hd.type == NGHTTP2_HEADERS && session->decoded > WEIR__HTTP_HEAD_MAX &&
	    !weir__h2_floods_count(&session->floods, WEIR__H2_FLOOD_LONG_HEADS))
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	stream = stream_of(nghttp2, frame->hd.stream_id);
	if (stream == NULL || stream->is_refused)
		return 0;
	if (frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		end_head(stream);
	if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
		stream->is_whole = true;
	if ((stream->is_whole || stream->fault != 0 || is_enough(stream, frame)) && !stream->is_refused)
		queue(stream);
	return 0;
}

/* nghttp2 resets the stream after an invalid frame. The request must not be run, or a client could make the server work
 * without waiting for responses. */
static int on_invalid_frame(nghttp2_session *nghttp2, const nghttp2_frame *frame, int error, void *session)
{
	struct weir__h2_stream *const stream = stream_of(nghttp2, frame->hd.stream_id);

	(void)error;
	(void)session;
	if (stream == NULL)
		return 0;
	stream->is_refused = true;
	leave_queue(stream);
	return 0;
}

static int on_data(nghttp2_session *nghttp2, uint8_t flags, int32_t number, const uint8_t *bytes, size_t n,
		   void *session)
{
	struct weir__h2_stream *const stream = stream_of(nghttp2, number);

	(void)flags;
	(void)session;
	if (nghttp2_session_consume_connection(nghttp2, n) != 0)
		return NGHTTP2_ERR_CALLBACK_FAILURE;
	if (stream == NULL || stream->is_refused || stream->fault != 0 || stream->is_responding)
		return 0;
	if (stream->length - stream->head_length + n > WEIR__HTTP_BODY_MAX) {
		fail(stream, WEIR__HTTP_ERROR_BODY_SIZE);
		queue(stream);
		return 0;
	}
	if (n > 0 && make_room(stream, n)) {
		memcpy(stream->bytes + stream->length, bytes, n);
		stream->length += (uint32_t)n;
	}
	return 0;
}

static int on_stream_close(nghttp2_session *nghttp2, int32_t number, uint32_t code, void *session_)
{
	struct weir__h2_stream *const stream = stream_of(nghttp2, number);
	struct weir__h2 *const session = session_;

	if (stream == NULL)
		return 0;
	if (stream->is_ended && code == NGHTTP2_NO_ERROR)
		weir__h2_floods_responded(&session->floods);
	free_stream(stream);
	return 0;
}

struct weir__h2_stream *weir__h2_take(struct weir__h2 *session)
{
	struct weir__h2_stream *const stream = session->first_whole;

	if (stream == NULL)
		return NULL;
	session->first_whole = stream->next_whole;
	if (session->first_whole == NULL)
		session->last_whole = NULL;
	stream->is_queued = false;
	stream->is_responding = true;
	return stream;
}

bool weir__h2_has_requests(const struct weir__h2 *session)
{
	return session->first_whole != NULL;
}

void weir__h2_request(struct weir__h2_stream *stream, struct weir__http_reader *reader,
		      struct weir__http_request *ret_request)
{
	char *const bytes = stream->bytes, *const path = bytes + stream->path_at;
	char *const query = stream->path_length > 0 ? memchr(path, '?', stream->path_length) : NULL;
	uint32_t at = 0;

	reader->n = 0;
	reader->parser.method = stream->method;
	reader->parser.http_minor = 1;
	for (uint32_t i = 0; i < stream->n_fields; i++) {
		uint16_t lengths[2];
		const uint32_t name = at + FIELD_HEAD;

		memcpy(lengths, bytes + at, FIELD_HEAD);
		at = name + lengths[0] + lengths[1];
		if (bytes[name] != ':')
			reader->headers[reader->n++] = (struct weir__http_header){ { name, lengths[0] },
										   { name + lengths[0], lengths[1] } };
	}
	ret_request->method = (llhttp_method_t)stream->method;
	ret_request->path = (struct weir__http_slice){ path, query ? (size_t)(query - path) : stream->path_length };
	ret_request->query = (struct weir__http_slice){ query ? query + 1 : path + stream->path_length,
							query ? stream->path_length - (size_t)(query + 1 - path) : 0 };
	ret_request->body = (struct weir__http_slice){ bytes + stream->head_length,
						       stream->length - stream->head_length };
	ret_request->is_kept_alive = true;
	ret_request->reader = reader;
	ret_request->bytes = bytes;
}

/* --- responses --------------------------------------------------------------------------------------------------- */

#define CONSTANT(name, value)                                                                                          \
	{                                                                                                              \
		(uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), sizeof(name) - 1, sizeof(value) - 1,      \
			NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE                                   \
	}

static nghttp2_nv field_of(const struct weir__h2_field *field)
{
	return (nghttp2_nv){ (uint8_t *)(uintptr_t)field->name, (uint8_t *)(uintptr_t)field->value, field->name_length,
			     field->value_length, NGHTTP2_NV_FLAG_NONE };
}

static void submit_trailers(nghttp2_session *nghttp2, const struct weir__h2_stream *stream)
{
	static const nghttp2_nv ok = CONSTANT("grpc-status", "0");
	char digits[WEIR__DIGITS_MOST];
	nghttp2_nv fields[2] = { ok };
	size_t n = 1;

	if (stream->grpc_status != 0)
		fields[0] = field_of(&(struct weir__h2_field){
			"grpc-status", digits, 11, (size_t)(weir__put_digits(digits, stream->grpc_status) - digits) });
	if (stream->grpc_words)
		fields[n++] = field_of(
			&(struct weir__h2_field){ "grpc-message", stream->grpc_words, 12, strlen(stream->grpc_words) });
	(void)nghttp2_submit_trailer(nghttp2, stream->number, fields, n);
}

static ssize_t read_body(nghttp2_session *nghttp2, int32_t number, uint8_t *to, size_t room, uint32_t *flags,
			 nghttp2_data_source *source, void *session_)
{
	struct weir__h2_stream *const stream = source->ptr;
	struct weir__h2 *const session = session_;
	const size_t left = stream->out_length - stream->out_sent, n = left < room ? left : room;

	(void)number;
	if (n > 0)
		memcpy(to, stream->out + stream->out_sent, n);
	stream->out_sent += n;
	session->sent += n;
	session->unsent -= n;
	weir__h2_floods_sent(&session->floods, n);
	if (stream->out_sent == stream->out_length) {
		drop_out(stream);
		if (!stream->is_ended && n == 0)
			return NGHTTP2_ERR_DEFERRED;
		if (stream->is_ended)
			*flags |= NGHTTP2_DATA_FLAG_EOF;
		if (stream->is_ended && stream->has_trailers) {
			*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
			submit_trailers(nghttp2, stream);
		}
	}
	return (ssize_t)n;
}

/* If a response ends before its request is complete, tells the client not to send the rest. */
static int on_frame_send(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *session_)
{
	struct weir__h2 *const session = session_;
	const struct weir__h2_stream *stream;

	if (frame->hd.type == NGHTTP2_RST_STREAM) {
		if (frame->rst_stream.error_code != NGHTTP2_NO_ERROR)
			(void)weir__h2_floods_count(&session->floods, WEIR__H2_FLOOD_RESETS);
		return 0;
	}
	if ((frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS) ||
	    !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
		return 0;
	stream = stream_of(nghttp2, frame->hd.stream_id);
	if (stream && !stream->is_whole)
		(void)nghttp2_submit_rst_stream(nghttp2, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_NO_ERROR);
	return 0;
}

bool weir__h2_respond(struct weir__h2_stream *stream, unsigned status, const struct weir__h2_field *fields, size_t n,
		      bool is_ended)
{
	static const nghttp2_nv ok = CONSTANT(":status", "200");
	const nghttp2_data_provider provider = { .source.ptr = stream, .read_callback = read_body };
	nghttp2_nv all[1 + WEIR__H2_FIELDS_MAX];
	char digits[WEIR__DIGITS_MOST];

	all[0] = ok;
	if (status != 200)
		all[0] = field_of(&(struct weir__h2_field){ ":status", digits, 7,
							    (size_t)(weir__put_digits(digits, status) - digits) });
	for (size_t i = 0; i < n && i < WEIR__H2_FIELDS_MAX; i++)
		all[1 + i] = field_of(&fields[i]);
	drop_request(stream);
	stream->is_responding = true;
	stream->is_ended = is_ended;
	return nghttp2_submit_response(stream->session->nghttp2, stream->number, all,
				       1 + (n < WEIR__H2_FIELDS_MAX ? n : WEIR__H2_FIELDS_MAX),
				       is_ended ? NULL : &provider) == 0;
}

bool weir__h2_append(struct weir__h2_stream *stream, const void *bytes, size_t n)
{
	struct weir__h2 *const session = stream->session;
	const size_t needed = stream->out_length + n;

	if (n == 0)
		return true;
	if (stream->out == NULL && stream->bytes == NULL && n <= sizeof(stream->own)) {
		stream->out = stream->own;
		stream->out_size = sizeof(stream->own);
	} else if (needed > stream->out_size) {
		const bool is_own = stream->out == stream->own;
		char *const out = is_own || stream->out == NULL ? take_bytes(needed, session) :
								  move_bytes(stream->out, needed, session);

		if (out == NULL)
			return false;
		if (is_own)
			memcpy(out, stream->own, stream->out_length);
		stream->out = out;
		stream->out_size = needed;
	}
	/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): without `out`, out_size is 0, and `needed` is
	 * more */
	memcpy(stream->out + stream->out_length, bytes, n);
	stream->out_length += n;
	session->unsent += n;
	(void)nghttp2_session_resume_data(session->nghttp2, stream->number);
	return true;
}

/* grpc-message is percent-encoded: bytes that are not visible ASCII, and %. */
static char *encode_words(struct weir__h2 *session, const char *words)
{
	static const char digits[] = "0123456789ABCDEF";
	char *const text = take_bytes(WEIR__H2_WORDS_MAX, session);
	size_t n = 0;

	for (; text && *words && n + 4 < WEIR__H2_WORDS_MAX; words++) {
		const unsigned char byte = (unsigned char)*words;

		if (byte >= ' ' && byte <= '~' && byte != '%') {
			text[n++] = (char)byte;
			continue;
		}
		text[n++] = '%';
		text[n++] = digits[byte >> 4];
		text[n++] = digits[byte & 15];
	}
	if (text)
		text[n] = '\0';
	return text;
}

void weir__h2_end(struct weir__h2_stream *stream, int grpc_status, const char *words)
{
	stream->is_ended = true;
	stream->has_trailers = grpc_status >= 0;
	stream->grpc_status = grpc_status > 0 ? (unsigned)grpc_status : 0;
	if (words && stream->grpc_words == NULL)
		stream->grpc_words = encode_words(stream->session, words);
	(void)nghttp2_session_resume_data(stream->session->nghttp2, stream->number);
}

void weir__h2_reset(struct weir__h2_stream *stream, uint32_t code)
{
	leave_queue(stream);
	(void)nghttp2_submit_rst_stream(stream->session->nghttp2, NGHTTP2_FLAG_NONE, stream->number, code);
}

/* --- sessions ---------------------------------------------------------------------------------------------------- */

static nghttp2_session *make(struct weir__h2 *session)
{
	nghttp2_session_callbacks *callbacks = NULL;
	nghttp2_session *nghttp2 = NULL;
	nghttp2_option *option = NULL;

	if (nghttp2_session_callbacks_new(&callbacks) != 0 || nghttp2_option_new(&option) != 0)
		goto done;
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
	nghttp2_option_set_no_auto_window_update(option, 1);
	nghttp2_option_set_no_closed_streams(option, 1);
	if (nghttp2_session_server_new3(&nghttp2, callbacks, session, option, &session->memory) != 0)
		nghttp2 = NULL;
done:
	nghttp2_option_del(option);
	nghttp2_session_callbacks_del(callbacks);
	return nghttp2;
}

struct weir__h2 *weir__h2_new(const struct weir__h2_options *options, weir_ns now)
{
	static const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, WEIR__H2_STREAMS_MAX },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, WEIR__HTTP_HEAD_MAX },
	};
	struct weir__h2 *const session = calloc(1, sizeof(*session));

	if (session == NULL)
		return NULL;
	session->options = *options;
	session->memory = (nghttp2_mem){ session, take_bytes, give_bytes, take_zeros, move_bytes };
	session->bytes = sizeof(*session);
	session->streams.next = session->streams.previous = &session->streams;
	session->now = now;
	weir__h2_floods_init(&session->floods, now);
	session->nghttp2 = make(session);
	if (session->nghttp2 &&
	    nghttp2_submit_settings(session->nghttp2, NGHTTP2_FLAG_NONE, settings,
				    sizeof(settings) / sizeof(settings[0])) == 0 &&
	    nghttp2_session_set_local_window_size(session->nghttp2, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW) == 0)
		return session;
	weir__h2_free(session);
	return NULL;
}

void weir__h2_free(struct weir__h2 *session)
{
	if (session == NULL)
		return;
	while (session->streams.next != &session->streams)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): free_stream takes the stream off the list */
		free_stream(session->streams.next);
	nghttp2_session_del(session->nghttp2);
	free(session);
}

bool weir__h2_read(struct weir__h2 *session, const char *bytes, size_t n, weir_ns now)
{
	session->now = now;
	if (session->is_over)
		return false;
	if (!weir__h2_floods_read(&session->floods, bytes, n, now) ||
	    nghttp2_session_mem_recv(session->nghttp2, (const uint8_t *)bytes, n) != (ssize_t)n) {
		weir__h2_go_away(session, WEIR__H2_ENHANCE_YOUR_CALM);
		return false;
	}
	return nghttp2_session_want_read(session->nghttp2) || nghttp2_session_want_write(session->nghttp2);
}

size_t weir__h2_write(struct weir__h2 *session, char *out, size_t room)
{
	size_t n = 0;

	for (;;) {
		const size_t taken = session->n_left < room - n ? session->n_left : room - n;
		ssize_t written;

		if (taken > 0) {
			/* NOLINTNEXTLINE(clang-analyzer-core.NonNullParamChecker): without `left`, n_left is 0 */
			memcpy(out + n, session->left, taken);
			n += taken;
			session->left += taken;
			session->n_left -= taken;
		}
		if (session->n_left > 0)
			return n;
		written = nghttp2_session_mem_send(session->nghttp2, &session->left);
		if (written <= 0) {
			session->left = NULL;
			session->is_over |= written < 0;
			break;
		}
		session->n_left = (size_t)written;
	}
	if (session->floods.flood != WEIR__H2_FLOOD_NONE && !session->is_over) {
		weir__h2_go_away(session, WEIR__H2_ENHANCE_YOUR_CALM);
		return n + (room > n ? weir__h2_write(session, out + n, room - n) : 0);
	}
	return n;
}

void weir__h2_warn(struct weir__h2 *session)
{
	if (!session->is_over && !session->has_left)
		(void)nghttp2_submit_shutdown_notice(session->nghttp2);
}

void weir__h2_go_away(struct weir__h2 *session, uint32_t code)
{
	static const char pings[] = "too_many_pings"; /* the words of gRPC, whose clients then ping less often */
	const bool is_pings = session->floods.flood == WEIR__H2_FLOOD_PINGS;
	const int32_t last = nghttp2_session_get_last_proc_stream_id(session->nghttp2);

	if (session->is_over || (session->has_left && code == 0))
		return;
	session->has_left = true;
	session->is_over |= code != 0;
	(void)nghttp2_submit_goaway(session->nghttp2, NGHTTP2_FLAG_NONE, last, code,
				    is_pings ? (const uint8_t *)pings : NULL, is_pings ? sizeof(pings) - 1 : 0);
}

void weir__h2_ping(struct weir__h2 *session)
{
	(void)nghttp2_submit_ping(session->nghttp2, NGHTTP2_FLAG_NONE, NULL);
}

bool weir__h2_is_over(const struct weir__h2 *session)
{
	return session->n_left == 0 && !nghttp2_session_want_write(session->nghttp2) &&
	       (session->is_over || !nghttp2_session_want_read(session->nghttp2));
}

struct weir__h2_stream *weir__h2_next(struct weir__h2 *session, struct weir__h2_stream *stream)
{
	struct weir__h2_stream *const next = stream ? stream->next : session->streams.next;

	return next == &session->streams ? NULL : next;
}

void weir__h2_look(const struct weir__h2 *session, struct weir__h2_progress *ret_progress)
{
	*ret_progress = (struct weir__h2_progress){ .sent = session->sent, .is_silent = !session->had_request };
	for (const struct weir__h2_stream *stream = session->streams.next; stream != &session->streams;
	     stream = stream->next) {
		const bool is_asked = stream->is_queued || stream->is_responding;

		if (!is_asked && ret_progress->incomplete == 0)
			ret_progress->incomplete = stream->number;
		ret_progress->is_blocked |= stream->out_length > 0;
		ret_progress->under_way += is_asked;
	}
}

enum weir__h2_flood weir__h2_flood(const struct weir__h2 *session)
{
	return session->floods.flood;
}

bool weir__h2_is_full(const struct weir__h2 *session)
{
	return session->unsent >= WEIR__H2_UNSENT_MAX;
}

size_t weir__h2_bytes(const struct weir__h2 *session)
{
	return session->bytes;
}
