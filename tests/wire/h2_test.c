/* h2_test.c: sessions of HTTP/2, with a client of nghttp2. Bytes go from one to the other in memory. */
#include "wire/h2.h"

#include <nghttp2/nghttp2.h>
#include <stdlib.h>

#include "check.h"

#define S UINT64_C(1000000000)

enum { ROOM = 64 * 1024, STREAMS = 512 };

/* What the client has received. */
static struct received {
	int status, n_data;
	size_t length;
	uint32_t reset, went_away;
	bool is_closed;
	char grpc_status[4], grpc_message[64];
} got[STREAMS];
static uint32_t away;
static bool is_away;

static struct weir__h2 *session;
static nghttp2_session *client;
static int n_closed;
static weir_ns now;

static int on_header(nghttp2_session *nghttp2, const nghttp2_frame *frame, const uint8_t *name, size_t n,
		     const uint8_t *value, size_t length, uint8_t flags, void *context)
{
	struct received *const one = &got[frame->hd.stream_id % STREAMS];

	(void)nghttp2, (void)flags, (void)context;
	if (n == 7 && memcmp(name, ":status", 7) == 0)
		one->status = atoi((const char *)value);
	if (n == 11 && memcmp(name, "grpc-status", 11) == 0)
		(void)snprintf(one->grpc_status, sizeof(one->grpc_status), "%.*s", (int)length, (const char *)value);
	if (n == 12 && memcmp(name, "grpc-message", 12) == 0)
		(void)snprintf(one->grpc_message, sizeof(one->grpc_message), "%.*s", (int)length, (const char *)value);
	return 0;
}

static int on_data(nghttp2_session *nghttp2, uint8_t flags, int32_t number, const uint8_t *bytes, size_t n,
		   void *context)
{
	(void)nghttp2, (void)flags, (void)bytes, (void)context;
	got[number % STREAMS].length += n;
	got[number % STREAMS].n_data++;
	return 0;
}

static int on_close(nghttp2_session *nghttp2, int32_t number, uint32_t code, void *context)
{
	(void)nghttp2, (void)context;
	got[number % STREAMS].is_closed = true;
	got[number % STREAMS].reset = code;
	return 0;
}

static int on_frame(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *context)
{
	(void)nghttp2, (void)context;
	if (frame->hd.type == NGHTTP2_GOAWAY) {
		is_away = true;
		away = frame->goaway.error_code;
	}
	return 0;
}

static void closed(void *context, struct weir__h2_stream *stream)
{
	(void)context, (void)stream;
	n_closed++;
}

static void begin(uint32_t window)
{
	static const struct weir__h2_options options = { sizeof(struct weir__h2_stream), closed, NULL, NULL };
	const nghttp2_settings_entry settings[] = { { NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window } };
	nghttp2_session_callbacks *callbacks;

	memset(got, 0, sizeof(got));
	is_away = false;
	n_closed = 0;
	now = S;
	session = weir__h2_new(&options, now);
	CHECK(session != NULL);
	CHECK(nghttp2_session_callbacks_new(&callbacks) == 0);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	CHECK(nghttp2_session_client_new(&client, callbacks, NULL) == 0);
	nghttp2_session_callbacks_del(callbacks);
	CHECK(nghttp2_submit_settings(client, NGHTTP2_FLAG_NONE, settings, 1) == 0);
}

static void end(void)
{
	nghttp2_session_del(client);
	weir__h2_free(session);
}

/* Returns false once the server wants to close. */
static bool to_server(void)
{
	const uint8_t *bytes;
	ssize_t n;
	bool is_open = true;

	while ((n = nghttp2_session_mem_send(client, &bytes)) > 0)
		is_open = weir__h2_read(session, (const char *)bytes, (size_t)n, now) && is_open;
	return is_open;
}

static void to_client(void)
{
	static char out[ROOM];
	size_t n;

	while ((n = weir__h2_write(session, out, sizeof(out))) > 0)
		(void)nghttp2_session_mem_recv(client, (const uint8_t *)out, n);
}

static bool exchange(void)
{
	bool is_open = true;

	for (int i = 0; i < 8; i++) {
		is_open = to_server() && is_open;
		to_client();
	}
	return is_open;
}

#define FIELD(name, value)                                                                                             \
	{                                                                                                              \
		(uint8_t *)(uintptr_t)(name), (uint8_t *)(uintptr_t)(value), strlen(name), strlen(value), 0            \
	}

static size_t to_send;
static bool is_endless;

static ssize_t give(nghttp2_session *nghttp2, int32_t number, uint8_t *to, size_t room, uint32_t *flags,
		    nghttp2_data_source *source, void *context)
{
	const size_t n = to_send < room ? to_send : room;

	(void)nghttp2, (void)number, (void)source, (void)context;
	memset(to, 'b', n);
	to_send -= n;
	if (to_send == 0 && !is_endless)
		*flags |= NGHTTP2_DATA_FLAG_EOF;
	return n == 0 && is_endless ? NGHTTP2_ERR_DEFERRED : (ssize_t)n;
}

static int32_t ask_with(const char *method, const char *path, size_t body, const char *name, const char *value)
{
	const nghttp2_data_provider provider = { .read_callback = give };
	const nghttp2_nv fields[] = { FIELD(":method", method), FIELD(":scheme", "http"), FIELD(":authority", "host:1"),
				      FIELD(":path", path), FIELD(name, value) };

	to_send = body;
	return nghttp2_submit_request(client, NULL, fields, 5, body > 0 || is_endless ? &provider : NULL, NULL);
}

static int32_t ask(const char *path, size_t body)
{
	return ask_with(body ? "POST" : "GET", path, body, "x-one", "1");
}

static void respond(struct weir__h2_stream *stream, size_t n)
{
	static char body[1 << 20];

	CHECK(weir__h2_respond(stream, 200, NULL, 0, n == 0));
	if (n == 0)
		return;
	CHECK(weir__h2_append(stream, body, n));
	weir__h2_end(stream, -1, NULL);
}

static void requests_have_the_form_of_http(void)
{
	struct weir__http_reader reader;
	struct weir__http_request request;
	struct weir__http_slice value;
	struct weir__h2_stream *stream;
	int32_t number;

	begin(65535);
	number = ask("/v1/check?user=ann", 5);
	CHECK(exchange());
	stream = weir__h2_take(session);
	CHECK(stream != NULL && stream->number == number && weir__h2_take(session) == NULL);
	weir__h2_request(stream, &reader, &request);
	CHECK_EQ(request.method, HTTP_POST);
	CHECK(request.path.length == 9 && memcmp(request.path.bytes, "/v1/check", 9) == 0);
	CHECK(request.query.length == 8 && memcmp(request.query.bytes, "user=ann", 8) == 0);
	CHECK(request.body.length == 5 && memcmp(request.body.bytes, "bbbbb", 5) == 0);
	CHECK(weir__http_find(&request, "host", &value) && value.length == 6 && memcmp(value.bytes, "host:1", 6) == 0);
	CHECK(weir__http_find(&request, "x-one", &value) && value.length == 1);
	CHECK(!weir__http_find(&request, ":path", &value));
	respond(stream, 3);
	CHECK(exchange());
	CHECK(got[number].status == 200 && got[number].length == 3 && got[number].is_closed && got[number].reset == 0);
	CHECK_EQ(n_closed, 1);
	end();
}

static void a_reset_request_is_not_taken(void)
{
	int32_t first, second;

	begin(65535);
	first = ask("/a", 0);
	second = ask("/b", 0);
	CHECK(to_server());
	CHECK(nghttp2_submit_rst_stream(client, 0, first, NGHTTP2_CANCEL) == 0);
	CHECK(to_server());
	CHECK(weir__h2_has_requests(session));
	CHECK_EQ(weir__h2_take(session)->number, second);
	CHECK(weir__h2_take(session) == NULL && n_closed == 1);
	end();
}

static void errors_have_a_status(void)
{
	static char longest[20000];
	static const struct {
		const char *method, *path;
		size_t body;
		unsigned status;
	} rows[] = {
		{ "POST", "/x", 128 * 1024, 0 }, { "POST", "/x", 128 * 1024 + 1, 413 },
		{ "BREW", "/x", 0, 501 },        { "GET", "/x#y", 0, 400 },
		{ "GET", longest, 0, 431 },
	};
	struct weir__http_reader reader;
	struct weir__http_request request;

	memset(longest, '/', sizeof(longest) - 1);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct weir__h2_stream *stream;
		int32_t number;

		begin(65535);
		number = ask_with(rows[i].method, rows[i].path, rows[i].body, "x", "y");
		CHECK(exchange());
		stream = weir__h2_take(session);
		CHECK(stream != NULL && stream->fault == rows[i].status);
		if (stream == NULL)
			continue;
		weir__h2_request(stream, &reader, &request);
		CHECK(request.path.length + request.query.length + request.body.length <= stream->length);
		respond(stream, 0);
		CHECK(exchange());
		CHECK(got[number].status == 200 && got[number].is_closed && got[number].reset == 0);
		end();
	}
}

/* A response before the end of its request asks the client to stop. */
static void early_responses_end_the_stream(void)
{
	struct weir__h2_stream *stream;
	int32_t number;

	begin(65535);
	is_endless = true;
	number = ask("/x", 200 * 1024);
	CHECK(exchange());
	stream = weir__h2_take(session);
	CHECK(stream != NULL && stream->fault == 413);
	respond(stream, 0);
	CHECK(exchange());
	CHECK(got[number].is_closed && got[number].reset == 0 && n_closed == 1);
	is_endless = false;
	end();
}

/* All incomplete requests together have a bound, behind which a stream is reset. */
static void incomplete_requests_are_bounded(void)
{
	int n = 0;

	begin(65535);
	is_endless = true;
	for (int i = 0; i < 100; i++) {
		const int32_t number = ask("/x", 100 * 1024);

		CHECK(exchange());
		n += got[number].is_closed && got[number].reset == WEIR__H2_ENHANCE_YOUR_CALM;
	}
	CHECK(n > 20 && n < 100);
	CHECK(weir__h2_bytes(session) < WEIR__H2_BODIES_MAX + 512 * 1024);
	CHECK(!weir__h2_has_requests(session));
	is_endless = false;
	end();
}

static void grpc_ends_with_a_status(void)
{
	int32_t number;
	struct weir__h2_stream *stream;

	begin(65535);
	number = ask("/x", 0);
	CHECK(exchange());
	stream = weir__h2_take(session);
	CHECK(weir__h2_respond(stream, 200, NULL, 0, false) && weir__h2_append(stream, "abc", 3));
	CHECK(exchange());
	CHECK(got[number].length == 3 && !got[number].is_closed); /* it may go on */
	CHECK(weir__h2_append(stream, "de", 2));
	weir__h2_end(stream, 5, "caf\xc3\xa9 100%\n");
	CHECK(exchange());
	CHECK(got[number].length == 5 && got[number].is_closed);
	CHECK_TEXT(got[number].grpc_status, "5");
	CHECK_TEXT(got[number].grpc_message, "caf%C3%A9 100%25%0A");
	end();
}

static void bodies_are_sent_in_turns(void)
{
	static char out[ROOM];
	int32_t numbers[3];
	struct weir__h2_progress progress;

	begin(1 << 20);
	CHECK(nghttp2_session_set_local_window_size(client, 0, 0, 1 << 30) == 0);
	for (int i = 0; i < 3; i++)
		numbers[i] = ask("/x", 0);
	CHECK(exchange());
	for (int i = 0; i < 3; i++)
		respond(weir__h2_take(session), 200 * 1024);
	for (int i = 0; i < 4; i++)
		(void)nghttp2_session_mem_recv(client, (const uint8_t *)out, weir__h2_write(session, out, sizeof(out)));
	for (int i = 0; i < 3; i++)
		CHECK(got[numbers[i]].length > 60 * 1024 && got[numbers[i]].length < 120 * 1024);
	weir__h2_look(session, &progress);
	CHECK(progress.is_blocked && progress.under_way == 3 && progress.incomplete == 0 && progress.sent > 200 * 1024);
	CHECK(exchange());
	for (int i = 0; i < 3; i++)
		CHECK(got[numbers[i]].length == 200 * 1024 && got[numbers[i]].is_closed);
	weir__h2_look(session, &progress);
	CHECK(!progress.is_blocked && progress.under_way == 0 && progress.sent == 600 * 1024);
	end();
}

static void windows_hold_bodies_back(void)
{
	struct weir__h2_progress progress;
	int32_t number;

	begin(0);
	number = ask("/x", 0);
	CHECK(exchange());
	respond(weir__h2_take(session), 100);
	CHECK(exchange());
	weir__h2_look(session, &progress);
	CHECK(progress.is_blocked && progress.sent == 0 && got[number].status == 200 && got[number].length == 0);
	CHECK(nghttp2_submit_window_update(client, 0, number, 60) == 0);
	CHECK(exchange());
	weir__h2_look(session, &progress); /* nghttp2 widens the window further as it reads */
	CHECK(!progress.is_blocked && progress.sent == 100 && got[number].length == 100);
	end();
}

static void floods_end_the_session(void)
{
	uint8_t opaque[8] = { 0 };

	begin(65535);
	for (int i = 0; i < 200; i++)
		CHECK(nghttp2_submit_ping(client, 0, opaque) == 0);
	CHECK(!exchange());
	CHECK(is_away && away == WEIR__H2_ENHANCE_YOUR_CALM);
	CHECK_EQ(weir__h2_flood(session), WEIR__H2_FLOOD_PINGS);
	CHECK(weir__h2_is_over(session));
	end();
}

/* An error on a stream makes the server reset it. This counts as a reset of the client, and the request is
 * not run. */
static void resets_by_the_server_count(void)
{
	static const char frame[] = "\0\0\4\x8\0\0\0\0\1\177\377\377\377"; /* a window of more than 2^31 - 1 */
	char bytes[sizeof(frame) - 1];
	int n = 0;

	begin(65535);
	for (; n < 1100 && weir__h2_flood(session) == WEIR__H2_FLOOD_NONE; n++) {
		const int32_t number = ask("/x", 0);

		(void)to_server();
		memcpy(bytes, frame, sizeof(bytes));
		bytes[7] = (char)(number >> 8);
		bytes[8] = (char)number;
		CHECK(weir__h2_has_requests(session));
		(void)weir__h2_read(session, bytes, sizeof(bytes), now);
		CHECK(!weir__h2_has_requests(session));
		to_client();
	}
	CHECK_EQ(n, 1001);
	CHECK_EQ(weir__h2_flood(session), WEIR__H2_FLOOD_RESETS);
	CHECK(is_away && away == WEIR__H2_ENHANCE_YOUR_CALM);
	end();
}

/* A short request may refer to long fields again and again. */
static void long_heads_are_counted(void)
{
	static char longest[WEIR__HTTP_HEAD_MAX + 1];
	int n = 0;

	memset(longest, '/', sizeof(longest) - 1);
	begin(65535);
	for (; n < 100 && weir__h2_flood(session) == WEIR__H2_FLOOD_NONE; n++) {
		(void)ask(longest, 0);
		(void)to_server();
		if (weir__h2_has_requests(session))
			respond(weir__h2_take(session), 0);
		to_client();
	}
	CHECK_EQ(n, 6);
	CHECK_EQ(weir__h2_flood(session), WEIR__H2_FLOOD_LONG_HEADS);
	CHECK(is_away && away == WEIR__H2_ENHANCE_YOUR_CALM);
	end();
}

static void going_away_ends_what_is_under_way(void)
{
	int32_t number;

	begin(65535);
	number = ask("/x", 0);
	CHECK(exchange());
	weir__h2_go_away(session, 0);
	CHECK(exchange());
	CHECK(is_away && away == 0 && !weir__h2_is_over(session));
	respond(weir__h2_take(session), 10);
	(void)exchange();
	CHECK(got[number].status == 200 && got[number].is_closed && weir__h2_is_over(session));
	end();
}

/* A session is full until its client has taken enough, or has reset what it did not take. */
static void unsent_responses_are_bounded(void)
{
	int32_t first, second;

	begin(1000);
	first = ask("/a", 0);
	second = ask("/b", 0);
	CHECK(exchange());
	respond(weir__h2_take(session), WEIR__H2_UNSENT_MAX - 1);
	CHECK(!weir__h2_is_full(session));
	respond(weir__h2_take(session), 1 + 1000);
	CHECK(weir__h2_is_full(session));
	CHECK(exchange());
	CHECK(got[first].length > 0 && got[second].length > 0 && !weir__h2_is_full(session));
	end();

	begin(0);
	first = ask("/a", 0);
	CHECK(exchange());
	respond(weir__h2_take(session), WEIR__H2_UNSENT_MAX);
	CHECK(exchange() && weir__h2_is_full(session));
	CHECK(nghttp2_submit_rst_stream(client, 0, first, NGHTTP2_CANCEL) == 0);
	CHECK(exchange() && !weir__h2_is_full(session));
	end();
}

/* One long field in the dynamic table, and references to it: 14 KB that would become 39 MB. */
static void references_are_bounded(void)
{
	static char bytes[20000];
	static const char fields[] = "\x82\x84\x86\x40\1a\x7f\xbd\x1d"; /* GET / http, and a: 3900 bytes */
	size_t n = 9;

	begin(65535);
	CHECK(exchange());
	memcpy(bytes + n, fields, sizeof(fields) - 1);
	n += sizeof(fields) - 1;
	memset(bytes + n, 'b', 3900);
	n += 3900;
	memset(bytes + n, '\xbe', 10000);
	n += 10000;
	memcpy(bytes, (const char[]){ 0, (char)((n - 9) >> 8), (char)(n - 9), 1, 5, 0, 0, 0, 1 }, 9);
	CHECK(!weir__h2_read(session, bytes, n, now));
	CHECK_EQ(weir__h2_flood(session), WEIR__H2_FLOOD_BLOCK);
	to_client();
	CHECK(is_away && away == WEIR__H2_ENHANCE_YOUR_CALM && weir__h2_is_over(session));
	end();
}

/* A request that crosses the warning on its way is served. */
static void a_warning_comes_first(void)
{
	int32_t number;

	begin(65535);
	CHECK(exchange());
	weir__h2_warn(session);
	number = ask("/x", 0);
	CHECK(to_server());
	to_client();
	CHECK(is_away && away == 0);
	CHECK(exchange());
	respond(weir__h2_take(session), 10);
	CHECK(exchange());
	CHECK(got[number].status == 200 && got[number].is_closed && !weir__h2_is_over(session));
	weir__h2_go_away(session, 0);
	(void)exchange();
	CHECK(weir__h2_is_over(session));
	end();
}

static void not_http2(void)
{
	begin(65535);
	CHECK(!weir__h2_read(session, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, now));
	to_client();
	CHECK(weir__h2_is_over(session));
	end();
}

static void memory_is_given_back(void)
{
	size_t before;

	begin(65535);
	CHECK(exchange());
	before = weir__h2_bytes(session);
	for (int i = 0; i < 200; i++) {
		(void)ask("/x", 10000);
		CHECK(exchange());
		respond(weir__h2_take(session), 50000);
		CHECK(exchange());
	}
	CHECK_EQ(n_closed, 200);
	CHECK(weir__h2_bytes(session) < before + 8192);
	end();
}

TESTS(TEST(requests_have_the_form_of_http), TEST(a_reset_request_is_not_taken), TEST(errors_have_a_status),
      TEST(unsent_responses_are_bounded), TEST(early_responses_end_the_stream), TEST(incomplete_requests_are_bounded),
      TEST(grpc_ends_with_a_status), TEST(bodies_are_sent_in_turns), TEST(windows_hold_bodies_back),
      TEST(floods_end_the_session), TEST(resets_by_the_server_count), TEST(long_heads_are_counted),
      TEST(going_away_ends_what_is_under_way), TEST(a_warning_comes_first), TEST(references_are_bounded),
      TEST(not_http2), TEST(memory_is_given_back))
