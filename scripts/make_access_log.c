/* make_access_log.c: prints an access log that looks like the log of a shop's web server, for tests, benchmarks and docs.
 *
 * Only integers and a seed: the same options give the same bytes on every machine. The lines are in the order in which
 * the requests completed, as a server writes them, so arrivals are slightly out of order. Memory does not depend on the
 * number of lines: a minute is made, sorted and written before the next one.
 *
 * Who sends:
 *   visitors   a heavy tail of clients (Zipf with exponent 1), in visits of 1 to 12 requests, more at noon than at night;
 *              or, for a log with more different clients, a share of the visits by clients that are all equally likely
 *   API users  five programs that send 30 to 180 requests within a few seconds, then pause
 *   crawler    one address at a steady pace, day and night
 *   attackers  some addresses that try passwords for ten minutes, at 14:00 of the middle day */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define MINUTE (60 * SECOND)
#define START UINT64_C(1772409600) /* 2026-03-02T00:00:00Z, a Monday */
#define LINES_MAX UINT64_C(1000000000)
#define LINE_MAX 512

enum { MINUTES_A_DAY = 1440, CLIENTS_MAX = 1 << 24, DAYS_MAX = 27, ATTACK_MINUTES = 10, ATTACK_HOUR = 14 };
enum { PERCENT_API = 15, PERCENT_CRAWLER = 5, PERCENT_ATTACK = 10 };

static const char usage[] =
	"usage: make_access_log [--lines N] [--days N] [--clients N] [--even PERCENT] [--seed N] [--format FORMAT]\n"
	"\n"
	"Prints an access log that looks real. The same options give the same bytes.\n"
	"\n"
	"  --lines N    lines, 1000 to 10^9. Default: 100000\n"
	"  --days N     days from 2026-03-02, 1 to 27. Default: 2\n"
	"  --clients N  visitors, 2 to 2^24. Default: a tenth of the lines\n"
	"  --even PERCENT  of the visits: by visitors that are all equally likely. Default: 0\n"
	"  --seed N     another log with the same properties. Default: 1\n"
	"  --format combined  the log format `combined` of nginx and Apache\n"
	"           timed     the same, then $request_time. Default\n"
	"           plan      the same, then \"$http_x_plan\": free or gold\n"
	"           json      a JSON object a line, with names as in nginx, and milliseconds\n";

/* --- random numbers ---------------------------------------------------------------------------------------------- */

static uint64_t random_state;

/* splitmix64 */
static uint64_t next_random(void)
{
	uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* From 0 to n - 1. */
static uint32_t below(uint32_t n)
{
	return (uint32_t)(((next_random() >> 32) * n) >> 32);
}

static uint64_t between(uint64_t least, uint64_t most)
{
	return least + next_random() % (most - least + 1);
}

/* A rank from 1 to n, with a weight of about 1/rank. Under this law every octave of ranks has nearly the same weight, so
 * a fair draw selects the octave, and a rejection shapes it. */
static uint32_t zipf(uint32_t n)
{
	uint32_t octaves = 0;

	while (octaves < 31 && UINT32_C(1) << octaves <= n)
		octaves++;
	for (;;) {
		const uint32_t first = UINT32_C(1) << below(octaves), rank = first + below(first);

		if (rank <= n && below(rank) < first)
			return rank;
	}
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

enum kind { VISITOR, API_USER, CRAWLER, ATTACKER };

struct request {
	uint64_t completed; /* ns since the start of the log */
	uint32_t took_ms;
	uint32_t client; /* rank of a visitor, else index of its kind */
	uint32_t detail; /* selects the product, order or page number */
	uint32_t bytes;
	uint16_t status;
	uint8_t kind;
	uint8_t target; /* index in targets */
};                      /* without padding, because earlier_first compares all bytes */

static const struct target {
	const char *method, *path;
	uint32_t details; /* 0: the path is complete, else a number below this follows */
	uint32_t bytes;   /* typical size of the response */
	uint32_t took_ms; /* typical time */
} targets[] = {
	{ "GET", "/", 0, 18200, 9 },
	{ "GET", "/product/", 40000, 23800, 14 },
	{ "GET", "/search?q=item-", 5000, 15100, 38 },
	{ "GET", "/static/app.css?v=", 12, 8900, 1 },
	{ "GET", "/static/app.js?v=", 12, 64300, 2 },
	{ "GET", "/api/v1/stock/", 40000, 640, 5 },
	{ "GET", "/cart", 0, 7300, 11 },
	{ "POST", "/cart", 0, 310, 16 },
	{ "POST", "/login", 0, 540, 62 },
	{ "POST", "/api/v1/orders", 0, 820, 45 },
	{ "GET", "/api/v1/orders/", 900000, 1900, 8 },
	{ "GET", "/api/v1/exports?page=", 400, 48000, 70 },
	{ "PUT", "/api/v1/stock/", 40000, 210, 12 },
};

enum { LOGIN = 8, CRAWLED = 1 };
static const uint8_t visited[] = { 0, 1, 1, 1, 2, 2, 3, 3, 4, 5, 5, 5, 6, 7, 8, 9 };
static const uint8_t called[] = { 5, 9, 9, 10, 10, 10, 11, 12, 12 };

static const char *const api_users[] = { "billing", "mobile-sync", "partner-north", "partner-south", "warehouse" };
static const bool api_user_is_gold[COUNT_OF(api_users)] = { true, true, true, false, true };

static const char *const agents[] = {
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:125.0) Gecko/20100101 Firefox/125.0",
	"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 17_4 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148",
	"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Safari/605.1.15",
};

/* A day in hundredths of the busiest hour, from midnight UTC. */
static const uint8_t rhythm[24] = { 22, 16, 12, 10, 10, 14, 24, 40,  58, 72, 82, 90,
				    96, 92, 86, 84, 86, 90, 98, 100, 94, 76, 52, 34 };

struct log_options {
	uint64_t lines, days, clients, even, seed;
	const char *format;
};

/* Requests that wait to be written, because a later minute may complete one before them. */
static struct {
	struct request *requests;
	size_t n, capacity;
} pending;

static void add_request(struct request request, uint64_t arrived)
{
	const struct target *const target = &targets[request.target];

	if (pending.n == pending.capacity) {
		pending.capacity = pending.capacity ? 2 * pending.capacity : 4096;
		pending.requests = realloc(pending.requests, pending.capacity * sizeof(*pending.requests));
		if (pending.requests == NULL) {
			fputs("make_access_log: no memory\n", stderr);
			exit(1);
		}
	}
	/* one request in 128 takes up to 64 times as long */
	request.took_ms = target->took_ms + below(2 * target->took_ms + 1);
	if (below(128) == 0)
		request.took_ms *= 1 + below(64);
	request.completed = arrived + request.took_ms * MS + below(1000000);
	request.detail = target->details ? below(target->details) : 0;
	request.bytes = target->bytes / 2 + below(target->bytes);
	if (request.status == 0)
		request.status = below(400) == 0 ? 502 : below(60) == 0 ? 404 : 200;
	pending.requests[pending.n++] = request;
}

/* At most `most` requests of one visitor. Returns how many. */
static uint64_t add_visit(const struct log_options *options, uint64_t minute, uint64_t most)
{
	const uint64_t length = 1 + below(1 + below(12)), n = length < most ? length : most;
	const bool is_even = options->even > 0 && below(100) < options->even;
	const uint32_t client = is_even ? 1 + below((uint32_t)options->clients) : zipf((uint32_t)options->clients);
	uint64_t at = minute * MINUTE + next_random() % MINUTE;

	for (uint64_t i = 0; i < n; i++) {
		const uint8_t target = visited[below(COUNT_OF(visited))];

		add_request((struct request){ .kind = VISITOR, .client = client, .target = target }, at);
		at += between(15 * MS, 900 * MS);
	}
	return n;
}

static void add_burst(uint64_t minute, uint64_t n)
{
	const uint32_t user = zipf(COUNT_OF(api_users)) - 1;
	const uint64_t start = minute * MINUTE + next_random() % MINUTE, lasts = between(1 * SECOND, 6 * SECOND);

	for (uint64_t i = 0; i < n; i++) {
		const uint8_t target = called[below(COUNT_OF(called))];
		const uint64_t at = start + lasts * i / n + next_random() % (20 * MS);

		add_request((struct request){ .kind = API_USER, .client = user, .target = target }, at);
	}
}

static void add_attempt(uint64_t minute, uint32_t attackers)
{
	const uint32_t client = below(attackers);
	const uint16_t status = below(500) == 0 ? 200 : 401;

	add_request((struct request){ .kind = ATTACKER, .client = client, .target = LOGIN, .status = status },
		    minute * MINUTE + next_random() % MINUTE);
}

/* --- lines ------------------------------------------------------------------------------------------------------- */

static char *put_text(char *to, const char *text)
{
	const size_t length = strlen(text);

	memcpy(to, text, length);
	return to + length;
}

static char *put_number(char *to, uint64_t number)
{
	char digits[20];
	size_t n = 0;

	do {
		digits[n++] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	while (n > 0)
		*to++ = digits[--n];
	return to;
}

static char *put_digits(char *to, uint64_t number, int digits)
{
	for (int i = digits; i-- > 0; number /= 10)
		to[i] = (char)('0' + number % 10);
	return to + digits;
}

static char *put_hex(char *to, uint32_t number)
{
	for (int shift = 12; shift >= 0; shift -= 4)
		*to++ = "0123456789abcdef"[(number >> shift) & 15];
	return to;
}

/* Ranks become addresses that look random, without collision: each line is a bijection of 24 bits. */
static uint32_t scatter(uint32_t rank, uint64_t seed)
{
	uint32_t x = (rank ^ (uint32_t)(seed * 7919)) & 0xffffff;

	x = (x * 0x9e3779u) & 0xffffff;
	x ^= x >> 11;
	x = (x * 0x85ebcbu) & 0xffffff;
	return x ^ (x >> 13);
}

/* Only private addresses and those for documentation. Every eighth visitor uses IPv6. */
static char *put_address(char *to, const struct request *request, uint64_t seed)
{
	const uint32_t x = scatter(request->client, seed);

	switch (request->kind) {
	case VISITOR:
		if (x % 8 == 0) {
			to = put_hex(put_text(to, "2001:db8:1"), x >> 16);
			return put_text(put_hex(put_text(to, ":"), x & 0xffff), "::1");
		}
		to = put_number(put_text(to, "10."), x >> 16);
		to = put_number(put_text(to, "."), (x >> 8) & 255);
		return put_number(put_text(to, "."), x & 255);
	case API_USER:
		return put_number(put_text(to, "192.0.2."), 10 + request->client);
	case CRAWLER:
		return put_text(to, "203.0.113.66");
	default:
		return put_number(put_text(to, "198.51.100."), 1 + request->client);
	}
}

static const char *user_of(const struct request *request)
{
	return request->kind == API_USER ? api_users[request->client] : "-";
}

static bool is_gold(const struct request *request, uint64_t seed)
{
	return request->kind == API_USER ? api_user_is_gold[request->client] :
					   request->kind == VISITOR && scatter(request->client, seed) % 20 == 7;
}

static const char *agent_of(const struct request *request, uint64_t seed)
{
	switch (request->kind) {
	case VISITOR:
		return agents[(scatter(request->client, seed) >> 5) % COUNT_OF(agents)];
	case API_USER:
		return "shop-client/3.4";
	case CRAWLER:
		return "Mozilla/5.0 (compatible; ExampleBot/2.1; +https://bot.example/info)";
	default:
		return "python-requests/2.31.0";
	}
}

static char *put_path(char *to, const struct request *request)
{
	const struct target *const target = &targets[request->target];

	to = put_text(to, target->path);
	return target->details ? put_number(to, request->detail) : to;
}

/* All days are in March 2026. */
static char *put_clock(char *to, uint64_t at_s)
{
	to = put_digits(to, at_s / 3600 % 24, 2);
	*to++ = ':';
	to = put_digits(to, at_s / 60 % 60, 2);
	*to++ = ':';
	return put_digits(to, at_s % 60, 2);
}

static char *put_combined(char *to, const struct request *request, const struct log_options *options)
{
	const uint64_t at_s = request->completed / SECOND;

	to = put_text(put_address(to, request, options->seed), " - ");
	to = put_text(put_text(to, user_of(request)), " [");
	to = put_text(put_digits(to, 2 + at_s / 86400, 2), "/Mar/2026:");
	to = put_text(put_clock(to, at_s), " +0000] \"");
	to = put_text(put_text(to, targets[request->target].method), " ");
	to = put_text(put_path(to, request), " HTTP/1.1\" ");
	to = put_text(put_number(to, request->status), " ");
	to = put_text(put_number(to, request->bytes), " \"-\" \"");
	to = put_text(put_text(to, agent_of(request, options->seed)), "\"");
	if (options->format[0] == 't' || options->format[0] == 'p') {
		to = put_text(put_number(put_text(to, " "), request->took_ms / 1000), ".");
		to = put_digits(to, request->took_ms % 1000, 3);
	}
	if (options->format[0] == 'p')
		to = put_text(to, is_gold(request, options->seed) ? " \"gold\"" : " \"free\"");
	return put_text(to, "\n");
}

static char *put_json(char *to, const struct request *request, const struct log_options *options)
{
	const uint64_t at_ms = request->completed / MS, at_s = at_ms / 1000;

	to = put_digits(put_text(to, "{\"time_iso8601\":\"2026-03-"), 2 + at_s / 86400, 2);
	to = put_text(put_clock(put_text(to, "T"), at_s), "+00:00\",\"msec\":");
	to = put_text(put_digits(put_text(put_number(to, START + at_s), "."), at_ms % 1000, 3), ",\"remote_addr\":\"");
	to = put_text(put_address(to, request, options->seed), "\",\"remote_user\":\"");
	to = put_text(to, request->kind == API_USER ? user_of(request) : "");
	to = put_text(put_text(to, "\",\"request_method\":\""), targets[request->target].method);
	to = put_path(put_text(to, "\",\"request_uri\":\""), request);
	to = put_number(put_text(to, "\",\"status\":"), request->status);
	to = put_number(put_text(to, ",\"body_bytes_sent\":"), request->bytes);
	to = put_text(put_number(put_text(to, ",\"request_time\":"), request->took_ms / 1000), ".");
	to = put_text(put_digits(to, request->took_ms % 1000, 3), ",\"http_user_agent\":\"");
	to = put_text(put_text(to, agent_of(request, options->seed)), "\",\"plan\":\"");
	return put_text(to, is_gold(request, options->seed) ? "gold\"}\n" : "free\"}\n");
}

/* A total order, so that the result does not depend on the sort. */
static int earlier_first(const void *a_, const void *b_)
{
	const struct request *const a = a_, *const b = b_;

	if (a->completed != b->completed)
		return a->completed < b->completed ? -1 : 1;
	return memcmp(a, b, sizeof(*a));
}

/* Writes what completed before `until`, and keeps the rest. */
static void write_until(uint64_t until, const struct log_options *options)
{
	static char buffer[64 * LINE_MAX];
	char *end = buffer;
	size_t i = 0;

	if (pending.n == 0)
		return;
	qsort(pending.requests, pending.n, sizeof(*pending.requests), earlier_first);
	for (; i < pending.n && pending.requests[i].completed < until; i++) {
		end = options->format[0] == 'j' ? put_json(end, &pending.requests[i], options) :
						  put_combined(end, &pending.requests[i], options);
		if (end > buffer + sizeof(buffer) - LINE_MAX) {
			fwrite(buffer, 1, (size_t)(end - buffer), stdout);
			end = buffer;
		}
	}
	fwrite(buffer, 1, (size_t)(end - buffer), stdout);
	pending.n -= i;
	memmove(pending.requests, pending.requests + i, pending.n * sizeof(*pending.requests));
}

/* --- the log ----------------------------------------------------------------------------------------------------- */

/* In hundredths of the busiest hour, times 60: a line from one hour's value to the next. */
static uint64_t weight_of(uint64_t minute)
{
	const uint64_t hour = minute / 60 % 24, within = minute % 60;

	return rhythm[hour] * (60 - within) + rhythm[(hour + 1) % 24] * within;
}

/* How many of `total` are due once `part` of `whole` is over. */
static uint64_t due(uint64_t total, uint64_t part, uint64_t whole)
{
	return (uint64_t)((unsigned __int128)total * part / whole);
}

static void make_log(const struct log_options *options)
{
	const uint64_t minutes = options->days * MINUTES_A_DAY, of_api = options->lines * PERCENT_API / 100;
	const uint64_t of_crawler = options->lines * PERCENT_CRAWLER / 100;
	const uint64_t of_attack = options->lines * PERCENT_ATTACK / 100;
	const uint64_t of_visitors = options->lines - of_api - of_crawler - of_attack;
	const uint64_t attack = (options->days - 1) / 2 * MINUTES_A_DAY + ATTACK_HOUR * 60;
	const uint64_t attackers = of_attack / 400 < 4 ? 4 : of_attack / 400 > 200 ? 200 : of_attack / 400;
	uint64_t whole = 0, part = 0, visitors = 0, api = 0, crawler = 0, attacking = 0, burst = between(30, 180);

	for (uint64_t minute = 0; minute < minutes; minute++)
		whole += weight_of(minute);
	for (uint64_t minute = 0; minute < minutes; minute++) {
		part += weight_of(minute);
		while (visitors < due(of_visitors, part, whole))
			visitors += add_visit(options, minute, due(of_visitors, part, whole) - visitors);
		while (api + burst <= due(of_api, minute + 1, minutes)) {
			add_burst(minute, burst);
			api += burst;
			burst = between(30, 180);
		}
		for (uint64_t i = 0, n = due(of_crawler, minute + 1, minutes) - crawler; i < n; i++, crawler++)
			add_request((struct request){ .kind = CRAWLER, .target = CRAWLED },
				    minute * MINUTE + MINUTE * i / n + next_random() % (50 * MS));
		if (minute >= attack && minute < attack + ATTACK_MINUTES)
			for (; attacking < due(of_attack, minute - attack + 1, ATTACK_MINUTES); attacking++)
				add_attempt(minute, (uint32_t)attackers);
		if (minute + 1 == minutes && api < of_api)
			add_burst(minute, of_api - api);
		write_until((minute + 1) * MINUTE, options);
	}
	write_until(UINT64_MAX, options);
	fprintf(stderr,
		"make_access_log: lines %" PRIu64 ", days %" PRIu64 "; attack from 2026-03-%02" PRIu64
		"T14:00:00Z to 14:10:00Z, addresses 198.51.100.1 to %" PRIu64 "\n",
		options->lines, options->days, 2 + attack / MINUTES_A_DAY, attackers);
}

/* --- arguments --------------------------------------------------------------------------------------------------- */

static bool read_number(const char *name, const char *text, uint64_t least, uint64_t most, uint64_t *ret_number)
{
	char *end = NULL;
	const uint64_t number = text && text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;

	if (end == NULL || *end != '\0' || number < least || number > most) {
		fprintf(stderr, "make_access_log: %s %s: use a number from %" PRIu64 " to %" PRIu64 "\n", name,
			text ? text : "", least, most);
		return false;
	}
	*ret_number = number;
	return true;
}

static bool read_format(const char *text, const char **ret_format)
{
	static const char *const formats[] = { "combined", "timed", "plan", "json" };

	for (size_t i = 0; i < COUNT_OF(formats); i++) {
		if (text && strcmp(text, formats[i]) == 0) {
			*ret_format = formats[i];
			return true;
		}
	}
	fprintf(stderr, "make_access_log: --format %s: use combined, timed, plan or json\n", text ? text : "");
	return false;
}

static bool read_option(const char *name, const char *value, struct log_options *options)
{
	if (strcmp(name, "--lines") == 0)
		return read_number(name, value, 1000, LINES_MAX, &options->lines);
	if (strcmp(name, "--days") == 0)
		return read_number(name, value, 1, DAYS_MAX, &options->days);
	if (strcmp(name, "--clients") == 0)
		return read_number(name, value, 2, CLIENTS_MAX, &options->clients);
	if (strcmp(name, "--even") == 0)
		return read_number(name, value, 0, 100, &options->even);
	if (strcmp(name, "--seed") == 0)
		return read_number(name, value, 0, UINT64_MAX, &options->seed);
	if (strcmp(name, "--format") == 0)
		return read_format(value, &options->format);
	fputs(usage, stderr);
	return false;
}

int main(int argc, char **argv)
{
	struct log_options options = { .lines = 100000, .days = 2, .seed = 1, .format = "timed" };

	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		fputs(usage, stdout);
		return 0;
	}
	for (int i = 1; i < argc; i += 2)
		if (!read_option(argv[i], i + 1 < argc ? argv[i + 1] : NULL, &options))
			return 2;
	if (options.clients == 0)
		options.clients = options.lines / 10;
	if (options.clients > CLIENTS_MAX)
		options.clients = CLIENTS_MAX;
	random_state = options.seed;
	make_log(&options);
	free(pending.requests);
	errno = 0;
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "make_access_log: standard output: %s\n", strerror(errno ? errno : EIO));
		return 1;
	}
	return 0;
}
