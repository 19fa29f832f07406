/* http.c: any bytes as a client's HTTP requests. Each request gets one response: a valid head, a body of the stated
 * length, and JSON if the head says so. A denial says when to retry, or that no wait will help. No response exceeds the
 * room that its route reserves.
 *
 * The first byte of an input selects: bit 0 users, bits 1 and 2 the rate limit headers, bits 3 and 4 the time between
 * two requests, bit 5 that the rest is the body of a POST, bits 6 and 7 the path of that POST. Routes in the formats of
 * other servers are checked less, because they have their own errors.
 *
 * Each input starts with the same empty table and the same secret: the target restores the table's memory. */
#include <jansson.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../test_folder.h"
#include "clock.h"
#include "require.h"
#include "server/http/http_call.h"
#include "server/policy_loader.h"
#include "store/table/table.h"

enum {
	INPUT_MOST = 8192,
	HEAD_MOST = 256, /* of a POST */
	KEYS = 256,      /* small, because the table is copied for each input */
	LIMITS_MAX = 8,
	ARENA_BYTES = 16384,
	OUT_SIZE = 1 << 20,
};

static const weir_ns spans[] = { 0, 1000000, UINT64_C(1000000000), UINT64_C(3600000000000) };

static const char policy_text[] =
	"limits:\n"
	"  - {name: all, limit: 50/s burst 10}\n"
	"  - {name: per-client, key: [ip], limit: 5/min}\n"
	"  - {name: queue, key: [user], limit: 10/s leaky queue 8, cost: {attribute: items}}\n"
	"  - {name: log, key: [ip], match: {path: /a/**}, limit: 3/hour sliding_log, mode: shadow}\n"
	"  - {name: route, key: [user, path, {attribute: ip, ipv4: 24}], limit: 5/min}\n";

static const char *const posts[] = { "/v1/check", "/v1/take", "/v1/hold", "/json" };

static struct weir__settings settings, with_users;
static struct weir__policy_loader *loader;
static struct weir_table *table;
static const struct weir_table_limit *counted_as;
static unsigned char *fresh;
static int ends[2]; /* a socket pair, for code that looks up its peer: a proxy on a Unix socket */
static char folder[TEST_FOLDER_SIZE], path[TEST_FOLDER_SIZE + 16];

static void remove_files(void)
{
	weir__policy_loader_free(loader);
	(void)unlink(path);
	(void)rmdir(folder);
}

static void make_settings(void)
{
	struct weir__user user = { .name = "web", .roles = WEIR__ROLE_DECIDE };
	FILE *file;

	test_folder_new(folder, "fuzz");
	(void)snprintf(path, sizeof(path), "%s/policy.yaml", folder);
	file = fopen(path, "we");
	require(file && fputs(policy_text, file) >= 0 && fclose(file) == 0, "no file");
	weir__settings_init(&settings, stderr);
	(void)snprintf(settings.policy, sizeof(settings.policy), "%s", path);
	require(weir__header_map_add(&settings.authorize_headers, "x-user=user", 11) &&
			weir__header_map_add(&settings.authorize_headers, "items", 5) &&
			weir__proxies_add(&settings.trusted_proxies, "10.0.0.0/8", 10),
		"no settings");
	require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "no sockets");
	with_users = settings;
	user.has_token = weir__users_digest("t", 1, user.token_digest);
	require(weir__users_add(&with_users.users, &user), "no user");
}

static void make_table(void)
{
	static const struct weir__hash_secret secret = { 1, 2 };
	const struct weir_table_options options = { .size_bytes = weir_table_size(KEYS, LIMITS_MAX) + ARENA_BYTES,
						    .limits_max = LIMITS_MAX,
						    .arena_bytes = ARENA_BYTES };

	make_settings();
	loader = weir__policy_loader_new(&settings);
	require(loader && weir_table_new(&options, &table, NULL) == WEIR_OK, "no table");
	table->region.header->secret = table->region.secret = secret;
	require(weir_table_add_limit_text(table, "counted", "1/s", &counted_as, NULL) == WEIR_OK, "no limit");
	require(weir__policy_loader_start(loader, table), "no policy");
	(void)weir_table_allow(table, counted_as, "", 0, weir_clock_now(), 0); /* gives this thread its stripe */
	fresh = malloc(table->region.size_bytes);
	require(fresh != NULL, "no memory");
	memcpy(fresh, table->region.header, table->region.size_bytes);
	weir__routes_init();
	(void)atexit(remove_files);
}

/* --- answers ---------------------------------------------------------------------------------------------------- */

static const char *header_of(const char *head, const char *name)
{
	const char *const at = strstr(head, name);

	return at ? at + strlen(name) : NULL;
}

static void judge_denied(const char *head, const json_t *body)
{
	const json_t *const retry = json_object_get(body, "retry_after_ns");
	const char *const after = header_of(head, "\r\nRetry-After: ");

	require(json_is_array(json_object_get(body, "violated-policies")), "a denial does not say by what");
	require(json_is_null(retry) == (after == NULL), "who may come back is not told when, or who may not is");
	if (after)
		require(strtoull(after, NULL, 10) * 1000000000 >= (uint64_t)json_integer_value(retry),
			"it is too early");
}

static bool is_of_others(const struct weir__route *route)
{
	return route && (strcmp(route->path, "/throttle") == 0 || strcmp(route->path, "/json") == 0);
}

static void judge(const struct weir__http_reply *reply, size_t most, bool is_ours)
{
	static char head[WEIR__REPLY_HEAD_ROOM + 1];
	const char *const end = memmem(reply->bytes, reply->length, "\r\n\r\n", 4);
	const char *type, *length, *problem;
	size_t head_length;
	unsigned status;
	json_t *body;

	require(reply->length <= most && end, "an answer has no head, or is too long");
	head_length = (size_t)(end - reply->bytes) + 4;
	require(head_length <= WEIR__REPLY_HEAD_ROOM, "a head is too long");
	memcpy(head, reply->bytes, head_length);
	head[head_length] = '\0';
	require(sscanf(head, "HTTP/1.1 %3u ", &status) == 1 && strlen(head) == head_length, "no status, or a NUL");
	if (status == 304) {
		require(reply->length == head_length, "there is a body for who has it already");
		return;
	}
	type = header_of(head, "\r\nContent-Type: ");
	length = header_of(head, "\r\nContent-Length: ");
	problem = header_of(head, "\r\nWeir-Problem: ");
	require(type && length && header_of(head, "Date: "), "a header is missing");
	if (reply->is_without_body) {
		require(reply->length == head_length, "a body in the response to HEAD");
		return;
	}
	require(strtoull(length, NULL, 10) == reply->length - head_length, "a body of another length");
	if (strncmp(type, "application/openmetrics-text", 28) == 0)
		require(memcmp(reply->bytes + reply->length - 6, "# EOF\n", 6) == 0, "metrics without an end");
	if (strncmp(type, "text/", 5) == 0 || strncmp(type, "application/openmetrics-text", 28) == 0)
		return;
	body = json_loadb(end + 4, reply->length - head_length, JSON_REJECT_DUPLICATES, NULL);
	require(body != NULL, "a body that is not JSON");
	if (problem) { /* a denial for nginx, which turns it into a 429 */
		require(status == 403 && strncmp(problem, end + 4, reply->length - head_length - 1) == 0,
			"the header has a different problem");
		status = 429;
	}
	require(status < 400 || !is_ours ||
			(strncmp(type, WEIR__TYPE_PROBLEM, sizeof(WEIR__TYPE_PROBLEM) - 1) == 0 &&
			 json_integer_value(json_object_get(body, "status")) == status),
		"an error without a problem document");
	require(status != 500 || !is_ours, "an answer that did not fit");
	if (status == 429 && is_ours)
		judge_denied(head, body);
	json_decref(body);
}

static void answer(struct weir__context *context, struct weir__http_request *request)
{
	static char out[OUT_SIZE];
	static struct weir__http_date date;
	struct weir__client client = { .number = 1 };
	struct weir__http_reply reply;
	struct weir__http_call call = {
		.context = context, .client = &client, .request = request, .reply = &reply, .socket = ends[0]
	};
	const struct weir__route *route;
	size_t most = WEIR__REPLY_MOST;

	weir__http_date_set(&date, weir_table_now(table));
	weir__reply_init(&reply, out, OUT_SIZE, &date);
	reply.is_without_body = request->method == HTTP_HEAD;
	route = weir__routes_find(&call);
	if (route && route->most > 0)
		most = route->most;
	if (route && weir__routes_permit(&call, route))
		route->run(&call);
	judge(&reply, most, !is_of_others(route));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct weir__http_reader reader;
	static struct weir__context context;
	static char in[HEAD_MOST + INPUT_MOST];
	struct weir__http_request request;
	size_t at = 0, used, length = 0;
	char head[HEAD_MOST] = "", *bytes;

	if (size == 0 || size > INPUT_MOST)
		return 0;
	if (table == NULL)
		make_table();
	if (data[0] & 32)
		length = (size_t)snprintf(head, sizeof(head),
					  "POST %s HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\n"
					  "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
					  posts[data[0] >> 6], size - 1);
	bytes = in + sizeof(in) - length - (size - 1); /* at the end of the buffer */
	memcpy(bytes, head, length);
	memcpy(bytes + length, data + 1, size - 1);
	length += size - 1;
	memcpy(table->region.header, fresh, table->region.size_bytes);
	weir__context_init(&context, table, counted_as);
	settings.ratelimit_headers = with_users.ratelimit_headers = data[0] >> 1 & 3;
	context.settings = data[0] & 1 ? &with_users : &settings;
	context.loader = loader;
	context.guard = weir__policy_loader_guard(loader);
	fuzz_clock_ahead = 0;
	for (;;) {
		weir__http_init(&reader);
		if (at == length ||
		    weir__http_read(&reader, bytes + at, length - at, &used, &request) != WEIR__HTTP_COMPLETE)
			break;
		answer(&context, &request);
		fuzz_clock_ahead += spans[data[0] >> 3 & 3];
		at += used;
	}
	weir__context_fini(&context);
	return 0;
}
