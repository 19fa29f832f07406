/* commands.c: any bytes as a client's RESP commands, in pieces of any length, with any time between them. Each request
 * gets one well-formed reply, no reply exceeds the room reserved for it, and decisions match a small model.
 *
 * The first byte of an input selects: bits 0 to 2 the length of the pieces, bits 3 and 4 the time between two, bit 5
 * the smallest possible reply buffer.
 *
 * Each input starts with the same empty table and the same secret: the target restores the table's memory. It allocates
 * only for MULTI and makes no system calls. */
#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "clock.h"
#include "server/resp/resp_command.h"
#include "store/table/table.h"

enum {
	INPUT_MOST = 4096,
	REGION_MOST = 1 << 16,
	KEYS = 512, /* more than an input can name */
	ARENA_BYTES = 4096,
	ARGUMENTS_MAX = 64,
	BULK_MAX = 4096,
	OUT_LEAST = WEIR__ANSWER_LONG + 2 * WEIR__DECISION_MOST + INPUT_MOST,
	OUT_MOST = 256 * 1024,
	TOKENS_MAX = 8192,
	OWNERS_MAX = 256, /* keys in the model */
	NAME_MOST = 96,
};

static const size_t pieces[] = { INPUT_MOST, 1, 2, 3, 7, 16, 61, 256 };
static const weir_ns spans[] = { 0, 1000000, UINT64_C(1000000000), UINT64_C(3600000000000) };

/* --- the model ---------------------------------------------------------------------------------------------------- */

enum form {
	ANYTHING,
	CELL,     /* CL.THROTTLE */
	THROTTLE, /* of throttlecrab */
	TAKE,     /* WEIR.TAKE and WEIR.UPTO: what was granted */
	LOSE,     /* stops checking the key: WEIR.REFUND, WEIR.RESET, and numbers that the model cannot read */
};

/* A key under one limit, or a key that all limits share (CELL and THROTTLE). */
struct owner {
	enum form form;
	size_t length;
	char name[NAME_MOST];
	weir_ns full_at;  /* of CELL and THROTTLE */
	uint64_t granted; /* of TAKE */
	bool is_lost;     /* no longer checked */
};

struct asked {
	enum form form;
	struct owner *owner;        /* NULL: any reply will do */
	uint64_t each, limit, cost; /* of CELL and THROTTLE: ns per unit, units of the limit, units of the request */
};

static struct owner owners[OWNERS_MAX];
static struct asked asked[INPUT_MOST];
static size_t n_owners, n_asked, n_answered;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "%s (request %zu)\n", what, n_answered);
	abort();
}

static struct owner *find_owner(enum form form, const char *limit, const struct weir__resp_slice *key)
{
	const size_t limit_length = strlen(limit), length = limit_length + key->length;
	char name[NAME_MOST];

	if (length > sizeof(name))
		return NULL;
	memcpy(name, limit, limit_length);
	if (key->length > 0)
		memcpy(name + limit_length, key->bytes, key->length);
	for (size_t i = 0; i < n_owners; i++)
		if (owners[i].form == form && owners[i].length == length && memcmp(owners[i].name, name, length) == 0)
			return &owners[i];
	if (n_owners == OWNERS_MAX)
		return NULL;
	owners[n_owners] = (struct owner){ .form = form, .length = length };
	memcpy(owners[n_owners].name, name, length);
	return &owners[n_owners++];
}

static bool is_word(const struct weir__resp_slice *slice, const char *word)
{
	return slice->length == strlen(word) && strncasecmp(slice->bytes, word, slice->length) == 0;
}

/* The server closes the connection without a reply. */
static bool is_of_http(const struct weir__resp_slice *name)
{
	return is_word(name, "post") || is_word(name, "host:");
}

/* Reads up to 18 digits. The model does not check longer numbers. */
static bool read_number(const struct weir__resp_slice *slice, uint64_t *ret_number)
{
	uint64_t number = 0;

	if (slice->length == 0 || slice->length > 18)
		return false;
	for (size_t i = 0; i < slice->length; i++) {
		if (slice->bytes[i] < '0' || slice->bytes[i] > '9')
			return false;
		number = number * 10 + (uint64_t)(slice->bytes[i] - '0');
	}
	*ret_number = number;
	return true;
}

/* key max_burst count period [quantity] */
static struct asked throttle_asked(enum form form, const struct weir__resp_slice *words, uint32_t n)
{
	static const uint64_t second = 1000000000;
	uint64_t numbers[4] = { 0, 0, 0, 1 };
	struct asked one = { .form = LOSE, .owner = NULL };

	if (n != 5 && n != 6)
		return one;
	one.owner = find_owner(form, "", &words[1]);
	for (uint32_t i = 2; i < n; i++)
		if (!read_number(&words[i], &numbers[i - 2]))
			return one;
	if (numbers[1] == 0 || numbers[2] == 0 || numbers[2] > UINT64_MAX / 4 / second ||
	    numbers[2] * second < numbers[1] || (form == THROTTLE && numbers[0] == 0))
		return one;
	one.form = form;
	one.each = numbers[2] * second / numbers[1];
	one.limit = numbers[0] + (form == CELL);
	one.cost = numbers[3];
	return one;
}

/* key limit ... */
static struct asked text_asked(enum form form, const struct weir__resp_slice *words, uint32_t n)
{
	struct asked one = { .form = form, .owner = NULL };
	char text[WEIR_LIMIT_TEXT_MAX];
	struct weir_limit limit;

	if (n < 3 || weir_limit_parse(words[2].bytes, words[2].length, &limit, NULL) != WEIR_OK ||
	    weir_limit_print(&limit, text) == 0)
		return one;
	one.owner = find_owner(TAKE, text, &words[1]);
	return one;
}

static void note_request(const struct weir__resp_slice *words, uint32_t n)
{
	struct asked one = { .form = ANYTHING, .owner = NULL };

	if (is_word(&words[0], "cl.throttle"))
		one = throttle_asked(CELL, words, n);
	else if (is_word(&words[0], "throttle"))
		one = throttle_asked(THROTTLE, words, n);
	else if (is_word(&words[0], "weir.take") || is_word(&words[0], "weir.upto"))
		one = text_asked(TAKE, words, n);
	else if (is_word(&words[0], "weir.refund") || is_word(&words[0], "weir.reset"))
		one = text_asked(LOSE, words, n);
	asked[n_asked++] = one;
}

/* --- replies ---------------------------------------------------------------------------------------------------- */

/* redis-cell rounds up if a millisecond or more is left. */
static int64_t seconds_of(enum form form, unsigned __int128 span)
{
	const unsigned __int128 second = 1000000000, s = span / second + (form == CELL && span % second >= 1000000);

	return s > INT64_MAX ? INT64_MAX : (int64_t)s;
}

/* A table must accept a limit that refills within a year. */
static bool must_be_known(const struct asked *one)
{
	return one->limit <= UINT32_MAX && one->each > 0 &&
	       (unsigned __int128)one->each * one->limit < UINT64_C(31536000000000000);
}

static void judge_throttle(const struct asked *one, const struct weir__resp_token *tokens)
{
	struct owner *const owner = one->owner;
	const weir_ns now = weir_clock_now();
	const bool is_cell = one->form == CELL;
	unsigned __int128 owed, room, price;
	bool allowed;

	if (tokens[0].type == WEIR__RESP_ERROR) {
		require(!must_be_known(one), "a sound limit is refused");
		return;
	}
	require(tokens[0].type == WEIR__RESP_ARRAY && tokens[0].number == 5, "no answer of five");
	if (owner->is_lost)
		return;
	owed = owner->full_at > now ? owner->full_at - now : 0;
	room = (unsigned __int128)one->each * one->limit;
	price = (unsigned __int128)one->each * one->cost;
	allowed = one->cost == 0 || owed + price <= room; /* a cost of 0 is never denied */
	require(tokens[1].number == (allowed == !is_cell), "decided otherwise");
	require(tokens[2].number == (int64_t)one->limit, "another limit");
	if (allowed)
		owed += price;
	require(tokens[3].number == (owed > room ? 0 : (int64_t)((room - owed) / one->each)), "something else is left");
	require(tokens[is_cell ? 5 : 4].number == seconds_of(one->form, owed), "full at another time");
	if (allowed || (is_cell && one->cost > one->limit))
		require(tokens[is_cell ? 4 : 5].number == (is_cell ? -1 : 0), "a time to retry where no wait helps");
	else
		require(tokens[is_cell ? 4 : 5].number == seconds_of(one->form, owed + price - room),
			"to be retried at another time");
	owner->full_at = now + (weir_ns)owed;
}

/* While the clock stands still nothing refills, so all grants together fit the limit. */
static void judge_take(const struct asked *one, const struct weir__resp_token *tokens)
{
	const bool is_map = tokens[0].type == WEIR__RESP_MAP;
	const size_t step = is_map ? 2 : 1;
	uint64_t limit, granted;

	if (tokens[0].type == WEIR__RESP_ERROR)
		return;
	require(is_map ? tokens[0].number == 14 : tokens[0].type == WEIR__RESP_ARRAY && tokens[0].number == 7,
		"no answer of seven");
	limit = (uint64_t)tokens[step * 2].number;
	granted = (uint64_t)tokens[step * 4].number;
	if (fuzz_clock_ahead > 0 || one->owner->is_lost)
		return;
	require(granted <= limit && one->owner->granted <= limit - granted, "more is granted than the limit");
	one->owner->granted += granted;
}

static void judge(const struct weir__resp_token *tokens)
{
	const struct asked *const one = &asked[n_answered];

	require(n_answered < n_asked, "a reply without a command");
	if (one->owner && tokens[0].type == WEIR__RESP_SIMPLE) { /* queued by MULTI: decided at EXEC or never */
		one->owner->is_lost = true;
		n_answered++;
		return;
	}
	if (one->owner && (one->form == CELL || one->form == THROTTLE))
		judge_throttle(one, tokens);
	else if (one->owner && one->form == TAKE)
		judge_take(one, tokens);
	else if (one->owner && one->form == LOSE)
		one->owner->is_lost = true;
	n_answered++;
}

/* Reads and checks the replies, then empties the buffer. */
static void take_answers(struct weir__resp_writer *writer)
{
	static struct weir__resp_token tokens[TOKENS_MAX];
	struct weir__resp_reply reply = { .tokens = tokens,
					  .tokens_max = TOKENS_MAX,
					  .depth_max = WEIR__RESP_DEPTH_MOST,
					  .line_max = WEIR__RESP_LINE_MAX,
					  .bulk_max = OUT_MOST };
	size_t at = 0, used;

	require(writer->length <= writer->size, "answers are longer than the room for them");
	while (at < writer->length) {
		weir__resp_reply_init(&reply);
		require(weir__resp_reply_read(&reply, writer->bytes + at, writer->length - at, &used) ==
				WEIR__RESP_COMPLETE,
			"an answer cannot be read");
		judge(tokens);
		at += used;
	}
	writer->length = 0;
}

/* --- a connection ----------------------------------------------------------------------------------------------- */

static struct weir_table *table;
static const struct weir_table_limit *counted_as;
static unsigned char fresh[REGION_MOST];
static struct weir__context context;
static struct weir__resp resp;
static char *in, *out;

static void make_table(void)
{
	static const struct weir__hash_secret secret = { 1, 2 };
	const struct weir_table_options options = { .size_bytes = weir_table_size(KEYS, 1) + ARENA_BYTES,
						    .limits_max = 1,
						    .arena_bytes = ARENA_BYTES };

	require(weir_table_new(&options, &table, NULL) == WEIR_OK, "no table");
	table->region.header->secret = table->region.secret = secret;
	require(weir_table_add_limit_text(table, "all", "1/s", &counted_as, NULL) == WEIR_OK, "no limit");
	(void)weir_table_allow(table, counted_as, "", 0, weir_clock_now(), 0); /* gives this thread its stripe */
	require(table->region.size_bytes <= REGION_MOST, "the table is too large");
	memcpy(fresh, table->region.header, table->region.size_bytes);
	in = malloc(INPUT_MOST);
	out = malloc(OUT_MOST);
	require(in && out, "no memory");
}

/* Runs the request, and again with an empty buffer if there was no room. */
static void ask(struct weir__client *client, const struct weir__resp_request *request, struct weir__resp_writer *writer)
{
	const struct weir__command_row *const row = weir__command_named(&request->arguments[0]);
	size_t before = writer->length, most;
	bool is_done;

	if (!is_of_http(&request->arguments[0]))
		note_request(request->arguments, request->n);
	most = (resp.n + 1) * WEIR__DECISION_MOST +
	       (row && (row->flags & WEIR__IS_LONG) ? WEIR__ANSWER_LONG : WEIR__ANSWER_MOST) +
	       (request->n > 1 ? request->arguments[1].length : 0);
	is_done = weir__resp_do(&resp, client, request->arguments, request->n, writer);
	require(writer->length - before <= most, "an answer is longer than any may be");
	if (is_done)
		return;
	require(writer->length == before, "something was done, though there was no room");
	weir__resp_end_group(&resp, client, writer);
	take_answers(writer);
	require(weir__resp_do(&resp, client, request->arguments, request->n, writer), "there is never room");
}

/* Runs the requests in the n bytes as a worker does. Returns how many bytes were used. */
static size_t answer(struct weir__client *client, char *bytes, size_t n, struct weir__resp_writer *writer)
{
	static struct weir__resp_slice arguments[ARGUMENTS_MAX];
	size_t at = 0, used;

	while (at < n && !client->is_leaving) {
		struct weir__resp_request request = { .arguments = arguments,
						      .arguments_max = ARGUMENTS_MAX,
						      .line_max = WEIR__RESP_LINE_MAX,
						      .bulk_max = BULK_MAX };
		enum weir__resp_status status;

		weir__resp_request_init(&request);
		status = weir__resp_request_read(&request, bytes + at, n - at, &used);
		if (status == WEIR__RESP_MORE)
			break;
		if (status == WEIR__RESP_BAD) {
			weir__resp_refuse_bytes(&resp, client, &request, writer);
			asked[n_asked++] = (struct asked){ .form = ANYTHING, .owner = NULL };
			break;
		}
		ask(client, &request, writer);
		at += used;
	}
	weir__resp_end_group(&resp, client, writer);
	take_answers(writer);
	require(n_answered == n_asked, "a request has no answer");
	return at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct weir__client client = { .resp_version = 2, .number = 1 };
	struct weir__resp_writer writer;
	size_t piece, come = 0, done = 0;
	weir_ns span;
	char *bytes;

	if (size == 0 || size > INPUT_MOST)
		return 0;
	if (table == NULL)
		make_table();
	piece = pieces[data[0] & 7];
	span = spans[data[0] >> 3 & 3];
	writer = (struct weir__resp_writer){ out, data[0] & 32 ? OUT_LEAST : OUT_MOST, 0, 2, false };
	size--;
	bytes = in + INPUT_MOST - size; /* at the end of the buffer */
	memcpy(bytes, data + 1, size);
	memcpy(table->region.header, fresh, table->region.size_bytes);
	weir__context_init(&context, table, counted_as);
	weir__resp_init(&resp, &context);
	fuzz_clock_ahead = n_owners = n_asked = n_answered = 0;
	ASAN_POISON_MEMORY_REGION(bytes, size); /* reading bytes that have not arrived is an error */
	while (come < size && !client.is_leaving) {
		const size_t more = size - come < piece ? size - come : piece;

		ASAN_UNPOISON_MEMORY_REGION(bytes + come, more);
		come += more;
		writer.resp_version = client.resp_version;
		writer.has_maps = client.has_maps;
		done += answer(&client, bytes + done, come - done, &writer);
		fuzz_clock_ahead += span;
	}
	ASAN_UNPOISON_MEMORY_REGION(bytes, size);
	weir__resp_forget(&client);
	weir__context_fini(&context);
	return 0;
}
