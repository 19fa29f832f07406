/* resp_commands.c: a row for each command. Help, COMMAND and the checks of arguments are made from it. */
#include "server/resp/resp_command.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "observe/tracer.h"
#include "server/resp/resp_transaction.h"

/* clang-format off */
const struct weir__command_row weir__command_rows[] = {
	{ "cl.throttle", "key max_burst count period [quantity]",
	  "like redis-cell: 0 if allowed, else 1; limit; remaining; seconds until a retry, or -1; seconds until the key is full",
	  weir__cl_throttle, WEIR__OP_TAKE, 1, INT32_MAX, WEIR__IS_DECISION | WEIR__MAY_OVERLAP | WEIR__IS_WRITE, 1, 1, 1 },
	{ "throttle", "key max_burst count period [quantity]",
	  "like throttlecrab: 1 if allowed, else 0; limit; remaining; seconds until the key is full; seconds until a retry",
	  weir__throttle, WEIR__OP_TAKE, 1, INT32_MAX, WEIR__IS_DECISION | WEIR__MAY_OVERLAP | WEIR__IS_WRITE, 1, 1, 1 },
	{ "weir.take", "key limit [cost] [WAIT timeout_ms] [TRACEPARENT value]",
	  "allows and charges, or denies: allowed, limit, remaining, granted, retry_after, reset_after, delay, durations in ns; with WAIT, replies when the request may go, then waited in ns",
	  weir__take, WEIR__OP_TAKE, 3, 6, WEIR__IS_DECISION | WEIR__MAY_OVERLAP | WEIR__IS_WRITE | WEIR__TAKES_TRACE, 1, 1, 1 },
	{ "weir.upto", "key limit cost [TRACEPARENT value]", "like take, but charges what is available, at most cost",
	  weir__upto, WEIR__OP_TAKE, 4, 4, WEIR__IS_DECISION | WEIR__MAY_OVERLAP | WEIR__IS_WRITE | WEIR__TAKES_TRACE, 1, 1, 1 },
	{ "weir.peek", "key limit [cost]", "like take, but charges nothing",
	  weir__peek, WEIR__OP_PEEK, 3, 4, WEIR__IS_DECISION | WEIR__MAY_OVERLAP, 1, 1, 1 },
	{ "weir.refund", "key limit n", "refunds n, never above full; replies like take",
	  weir__refund, WEIR__OP_REFUND, 4, 4, WEIR__IS_DECISION | WEIR__MAY_OVERLAP | WEIR__IS_WRITE, 1, 1, 1 },
	{ "weir.reset", "key limit", "forgets what the key has used: 1, or 0 if nothing was used",
	  weir__reset, WEIR__OP_RESET, 3, 3, WEIR__IS_DECISION | WEIR__MAY_OVERLAP | WEIR__IS_WRITE, 1, 1, 1 },
	{ "weir.inspect", "key limit",
	  "the state of the key: is_stored, full_at, limit, remaining, reset_after, algorithm, text; times in ns",
	  weir__inspect, WEIR__OP_INSPECT, 3, 3, WEIR__IS_DECISION | WEIR__MAY_OVERLAP, 1, 1, 1 },
	{ "weir.all", "key limit cost [key limit cost ...] [TRACEPARENT value]",
	  "charges all, or none: one verdict like take's, then decided_by: which limit denied, or else has the least left, counted from 1",
	  weir__all, WEIR__OP_TAKE, 4, 49, WEIR__IS_DECISION | WEIR__MAY_OVERLAP | WEIR__IS_WRITE | WEIR__TAKES_TRACE, 1, -3, 3 },
	{ "weir.hold", "id key limit cost ttl_ms [TRACEPARENT value]", "takes an estimated cost, to be settled later by its id; replies like take",
	  weir__hold, WEIR__OP_HOLD, 6, 6, WEIR__IS_DECISION | WEIR__IS_WRITE | WEIR__TAKES_TRACE, 2, 2, 1 },
	{ "weir.settle", "id actual",
	  "charges or refunds the difference: held, actual, charged, refunded, beyond, limit, remaining, reset_after in ns",
	  weir__settle, WEIR__OP_SETTLE, 3, 3, WEIR__IS_DECISION | WEIR__IS_WRITE, 0, 0, 0 },
	{ "weir.release", "id", "refunds the whole hold; the same as settle with an actual cost of 0",
	  weir__release, WEIR__OP_SETTLE, 2, 2, WEIR__IS_DECISION | WEIR__IS_WRITE, 0, 0, 0 },
	{ "weir.check", "[COST n] [WAIT timeout_ms] [TRACEPARENT value] attribute value [attribute value ...]",
	  "decides by all limits of the policy that apply: one verdict like take's, then limits: how many apply, shadow_denied: how many in shadow denied, and decided_by: the name of the limit that decided; with WAIT, replies when limits that shape let the request go, then waited in ns",
	  weir__check_command, WEIR__OP_CHECK, 3, INT32_MAX, WEIR__IS_DECISION | WEIR__MAY_OVERLAP | WEIR__IS_WRITE, 0, 0, 0 },
	{ "weir.explain", "attribute value [attribute value ...]",
	  "a line for each limit of the policy, those that apply first: its key, or why it does not apply",
	  weir__explain_command, WEIR__OP_EXPLAIN, 3, INT32_MAX, 0, 0, 0, 0 },
	{ "weir.limits", "[first]",
	  "up to 50 limits and overrides of the policy, from number first on (0 by default): name, limit as it is now, mode, key, allowed, denied; changed (all, here, or empty), changed_by, changed_at in Unix seconds: since the policy was loaded; store: table or redis, where its state is kept; wait: for how many ns authorize holds a response back at most; consistency: exact, lease or eventual",
	  weir__limits_command, WEIR__OP_LIMITS, 1, 2, 0, 0, 0, 0 },
	{ "weir.change", "name limit [HERE]",
	  "changes one limit until the policy changes, on all servers of the store or, with HERE, on this one; a reload of an unchanged policy does not undo it",
	  weir__change, WEIR__OP_CHANGE, 3, 4, WEIR__IS_WRITE, 0, 0, 0 },
	{ "weir.reload", "",
	  "schedules a reload of policy and users and replies a number; the reload is done when policy_reloads of INFO has reached it",
	  weir__reload, WEIR__OP_POLICY_PUT, 1, 1, 0, 0, 0, 0 },
	{ "weir.live", "[seconds] [KEYS n] [LIMIT name] [FILTER text]",
	  "the live document, as JSON: limits by second, their top keys, latency; see docs/guides/observe.md",
	  weir__live_command, WEIR__OP_LIVE, 1, 8, WEIR__IS_LONG, 0, 0, 0 },
	{ "weir.record", "START|READ|STOP [word ...]",
	  "records decisions: START begins, READ replies the next bytes, STOP ends; weir record writes them to a file",
	  weir__record_command, WEIR__OP_RECORD, 2, 64, WEIR__IS_LONG | WEIR__HAS_SUBCOMMANDS, 0, 0, 0 },
	{ "weir.replies", "MAP|ARRAY",
	  "with MAP, which needs RESP3, WEIR commands reply with maps on this connection; ARRAY, the default, HELLO 2 and RESET go back to arrays",
	  weir__replies, WEIR__OP_CONNECTION, 2, 2, WEIR__IS_FAST, 0, 0, 0 },
	{ "ping", "[text]", "PONG, or the text", weir__ping, WEIR__OP_CONNECTION, 1, 2, WEIR__IS_FAST | WEIR__IN_MULTI, 0, 0, 0 },
	{ "echo", "text", "the text", weir__echo, WEIR__OP_CONNECTION, 2, 2, WEIR__IS_FAST | WEIR__IN_MULTI, 0, 0, 0 },
	{ "auth", "[user] password", "authenticates the connection; the user is default unless given", weir__auth, WEIR__OP_CONNECTION, 2, INT32_MAX,
	  WEIR__IS_FAST | WEIR__BEFORE_AUTH, 0, 0, 0 },
	{ "hello", "[protocol [AUTH user password] [SETNAME name]]", "describes the server; protocol 3 switches to RESP3",
	  weir__hello, WEIR__OP_CONNECTION, 1, INT32_MAX, WEIR__IS_FAST | WEIR__BEFORE_AUTH, 0, 0, 0 },
	{ "reset", "", "resets the connection: logged out, RESP2, arrays, no name, no MULTI", weir__reset_connection, WEIR__OP_CONNECTION, 1, 1,
	  WEIR__IS_FAST | WEIR__BEFORE_AUTH | WEIR__IN_NO_MULTI, 0, 0, 0 },
	{ "acl", "WHOAMI", "the user of this connection", weir__acl, WEIR__OP_CONNECTION, 2, INT32_MAX, WEIR__HAS_SUBCOMMANDS, 0, 0, 0 },
	{ "select", "0", "accepts 0, the only database", weir__select, WEIR__OP_CONNECTION, 2, 2, WEIR__IS_FAST | WEIR__IN_MULTI, 0, 0, 0 },
	{ "quit", "", "replies OK and closes the connection", weir__quit, WEIR__OP_CONNECTION, 1, INT32_MAX,
	  WEIR__IS_FAST | WEIR__BEFORE_AUTH | WEIR__IN_NO_MULTI, 0, 0, 0 },
	{ "multi", "", "queues the commands that follow until EXEC; each is still decided by itself", weir__multi, WEIR__OP_CONNECTION, 1, 1,
	  WEIR__IS_FAST | WEIR__IN_NO_MULTI, 0, 0, 0 },
	{ "exec", "", "runs the queued commands and sends all replies; runs none if one of them had an error", weir__exec, WEIR__OP_CONNECTION, 1, 1,
	  WEIR__IS_LONG | WEIR__IN_NO_MULTI, 0, 0, 0 },
	{ "discard", "", "drops the queued commands", weir__discard, WEIR__OP_CONNECTION, 1, 1, WEIR__IS_FAST | WEIR__IN_NO_MULTI, 0, 0, 0 },
	{ "client", "ID|INFO|GETNAME|SETNAME|SETINFO|NO-EVICT|NO-TOUCH [word ...]",
	  "shows the id, details or the name of this connection, or sets its name; the others are accepted and ignored", weir__client_command, WEIR__OP_CONNECTION, 2, INT32_MAX,
	  WEIR__IS_FAST, 0, 0, 0 },
	{ "command", "[COUNT|LIST|INFO|DOCS|GETKEYS] [word ...]", "describes the commands, as Redis does",
	  weir__command_command, WEIR__OP_CONNECTION, 1, INT32_MAX, 0, 0, 0, 0 },
	{ "info", "[section ...]", "the state of the server, its table, policy and store", weir__info, WEIR__OP_CONNECTION, 1, INT32_MAX, 0, 0, 0, 0 },
	{ "time", "", "Unix time: seconds, microseconds", weir__time, WEIR__OP_CONNECTION, 1, 1, WEIR__IS_FAST | WEIR__IN_MULTI, 0, 0, 0 },
	{ "dbsize", "", "how many keys are in use now; estimated for large tables, unless few are in use", weir__dbsize, WEIR__OP_CONNECTION, 1, 1, WEIR__IS_FAST, 0, 0, 0 },
	{ "cluster", "INFO [word ...]", "an error: cluster support is disabled", weir__cluster, WEIR__OP_CONNECTION, 2, INT32_MAX, 0, 0, 0, 0 },
	{ "readonly", "", "the same error", weir__cluster, WEIR__OP_CONNECTION, 1, 1, WEIR__IS_FAST, 0, 0, 0 },
	{ "readwrite", "", "the same error", weir__cluster, WEIR__OP_CONNECTION, 1, 1, WEIR__IS_FAST, 0, 0, 0 },
	{ "config", "GET pattern [pattern ...]", "settings whose names match", weir__config, WEIR__OP_CONFIG, 2, INT32_MAX,
	  WEIR__HAS_SUBCOMMANDS, 0, 0, 0 },
	{ "help", "[ERRORS|command]", "this list, the list of errors, or one command", weir__help, WEIR__OP_CONNECTION, 1, 2, 0, 0, 0, 0 },
	{ "weir.help", "[ERRORS|command]", "like HELP, for redis-cli, which answers HELP itself", weir__help, WEIR__OP_CONNECTION, 1, 2, 0, 0, 0, 0 },
};
/* clang-format on */

const size_t weir__command_rows_n = sizeof(weir__command_rows) / sizeof(weir__command_rows[0]);

void weir__write_capitals(const char *name, char capitals[WEIR__COMMAND_NAME_SIZE])
{
	size_t i = 0;

	for (; name[i] && i + 1 < WEIR__COMMAND_NAME_SIZE; i++)
		capitals[i] = (char)toupper((unsigned char)name[i]);
	capitals[i] = '\0';
}

bool weir__is_word(const struct weir__resp_slice *slice, const char *word)
{
	return slice->length == strlen(word) && strncasecmp(slice->bytes, word, slice->length) == 0;
}

void weir__say_ok(const struct weir__call *call)
{
	weir__resp_write_simple(call->writer, "OK", 2);
}

void weir__say_word(const struct weir__call *call, const char *word)
{
	weir__resp_write_bulk(call->writer, word, strlen(word));
}

void weir__refuse_with(struct weir__call *call, enum weir__error_number error, const char *detail)
{
	char text[512];
	const int length = snprintf(text, sizeof(text), "%s%s", weir__error_rows[error].text, detail);

	weir__resp_end_group(call->resp, call->client, call->writer);
	weir__resp_write_error(call->writer, text, weir__min((size_t)length, sizeof(text) - 1));
}

void weir__refuse(struct weir__call *call, enum weir__error_number error)
{
	weir__refuse_with(call, error, "");
}

bool weir__refuse_as(struct weir__call *call, const struct weir__refusal *refusal)
{
	weir__refuse_with(call, refusal->error, refusal->why.text);
	return false;
}

bool weir__read_signed(const struct weir__resp_slice *slice, int64_t *ret_number)
{
	const bool is_negative = slice->length > 0 && *slice->bytes == '-';
	size_t i = slice->length > 0 && (*slice->bytes == '-' || *slice->bytes == '+');
	int64_t number = 0;

	if (i == slice->length)
		return false;
	for (; i < slice->length; i++) {
		const int digit = slice->bytes[i] - '0';

		if (digit < 0 || digit > 9 || __builtin_mul_overflow(number, 10, &number) ||
		    (is_negative ? __builtin_sub_overflow(number, digit, &number) :
				   __builtin_add_overflow(number, digit, &number)))
			return false;
	}
	*ret_number = number;
	return true;
}

bool weir__read_number(struct weir__call *call, uint32_t place, uint64_t most, enum weir__error_number error,
		       uint64_t *ret_number)
{
	int64_t number;

	if (!weir__read_signed(&call->arguments[place], &number) || number < 0 || (uint64_t)number > most) {
		weir__refuse(call, error);
		return false;
	}
	*ret_number = (uint64_t)number;
	return true;
}

/* --- finding a command ------------------------------------------------------------------------------------------ */

/* A name of up to 16 bytes as two words: its first and its last bytes, which may overlap. With the length, they
 * identify it. */
struct name {
	uint64_t first, last;
};

enum { NAME_MOST = WEIR__COMMAND_NAME_SIZE - 1, PLACES = 128, PLACE_BITS = 7 };

static const uint64_t capitals = UINT64_C(0x2020202020202020); /* the bit that differs between upper and lower case */

/* Rows by hash, one per slot, so that a lookup reads one slot. */
static struct {
	uint64_t factor;
	struct place {
		struct name name, letters; /* letters: the bits to ignore, which are the case of letters */
		size_t length;             /* 0: empty */
		const struct weir__command_row *row;
	} places[PLACES];
} directory;
static pthread_once_t directory_once = PTHREAD_ONCE_INIT;

static struct name name_of(const char *bytes, size_t length)
{
	struct name name = { 0, 0 };

	if (length >= 8) {
		memcpy(&name.first, bytes, 8);
		memcpy(&name.last, bytes + length - 8, 8);
	} else if (length >= 4) {
		memcpy(&name.first, bytes, 4);
		memcpy(&name.last, bytes + length - 4, 4);
	} else {
		for (size_t i = 0; i < length; i++)
			name.first = name.first << 8 | (unsigned char)bytes[i];
	}
	return name;
}

static size_t place_of(const struct name *name, size_t length)
{
	const uint64_t first = (name->first | capitals) + length, last = name->last | capitals;

	return (size_t)(((first * directory.factor) ^ last) * directory.factor >> (64 - PLACE_BITS));
}

static struct place place_for(const struct weir__command_row *row)
{
	char letters[NAME_MOST] = "";
	struct place place = { .length = strlen(row->name), .row = row };

	for (size_t i = 0; i < place.length; i++)
		letters[i] = row->name[i] >= 'a' && row->name[i] <= 'z' ? 0x20 : 0;
	place.name = name_of(row->name, place.length);
	place.letters = name_of(letters, place.length);
	return place;
}

static bool fill_directory(void)
{
	memset(directory.places, 0, sizeof(directory.places));
	for (size_t i = 0; i < weir__command_rows_n; i++) {
		const struct place place = place_for(&weir__command_rows[i]);
		struct place *const at = &directory.places[place_of(&place.name, place.length)];

		if (at->length > 0)
			return false;
		*at = place;
	}
	return true;
}

/* Tries factors until no two rows share a slot. The same rows always give the same factor. */
static void make_directory(void)
{
	directory.factor = UINT64_C(0x9e3779b97f4a7c15);
	while (!fill_directory())
		directory.factor += UINT64_C(0xbf58476d1ce4e5b8);
}

const struct weir__command_row *weir__command_named(const struct weir__resp_slice *word)
{
	const struct place *place;
	struct name name;

	if (word->length == 0 || word->length > NAME_MOST)
		return NULL;
	name = name_of(word->bytes, word->length);
	place = &directory.places[place_of(&name, word->length)];
	if (place->length != word->length || ((name.first ^ place->name.first) & ~place->letters.first) != 0 ||
	    ((name.last ^ place->name.last) & ~place->letters.last) != 0)
		return NULL;
	return place->row;
}

/* The first words of HTTP requests that a browser was tricked into sending. As in Redis, the connection is closed
 * without a reply, and nothing after them is read. */
static bool is_of_http(const struct weir__resp_slice *name)
{
	return weir__is_word(name, "POST") || weir__is_word(name, "Host:");
}

/* The same error as in Redis, with up to 128 bytes of the command and 128 of its arguments. */
static void refuse_unknown(struct weir__call *call)
{
	char text[512];
	int length = snprintf(text, sizeof(text),
			      "%.*s', with args beginning with: ", (int)weir__min(call->arguments[0].length, 128),
			      call->arguments[0].bytes);
	const int most = length + 128;

	if (is_of_http(&call->arguments[0])) {
		call->client->is_leaving = true;
		return;
	}
	for (uint32_t i = 1; i < call->n && length < most; i++)
		length += snprintf(text + length, sizeof(text) - (size_t)length, "'%.*s' ",
				   (int)weir__min(call->arguments[i].length, (uint64_t)(most - length)),
				   call->arguments[i].bytes);
	weir__refuse_with(call, WEIR__ERROR_UNKNOWN, text);
}

static void refuse_arity(struct weir__call *call, const struct weir__command_row *row)
{
	char text[128];

	(void)snprintf(text, sizeof(text), "%s' command", row->name);
	weir__refuse_with(call, WEIR__ERROR_ARITY, text);
}

/* --- permission ------------------------------------------------------------------------------------------------- */

static bool may(const struct weir__call *call, const struct weir__command_row *row)
{
	if (call->client->user)
		return weir__user_may(call->client->user, row->operation);
	return (row->flags & WEIR__BEFORE_AUTH) || !weir__client_is_unauthenticated(call->context, call->client);
}

static void refuse_user(struct weir__call *call, const struct weir__command_row *row)
{
	const bool has_part = (row->flags & WEIR__HAS_SUBCOMMANDS) && call->n > 1;
	char name[64], part[32] = "";

	if (call->client->user == NULL) {
		weir__refuse(call, WEIR__ERROR_NOAUTH);
		return;
	}
	for (size_t i = 0; has_part && i < call->arguments[1].length && i + 1 < sizeof(part); i++)
		part[i] = (char)tolower((unsigned char)call->arguments[1].bytes[i]);
	(void)snprintf(name, sizeof(name), "%s%s%s' command", row->name, has_part ? "|" : "", part);
	weir__refuse_role(call, row->operation, name);
}

void weir__refuse_role(struct weir__call *call, enum weir__operation operation, const char *what)
{
	char fault[WEIR__ROLE_FAULT], text[WEIR__ROLE_FAULT + 96];

	weir__operation_explain_role(call->client->user, operation, fault);
	(void)snprintf(text, sizeof(text), "%s: %s", what, fault);
	weir__refuse_with(call, WEIR__ERROR_NOPERM, text);
}

static inline bool may_have_trace(const struct weir__command_row *row, uint32_t n)
{
	return (row->flags & WEIR__TAKES_TRACE) && (int64_t)n >= row->least + 2;
}

uint32_t weir__without_trace(const struct weir__command_row *row, const struct weir__resp_slice *arguments, uint32_t n)
{
	return may_have_trace(row, n) && weir__is_word(&arguments[n - 2], "TRACEPARENT") ? n - 2 : n;
}

static inline bool accept(struct weir__call *call, const struct weir__command_row *row, uint32_t n)
{
	if ((int64_t)n < row->least || (int64_t)n > row->most)
		refuse_arity(call, row);
	else if (!may(call, row))
		refuse_user(call, row);
	else
		return true;
	return false;
}

bool weir__commands_accept(struct weir__call *call, const struct weir__command_row *row)
{
	return accept(call, row, weir__without_trace(row, call->arguments, call->n));
}

static inline void run(struct weir__call *call, const struct weir__command_row *row)
{
	if (accept(call, row, call->n))
		row->run(call);
}

/* Sets the traceparent for this command only: takes gathered before it do not have it, so the group ends first. */
__attribute__((noinline)) static void run_traced(struct weir__call *call, const struct weir__command_row *row)
{
	const struct weir__resp_slice *const value = &call->arguments[call->n - 1];
	const uint32_t n = weir__without_trace(row, call->arguments, call->n);

	if (n < call->n) {
		weir__resp_end_group(call->resp, call->client, call->writer);
		weir__tracer_parent(call->context->tracer, value->bytes, value->length);
	}
	call->n = n;
	run(call, row);
	weir__tracer_parent(call->context->tracer, NULL, 0);
}

static inline void run_any(struct weir__call *call, const struct weir__command_row *row)
{
	if (WEIR__UNLIKELY(may_have_trace(row, call->n)))
		run_traced(call, row);
	else
		run(call, row);
}

/* --- deferred commands ------------------------------------------------------------------------------------------- */

/* A deferred command, with its arguments. */
struct weir__deferred {
	uint32_t n;
	size_t bytes; /* of this block */
	struct weir__resp_slice arguments[];
};

void weir__resp_defer(struct weir__call *call)
{
	size_t bytes = 0;
	struct weir__deferred *deferred;
	char *to;

	for (uint32_t i = 0; i < call->n; i++)
		bytes += call->arguments[i].length;
	bytes += sizeof(*deferred) + call->n * sizeof(deferred->arguments[0]);
	deferred = malloc(bytes);
	if (deferred == NULL) {
		call->client->is_leaving = true; /* without memory its reply cannot be kept in order */
		return;
	}
	deferred->n = call->n;
	deferred->bytes = bytes;
	to = (char *)(deferred->arguments + call->n);
	for (uint32_t i = 0; i < call->n; i++) {
		const struct weir__resp_slice *const argument = &call->arguments[i];

		if (argument->length > 0)
			memcpy(to, argument->bytes, argument->length);
		deferred->arguments[i] = (struct weir__resp_slice){ to, argument->length };
		to += argument->length;
	}
	call->client->deferred = deferred;
}

void weir__resp_refuse_bytes(struct weir__resp *resp, struct weir__client *client,
			     const struct weir__resp_request *request, struct weir__resp_writer *writer)
{
	weir__resp_end_group(resp, client, writer);
	weir__resp_mark_reply(resp, client, writer);
	weir__resp_write_protocol_error(writer, request);
	if (resp->is_behind)
		weir__resp_hold_back(resp, client, writer, 1);
	client->is_leaving = true;
}

void weir__resp_init(struct weir__resp *resp, struct weir__context *context)
{
	resp->context = context;
	resp->n = 0;
	resp->reply_at = 0;
	resp->is_behind = false;
	weir__take_each_init(&resp->group.request, sizeof(resp->group), context, resp->claims, resp->verdicts);
	resp->group.request.write = weir__write_group;
	(void)pthread_once(&directory_once, make_directory);
}

/* --- running ----------------------------------------------------------------------------------------------------- */

void weir__commands_run(struct weir__call *call)
{
	const struct weir__command_row *const row = weir__command_named(&call->arguments[0]);

	if (call->resp->n == WEIR__GROUP || !(row->flags & WEIR__IS_DECISION))
		weir__resp_end_group(call->resp, call->client, call->writer);
	weir__resp_mark_reply(call->resp, call->client, call->writer);
	run_any(call, row);
	if (call->resp->is_behind)
		weir__resp_hold_back(call->resp, call->client, call->writer, 1);
}

/* Queues a command between MULTI and EXEC. */
__attribute__((noinline)) static void run_later(struct weir__call *call, const struct weir__command_row *row)
{
	weir__resp_end_group(call->resp, call->client, call->writer);
	if (row == NULL)
		refuse_unknown(call);
	weir__transaction_add(call, row);
}

/* Whether the command is not a decision, so that the group ends before it. */
static bool runs_alone(const struct weir__command_row *row)
{
	return row == NULL || !(row->flags & WEIR__IS_DECISION);
}

/* Only commands that just decide may run while requests are in flight. */
static bool must_wait(const struct weir__client *client, const struct weir__command_row *row)
{
	return client->transaction || client->last->is_barrier || row == NULL || !(row->flags & WEIR__MAY_OVERLAP);
}

static void run_command(struct weir__call *call, const struct weir__command_row *row)
{
	if (WEIR__UNLIKELY(call->client->transaction != NULL) && !(row && (row->flags & WEIR__IN_NO_MULTI)))
		run_later(call, row);
	else if (row == NULL)
		refuse_unknown(call);
	else
		run_any(call, row);
}

/* Runs a command behind requests in flight, in a transaction, or one that is not a decision. */
__attribute__((noinline)) static void run_apart(struct weir__call *call, const struct weir__command_row *row,
						size_t most)
{
	struct weir__resp *const resp = call->resp;
	struct weir__resp_writer *const writer = call->writer;

	if (call->client->first && must_wait(call->client, row)) {
		weir__resp_end_group(resp, call->client, writer);
		weir__resp_defer(call);
		return;
	}
	weir__resp_mark_reply(resp, call->client, writer);
	run_command(call, row);
	if (runs_alone(row) && writer->length - resp->reply_at > most) {
		writer->length = resp->reply_at;
		weir__refuse(call, WEIR__ERROR_ANSWER_LONG);
	}
}

bool weir__resp_do(struct weir__resp *resp, struct weir__client *client, const struct weir__resp_slice *arguments,
		   uint32_t n, struct weir__resp_writer *writer)
{
	struct weir__call call = { resp, resp->context, client, arguments, n, writer };
	const struct weir__command_row *const row = weir__command_named(&arguments[0]);
	const bool is_long = row && (row->flags & WEIR__IS_LONG), is_alone = runs_alone(row);
	const size_t most = is_long ? WEIR__ANSWER_LONG : WEIR__ANSWER_MOST + (n > 1 ? arguments[1].length : 0);

	if (writer->length + ((size_t)resp->n + 1) * WEIR__DECISION_MOST + most > writer->size)
		return false;
	if (is_alone || resp->n == WEIR__GROUP)
		weir__resp_end_group(resp, client, writer);
	resp->is_behind = false;
	if (is_alone || WEIR__UNLIKELY(client->first != NULL || client->transaction != NULL))
		run_apart(&call, row, most);
	else
		run_any(&call, row);
	if (WEIR__UNLIKELY(resp->is_behind))
		weir__resp_hold_back(resp, client, writer, 1);
	return true;
}

static bool run_deferred(struct weir__resp *resp, struct weir__client *client, struct weir__resp_writer *writer)
{
	struct weir__deferred *const deferred = client->deferred;
	bool is_done;

	client->deferred = NULL;
	is_done = weir__resp_do(resp, client, deferred->arguments, deferred->n, writer);
	weir__resp_end_group(resp, client, writer);
	if (is_done)
		free(deferred);
	else
		client->deferred = deferred;
	return is_done;
}

bool weir__resp_is_held_up(const struct weir__client *client)
{
	return client->deferred || weir__transaction_is_running(client);
}

bool weir__resp_go_on(struct weir__resp *resp, struct weir__client *client, struct weir__resp_writer *writer)
{
	bool is_done = true;

	while (is_done && client->first == NULL && (client->deferred || weir__transaction_is_running(client)))
		is_done = client->deferred ? run_deferred(resp, client, writer) :
					     weir__transaction_go_on(resp, client, writer);
	return is_done;
}

size_t weir__resp_kept_bytes(const struct weir__client *client)
{
	return weir__transaction_bytes(client) + (client->deferred ? client->deferred->bytes : 0);
}

void weir__resp_forget(struct weir__client *client)
{
	weir__transaction_drop(client);
	free(client->deferred);
	client->deferred = NULL;
}
