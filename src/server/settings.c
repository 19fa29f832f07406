/* settings.c: the table of settings, reading and writing of values, and flags and environment. */
#include "server/settings.h"

#include <weir/table.h>

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/decimal.h"
#include "core/nearest.h"
#include "core/notation.h"
#include "observe/span_exporter.h"
#include "policy/source/policy_remote.h"
#include "server/denial_body.h"
#include "server/listeners.h"
#include "server/stores.h"

#define PLACE(member) offsetof(struct weir__settings, member)
#define GIB (UINT64_C(1) << 30)
#define DAY_NS UINT64_C(86400000000000)

/* clang-format off */
const struct weir__setting weir__setting_rows[WEIR__SETTINGS] = {
	{ "listen", WEIR__SETTING_WHERE, 1, WEIR__LISTENERS_MAX, "127.0.0.1:6380", PLACE(listen), "WHERE",
	  "Where to listen for RESP: HOST:PORT, tls://HOST:PORT, or the path of a socket, with a slash. Port 0 picks a free one. "
	  "For a name, the server listens on all its addresses, at one port. "
	  "An address that other machines can reach needs users.", NULL },
	{ "http", WEIR__SETTING_WHERE, 0, WEIR__LISTENERS_MAX, "127.0.0.1:8080", PLACE(http), "WHERE",
	  "Where to listen for HTTP, written as for RESP; none turns it off.", NULL },
	{ "grpc", WEIR__SETTING_WHERE, 0, WEIR__LISTENERS_MAX, "127.0.0.1:8081", PLACE(grpc), "WHERE",
	  "Where to listen for gRPC, for Envoy's rate limit service, written as for RESP; none turns it off. The addresses of "
	  "HTTP serve gRPC, too.", NULL },
	{ "metrics_listen", WEIR__SETTING_WHERE, 0, WEIR__LISTENERS_MAX, "", PLACE(metrics_listen), "WHERE",
	  "A second address for HTTP, with /metrics, /healthz and /readyz only, and without a token: let only your Prometheus "
	  "reach it. /metrics stays where HTTP is, too.", NULL },
	{ "metrics_open", WEIR__SETTING_CHOICE, 0, 0, "false", PLACE(metrics_open), "true",
	  "With true, /metrics needs no token, even if the server has users.", "false true" },
	{ "tls_cert", WEIR__SETTING_TEXT, 0, 0, "", PLACE(tls_cert), "PATH",
	  "The certificate for addresses that begin with tls://, in PEM, followed by its intermediate certificates. It is read "
	  "again when it changes.", NULL },
	{ "tls_key", WEIR__SETTING_TEXT, 0, 0, "", PLACE(tls_key), "PATH",
	  "The private key of tls_cert, in PEM without a password. By default it is in the same file.", NULL },
	{ "tls_client_ca", WEIR__SETTING_TEXT, 0, 0, "", PLACE(tls_client_ca), "PATH",
	  "CAs, in PEM, that sign certificates of clients. With it, clients at addresses that begin with tls:// must have such a "
	  "certificate (mutual TLS). A name in it can be a user, and is the attribute peer.", NULL },
	{ "tls_client_auth", WEIR__SETTING_CHOICE, 0, 0, "require", PLACE(tls_client_auth), "HOW",
	  "With tls_client_ca: require a certificate of each client, or optional, which also serves clients without one.",
	  "require optional" },
	{ "socket_mode", WEIR__SETTING_MODE, 1, 0777, "", PLACE(socket_mode), "MODE",
	  "Who may connect to sockets with a path, as for chmod: 0660 is the owner and the group. Without it the umask "
	  "decides.", NULL },
	{ "keys", WEIR__SETTING_COUNT, 1, UINT64_C(10000000000), "1000000", PLACE(keys), "N",
	  "How many keys can have part of a limit in use at the same time, 24 bytes each. When the table is full, the key "
	  "that has used the least is evicted.", NULL },
	{ "arena", WEIR__SETTING_BYTES, 0, 1024 * GIB, "16MiB", PLACE(arena), "BYTES",
	  "Memory for the events of sliding logs and sub-windows, besides the memory of the keys: 10 to 27 bytes an event. "
	  "Other limits need none. By default, unless the table is shared or in a file, it is as large as the limits of "
	  "the policy need when all keys are used up, up to an eighth of the available memory, if that is more than the default.", NULL },
	{ "inline_share", WEIR__SETTING_COUNT, 1, 99, "25", PLACE(inline_share), "PERCENT",
	  "The share of a full table for keys of inline limits, which requests state. New keys of either kind evict "
	  "keys of the kind that has more than its share.", NULL },
	{ "shared", WEIR__SETTING_TEXT, 0, 0, "", PLACE(shared), "NAME",
	  "Keep the table in shared memory of this name, which outlives the server.", NULL },
	{ "file", WEIR__SETTING_TEXT, 0, 0, "", PLACE(file), "PATH",
	  "Keep the table in this file, which survives a reboot. Without shared or file the table is lost when the server exits.", NULL },
	{ "overcommit", WEIR__SETTING_CHOICE, 0, 0, "false", PLACE(overcommit), "true",
	  "With true, make the table even if it does not fit into the free memory of the machine, the cgroup or the file "
	  "system. If memory runs out later, the kernel kills this or another process.", "false true" },
	{ "store", WEIR__SETTING_URL, 0, 0, "", PLACE(store), "URL",
	  "A Redis that keeps the limits, so that several servers share them: redis://HOST:PORT, rediss:// with TLS, "
	  "redis+sentinel://, redis+unix://. Without it the server uses its own table. Put a password into the file or the "
	  "environment: other users of the machine can see flags.", NULL },
	{ "store_budget", WEIR__SETTING_DURATION, 1000000, 10000000000, "100ms", PLACE(store_budget_ns), "TIME",
	  "How long a decision waits for the store, at most, unless the policy says otherwise for its limit.", NULL },
	{ "on_store_failure", WEIR__SETTING_CHOICE, 0, 0, "share", PLACE(on_store_failure), "HOW",
	  "Fail open or fail closed when the store does not reply, unless the policy says otherwise for the limit: share, the limit "
	  "divided by the number of servers seen; open, which allows; closed, which denies.", "share open closed" },
	{ "deferred_memory", WEIR__SETTING_BYTES, 65536, 64 * GIB, "64MiB", PLACE(deferred_memory), "BYTES",
	  "Memory for charges that are deferred while the store cannot be reached: about 100 bytes a key, and the "
	  "key. Units beyond it are never charged, only counted.", NULL },
	{ "workers", WEIR__SETTING_COUNT, 1, WEIR__WORKERS_MAX, "", PLACE(workers), "N",
	  "Worker threads; by default one per processor.", NULL },
	{ "spin", WEIR__SETTING_DURATION, 0, 1000000, "50us", PLACE(spin_ns), "TIME",
	  "How long a busy worker polls for requests before it sleeps, so that clients need not wake it: more "
	  "requests a second, for processor time that would otherwise be idle. A worker stops polling where that does not "
	  "pay, as on a shared processor; 0 turns it off.", NULL },
	{ "connections", WEIR__SETTING_COUNT, 1, 1000000, "10000", PLACE(connections), "N",
	  "Maximum connections per worker. When all workers are full, new connections wait until one is closed.", NULL },
	{ "connections_per_address", WEIR__SETTING_COUNT, 0, 1000000, "1000", PLACE(connections_per_address), "N",
	  "Maximum connections from one address, over all workers. More are refused; 0 means no maximum. An IPv6 "
	  "address counts as its /64. Unix sockets, loopback addresses and trusted_proxies are exempt.", NULL },
	{ "client_memory", WEIR__SETTING_BYTES, 4194304, 1024 * GIB, "64MiB", PLACE(client_memory), "BYTES",
	  "Maximum memory for the requests and replies of all connections of a worker. From half of it on, clients that do not "
	  "read get no more replies. Beyond it, the clients that take the most are closed.", NULL },
	{ "idle", WEIR__SETTING_DURATION, 0, 365 * DAY_NS, "0", PLACE(idle_ns), "TIME",
	  "Close an RESP connection that has been idle this long; 0 means never, as in Redis, since pools keep spare "
	  "connections.", NULL },
	{ "http_idle", WEIR__SETTING_DURATION, 0, 365 * DAY_NS, "60s", PLACE(http_idle_ns), "TIME",
	  "Close an HTTP/1.1 connection that sends no request for this long after its last response; 0 means never.", NULL },
	{ "http2_idle", WEIR__SETTING_DURATION, 0, 365 * DAY_NS, "10min", PLACE(http2_idle_ns), "TIME",
	  "Close an HTTP/2 connection, also one of gRPC, on which nothing was sent for this long; 0 means never. A client that "
	  "waits, such as a gRPC client that watches the health, first gets a PING. The server closes the connection if no "
	  "acknowledgement arrives within the same time.", NULL },
	{ "http2_age", WEIR__SETTING_DURATION, 0, 365 * DAY_NS, "0", PLACE(http2_age_ns), "TIME",
	  "Ask HTTP/2 clients to open a new connection after this long, by GOAWAY, so that load balancers spread connections "
	  "again; 0 means never. Each connection gets up to a tenth less, so that not all clients reconnect at once.", NULL },
	{ "header_time", WEIR__SETTING_DURATION, 100000000, DAY_NS, "10s", PLACE(header_time_ns), "TIME",
	  "Refuse a request that is still incomplete this long after its first byte, or, for the first one of an HTTP "
	  "connection, this long after it was accepted. A connection that has sent nothing by then is closed. If the server has "
	  "users, so is an RESP connection that has not authenticated by then.", NULL },
	{ "ratelimit_headers", WEIR__SETTING_CHOICE, 0, 0, "draft11", PLACE(ratelimit_headers), "WHICH",
	  "HTTP headers that report limits: draft11, RateLimit and RateLimit-Policy of the IETF's draft 11; x, "
	  "X-RateLimit-Limit, -Remaining and -Reset; both; or none.", "draft11 x both none" },
	{ "trusted_proxies", WEIR__SETTING_PROXIES, 0, WEIR__PROXIES_MAX, "127.0.0.0/8,::1,unix", PLACE(trusted_proxies), "NETWORK",
	  "Proxies whose X-Forwarded-For /v1/authorize trusts: networks, addresses, and unix for clients of sockets with a path; "
	  "none trusts none.", NULL },
	{ "authorize_headers", WEIR__SETTING_HEADERS, 0, WEIR__HEADER_MAP_MAX, "", PLACE(authorize_headers), "HEADER",
	  "Headers that become attributes for /v1/authorize: x-api-key=api_key, or x-api-key for the attribute x_api_key.", NULL },
	{ "denial_reveals", WEIR__SETTING_CHOICE, 0, 0, "decided", PLACE(denial_reveals), "WHAT",
	  "What /v1/authorize reports, which proxies may pass on to visitors: the limit that decided, or all, which adds how many "
	  "limits apply and how many in shadow denied.", "decided all" },
	{ "denial_body", WEIR__SETTING_TEXT, 0, 0, "", PLACE(denial_body), "PATH",
	  "A file for the body of denials at /v1/authorize, up to 16 KiB, in which {limit}, {quota}, {remaining}, {retry_after} and "
	  "{reset} are replaced. It is reloaded with the users. Without it, the body is a JSON problem document.", NULL },
	{ "denial_type", WEIR__SETTING_TEXT, 0, 0, "text/html; charset=utf-8", PLACE(denial_type), "TYPE",
	  "The Content-Type of denial_body. The name of the limit is escaped for it: for JSON, HTML, XML, or not.", NULL },
	{ "allowed_hosts", WEIR__SETTING_HOSTS, 0, WEIR__HOSTS_MAX, "", PLACE(allowed_hosts), "NAME",
	  "Names by which HTTP clients may call this server, besides addresses and localhost: weir.example.com, *.example.com, or "
	  "* for any. By default, without users, names without a dot and names below .localhost, .local, .internal, .svc and "
	  ".cluster.local are allowed. This stops DNS rebinding by web pages.", NULL },
	{ "output", WEIR__SETTING_BYTES, 65536, GIB, "16MiB", PLACE(output), "BYTES",
	  "Bytes of replies to buffer for a client that pipelines requests without reading replies. Beyond that the server "
	  "stops reading from it until it reads some.", NULL },
	{ "stall", WEIR__SETTING_DURATION, 100000000, DAY_NS, "30s", PLACE(stall_ns), "TIME",
	  "Close a client that reads its buffered replies slower than 1 KiB per second, on average over this long.", NULL },
	{ "end_delay", WEIR__SETTING_DURATION, 0, DAY_NS, "0s", PLACE(end_delay_ns), "TIME",
	  "After SIGTERM or SIGINT, keep serving for this long while /readyz says 503: time for load balancers to send "
	  "requests elsewhere. A second signal cuts it short.", NULL },
	{ "drain", WEIR__SETTING_DURATION, 0, DAY_NS, "30s", PLACE(drain_ns), "TIME",
	  "After an upgrade (SIGUSR2), how long the old server serves its connections, at most. "
	  "Also how long a shutdown waits for clients and threads that hang: at least 10s for clients, 3s for threads.", NULL },
	{ "keep_pid", WEIR__SETTING_CHOICE, 0, 0, "auto", PLACE(keep_pid), "WHEN",
	  "Keep the process id over upgrades (SIGUSR2), for supervisors that watch one process: a small parent process stays and "
	  "forwards signals to the server. auto does so as process 1 of a container, and under systemd unless Type=notify.",
	  "auto on off" },
	{ "pid_file", WEIR__SETTING_TEXT, 0, 0, "", PLACE(pid_file), "PATH",
	  "Write the process id, to send signals to, into this file once the server serves; an upgrade replaces it.", NULL },
	{ "core_dumps", WEIR__SETTING_CHOICE, 0, 0, "false", PLACE(core_dumps), "true",
	  "Allow core dumps, and debuggers of the same user. Both show passwords and keys of clients.", "false true" },
	{ "holds", WEIR__SETTING_COUNT, 1, 16777216, "65536", PLACE(holds), "N",
	  "Maximum number of holds. A settled hold counts until its ttl ends, so this must be at least the rate of holds "
	  "times their ttl. Beyond it, new holds get BUSY.", NULL },
	{ "policy", WEIR__SETTING_TEXT, 0, 0, "", PLACE(policy), "PATH",
	  "A policy file, or a directory whose *.yaml files make one policy in the order of their names. Or the URL "
	  "of a policy in etcd or Redis: etcd://HOST:PORT/KEY or redis://HOST:PORT/0?policy_key=KEY. It is "
	  "reloaded when it changes. Without it, limits and attributes may be in the configuration file.", NULL },
	{ "policy_copy", WEIR__SETTING_TEXT, 0, 0, "", PLACE(policy_copy), "PATH",
	  "A file to which each valid policy from etcd or Redis is copied. The server starts from the copy when they cannot be "
	  "reached or have no valid policy.", NULL },
	{ "envoy_counts", WEIR__SETTING_CHOICE, 0, 0, "each", PLACE(envoy_counts), "HOW",
	  "How the descriptors of an Envoy ratelimit policy count: each for itself, including what it denies, as Envoy's "
	  "service does; or together, so that a request that one of them denies is counted nowhere.", "together each" },
	{ "envoy_headers", WEIR__SETTING_CHOICE, 0, 0, "false", PLACE(envoy_headers), "true",
	  "With true, responses of the rate limit service have the headers RateLimit-Limit, -Remaining and -Reset for Envoy to add.", "false true" },
	{ "envoy_metadata", WEIR__SETTING_CHOICE, 0, 0, "false", PLACE(envoy_metadata), "true",
	  "With true, responses of the rate limit service have dynamic metadata for Envoy: the domain, the descriptors and their limits, and the metadata of limits with something left.", "false true" },
	{ "limits_max", WEIR__SETTING_COUNT, 0, 1000000, "0", PLACE(limits_max), "N",
	  "How many limits and overrides all policies since the table was made may have in total, 1672 bytes each. 0 is "
	  "twice as many as the first policy has, at least 1024. A table that outlives the server needs a fixed number.", NULL },
	{ "service", WEIR__SETTING_TEXT, 0, 0, "weir", PLACE(service), "NAME",
	  "The name of the server in metrics and traces: the label service, and service.name.", NULL },
	{ "observe", WEIR__SETTING_CHOICE, 0, 0, "on", PLACE(observe), "HOW",
	  "Whether to observe decisions for metrics, traces, the log of denials, weir top and the page. "
	  "The table's counters are reported either way.", "on off" },
	{ "top_keys", WEIR__SETTING_COUNT, 0, 1024, "64", PLACE(top_keys), "N",
	  "How many keys to count for each limit and worker, to find the top keys: a key with "
	  "more than one in this many requests is found. 0 is none. Each takes 448 bytes, those of a worker at "
	  "most 64 MiB: limits beyond that have no top keys.", NULL },
	{ "trace_to", WEIR__SETTING_TEXT, 0, 0, "", PLACE(trace_to), "URL",
	  "Where to send trace spans, by OTLP over HTTP: http://localhost:4318/v1/traces. Without it, none are sent.", NULL },
	{ "trace_one_in", WEIR__SETTING_COUNT, 0, 1000000000, "100", PLACE(trace_one_in), "N",
	  "Trace one in this many requests without a traceparent; 0 is none. Requests with one are traced if it says "
	  "so.", NULL },
	{ "log_format", WEIR__SETTING_CHOICE, 0, 0, "text", PLACE(log_format), "HOW",
	  "The format of log lines: text, or json, one object each.", "text json" },
	{ "log_denials", WEIR__SETTING_CHOICE, 0, 0, "off", PLACE(log_denials), "HOW",
	  "Whether to log each denial: off; hash, with a hash of the key; or key, with the key.",
	  "off hash key" },
	{ "log_denials_limit", WEIR__SETTING_TEXT, 0, 0, "100/s", PLACE(log_denials_limit), "LIMIT",
	  "How many denials to log at most, as a limit; the others are counted.", NULL },
	{ "auth_limit", WEIR__SETTING_TEXT, 0, 0, "1/s burst 60", PLACE(auth_limit), "LIMIT",
	  "How many wrong passwords and tokens one address may send, as a limit. Beyond it, passwords from that address are not checked.", NULL },
	{ "users", WEIR__SETTING_USERS, 0, WEIR__USERS_MAX, "", PLACE(users), NULL,
	  "Who may connect, with password, token and roles. With at least one user, all clients must authenticate. Only in the file.", NULL },
};
/* clang-format on */

static void *value_of(const struct weir__settings *settings, const struct weir__setting *setting)
{
	return (char *)(uintptr_t)settings + setting->offset;
}

static struct weir__setting_place *place_of(struct weir__settings *settings, const struct weir__setting *setting)
{
	return &settings->places[setting - weir__setting_rows];
}

/* Settings that were renamed. The earlier name still works, with a warning at the start. */
static const struct {
	const char *before, *name;
} renamed[WEIR__SETTINGS_RENAMED] = {
	{ "plans", "limits_max" },
	{ "proxies", "trusted_proxies" },
	{ "log_rejections", "log_denials" },
	{ "log_rejections_limit", "log_denials_limit" },
};

static bool is_name(const char *setting, const char *name, size_t length)
{
	return strlen(setting) == length && memcmp(setting, name, length) == 0;
}

const struct weir__setting *weir__settings_find(const char *name, size_t length)
{
	for (size_t i = 0; i < WEIR__SETTINGS_RENAMED; i++)
		if (is_name(renamed[i].before, name, length))
			return weir__settings_find(renamed[i].name, strlen(renamed[i].name));
	for (size_t i = 0; i < WEIR__SETTINGS; i++)
		if (is_name(weir__setting_rows[i].name, name, length))
			return &weir__setting_rows[i];
	return NULL;
}

/* If one place used both names, one of the two values would be lost, or a list would have the items of both. So that is
 * an error. */
void weir__settings_note_name(struct weir__settings *settings, struct weir__setting_place place, const char *name,
			      size_t length)
{
	const uint8_t from = (uint8_t)(1U << place.from);

	for (size_t i = 0; i < WEIR__SETTINGS_RENAMED; i++) {
		const bool is_before = is_name(renamed[i].before, name, length);

		if (!is_before && !is_name(renamed[i].name, name, length))
			continue;
		if ((is_before ? settings->given_by_name[i] : settings->given_by_old_name[i]) & from)
			weir__settings_error(settings, place, NULL,
					     "%s was renamed to %s, and both are set: use only the new name",
					     renamed[i].before, renamed[i].name);
		if (is_before)
			settings->given_by_old_name[i] = (uint8_t)(settings->given_by_old_name[i] | from);
		else
			settings->given_by_name[i] = (uint8_t)(settings->given_by_name[i] | from);
	}
}

void weir__settings_warn_of_old_names(const struct weir__settings *settings, FILE *out)
{
	for (size_t i = 0; i < WEIR__SETTINGS_RENAMED; i++)
		if (settings->given_by_old_name[i])
			fprintf(out, "weir serve: warning: the setting %s is now named %s\n", renamed[i].before,
				renamed[i].name);
}

struct weir__setting_place weir__settings_place(const struct weir__settings *settings, const char *name)
{
	return settings->places[weir__settings_find(name, strlen(name)) - weir__setting_rows];
}

bool weir__settings_is_list(const struct weir__setting *setting)
{
	return setting->kind == WEIR__SETTING_WHERE || setting->kind == WEIR__SETTING_PROXIES ||
	       setting->kind == WEIR__SETTING_HEADERS || setting->kind == WEIR__SETTING_HOSTS;
}

/* --- errors ----------------------------------------------------------------------------------------------------- */

static void write_upper(FILE *out, const char *name)
{
	for (; *name; name++)
		putc(toupper((unsigned char)*name), out);
}

static void write_flag(FILE *out, const char *name)
{
	fputs("--", out);
	for (; *name; name++)
		putc(*name == '_' ? '-' : *name, out);
}

/* Writes the name as the user wrote it: --keys, WEIR_KEYS, weir.yaml:3:7: keys. */
static void write_place(FILE *out, const struct weir__settings *settings, struct weir__setting_place place,
			const char *name)
{
	if (place.from == WEIR__FROM_FILE) {
		fprintf(out, "%s:%zu:%zu: ", settings->config, place.line, place.column);
		if (name)
			fprintf(out, "%s: ", name);
		return;
	}
	fputs("weir serve: ", out);
	if (name && place.from == WEIR__FROM_ENVIRONMENT) {
		fputs("WEIR_", out);
		write_upper(out, name);
		fputs(": ", out);
	} else if (name) {
		if (place.from == WEIR__FROM_FLAG)
			write_flag(out, name);
		else
			fputs(name, out);
		fputs(": ", out);
	}
}

void weir__settings_error(struct weir__settings *settings, struct weir__setting_place place, const char *name,
			  const char *words, ...)
{
	va_list arguments;

	if (settings->n_errors++ >= WEIR__SETTING_ERRORS_MAX)
		return;
	write_place(settings->errors, settings, place, name);
	va_start(arguments, words);
	vfprintf(settings->errors, words, arguments);
	va_end(arguments);
	putc('\n', settings->errors);
}

/* --- values ----------------------------------------------------------------------------------------------------- */

static void refuse(struct weir__settings *settings, const struct weir__setting *setting,
		   struct weir__setting_place place, const char *text, size_t length)
{
	char right[256], shown[64];
	size_t n = 0;

	for (; n < length && n + 4 < sizeof(shown); n++)
		shown[n] = (char)(iscntrl((unsigned char)text[n]) ? '?' : text[n]);
	memcpy(shown + n, n < length ? "..." : "", n < length ? 4 : 1);
	weir__settings_write_right(setting, right, sizeof(right));
	weir__settings_error(settings, place, setting->name, "\"%s\": %s", shown, right);
}

/* Whether it looks like a listen address. The host is resolved only when the server listens there. */
static bool is_where(const char *text, size_t length)
{
	static const char tls[] = "tls://";
	const char *const colon = memrchr(text, ':', length);
	const bool is_tls = length > sizeof(tls) - 1 && memcmp(text, tls, sizeof(tls) - 1) == 0;
	uint64_t port;

	if (length == 0 || length >= WEIR__NET_NAME_SIZE || memchr(text, '\0', length) || memchr(text, ',', length))
		return false;
	if (is_tls) {
		text += sizeof(tls) - 1;
		length -= sizeof(tls) - 1;
	}
	if (memchr(text, '/', length))
		return !is_tls && !memmem(text, length, "://", 3);
	if (colon == NULL || colon == text || colon + 1 == text + length)
		return false;
	return weir__decimal_read(colon + 1, (size_t)(text + length - (colon + 1)), 65535, &port);
}

static bool add_where(struct weir__settings *settings, const struct weir__setting *setting,
		      struct weir__setting_place place, const char *text, size_t length)
{
	struct weir__setting_list *const list = value_of(settings, setting);
	const bool is_none = !is_where(text, length);

	if (is_none && (setting->least > 0 || length != 4 || memcmp(text, "none", 4) != 0))
		return false;
	if (is_none || place_of(settings, setting)->from != place.from)
		list->n = 0;
	if (is_none)
		return true;
	if (list->n == setting->most) {
		weir__settings_error(settings, place, setting->name, "too many; use at most %d", (int)setting->most);
		return true;
	}
	memcpy(list->at[list->n], text, length);
	list->at[list->n][length] = '\0';
	list->places[list->n++] = place;
	return true;
}

/* Adds to the list of a kind that has a type of its own. */
static bool add_to(enum weir__setting_kind kind, void *list, const char *text, size_t length)
{
	switch (kind) {
	case WEIR__SETTING_PROXIES:
		return weir__proxies_add(list, text, length);
	case WEIR__SETTING_HEADERS:
		return weir__header_map_add(list, text, length);
	default:
		return weir__host_list_add(list, text, length);
	}
}

static size_t *count_of(enum weir__setting_kind kind, void *list)
{
	switch (kind) {
	case WEIR__SETTING_PROXIES:
		return &((struct weir__proxies *)list)->n;
	case WEIR__SETTING_HEADERS:
		return &((struct weir__header_map *)list)->n;
	default:
		return &((struct weir__host_list *)list)->n;
	}
}

static bool add_item(struct weir__settings *settings, const struct weir__setting *setting,
		     struct weir__setting_place place, const char *text, size_t length)
{
	void *const list = value_of(settings, setting);
	size_t *const n = count_of(setting->kind, list);
	const bool is_none = length == 4 && memcmp(text, "none", 4) == 0;

	if (is_none || place_of(settings, setting)->from != place.from) {
		*n = 0;
		if (setting->kind == WEIR__SETTING_PROXIES)
			((struct weir__proxies *)list)->has_unix = false;
	}
	if (is_none)
		return true;
	if (*n == setting->most) {
		weir__settings_error(settings, place, setting->name, "too many; use at most %d", (int)setting->most);
		return true;
	}
	return add_to(setting->kind, list, text, length);
}

/* The word at this index, and its length; NULL: the index is too large. */
static const char *choice_of(const struct weir__setting *setting, uint64_t number, size_t *ret_length)
{
	const char *word = setting->words;

	for (; number > 0; number--) {
		word += strcspn(word, " ");
		if (*word++ == '\0')
			return NULL;
	}
	*ret_length = strcspn(word, " ");
	return word;
}

static bool put_choice(const struct weir__setting *setting, uint64_t *value, const char *text, size_t length)
{
	const char *word;
	size_t n;

	for (uint64_t i = 0; (word = choice_of(setting, i, &n)) != NULL; i++)
		if (n == length && memcmp(word, text, n) == 0) {
			*value = i;
			return true;
		}
	return false;
}

static bool put_text(char *value, const char *text, size_t length)
{
	if (length == 0 || length >= WEIR__SETTING_TEXT_SIZE || memchr(text, '\0', length))
		return false;
	memcpy(value, text, length);
	value[length] = '\0';
	return true;
}

/* The error does not repeat the text, which may contain a password. */
static bool put_url(struct weir__settings *settings, const struct weir__setting *setting,
		    struct weir__setting_place place, const char *text, size_t length)
{
	struct weir_message why = { .text = "it is too long" };

	if (length >= WEIR__SETTING_TEXT_SIZE || weir__stores_check_url(text, length, &why) != WEIR_OK)
		weir__settings_error(settings, place, setting->name, "%s", why.text);
	else
		(void)put_text(value_of(settings, setting), text, length);
	return true;
}

static size_t show_url(const char *text, char ret_text[WEIR__SETTING_SHOWN])
{
	weir__stores_show_url(text, ret_text, WEIR__SETTING_SHOWN);
	return strlen(ret_text);
}

void weir__settings_put(struct weir__settings *settings, const struct weir__setting *setting,
			struct weir__setting_place place, const char *text, size_t length)
{
	void *const value = value_of(settings, setting);
	uint64_t number;
	bool is_right;

	if (setting->kind == WEIR__SETTING_WHERE) {
		is_right = add_where(settings, setting, place, text, length);
	} else if (weir__settings_is_list(setting)) {
		is_right = add_item(settings, setting, place, text, length);
	} else if (setting->kind == WEIR__SETTING_URL) {
		is_right = put_url(settings, setting, place, text, length);
	} else if (setting->kind == WEIR__SETTING_TEXT) {
		is_right = put_text(value, text, length);
	} else if (setting->kind == WEIR__SETTING_CHOICE) {
		is_right = put_choice(setting, value, text, length);
	} else {
		is_right = weir__settings_read_number(setting->kind, text, length, &number) &&
			   number >= setting->least && number <= setting->most;
		if (is_right)
			*(uint64_t *)value = number;
	}
	if (is_right)
		*place_of(settings, setting) = place;
	else
		refuse(settings, setting, place, text, length);
}

static size_t show_list(const struct weir__setting_list *list, char *ret_text, size_t size)
{
	size_t length = 0;

	for (size_t i = 0; i < list->n; i++)
		length += (size_t)snprintf(ret_text + length, size - length, "%s%s", i ? "," : "", list->at[i]);
	return length;
}

size_t weir__settings_show_users(const struct weir__users *users, char ret_text[WEIR__SETTING_SHOWN])
{
	enum { ONE_MOST = WEIR__USER_NAME_MAX + WEIR__ROLES_TEXT + 2, REST_MOST = 32 };
	size_t length = 0;

	ret_text[0] = '\0';
	for (size_t i = 0; i < users->n; i++) {
		char roles[WEIR__ROLES_TEXT];

		if (length + ONE_MOST + REST_MOST > WEIR__SETTING_SHOWN) {
			length += (size_t)snprintf(ret_text + length, WEIR__SETTING_SHOWN - length, ",... %zu more",
						   users->n - i);
			break;
		}
		(void)weir__roles_write(users->at[i].roles, "+", roles);
		length += (size_t)snprintf(ret_text + length, WEIR__SETTING_SHOWN - length, "%s%s:%s", i ? "," : "",
					   users->at[i].name, roles);
	}
	return length;
}

_Static_assert((int)WEIR__LISTENERS_MAX *(int)WEIR__NET_NAME_SIZE < (int)WEIR__SETTING_SHOWN, "a list fits");
_Static_assert((int)WEIR__PROXIES_MAX *(int)WEIR__PROXY_SHOWN < (int)WEIR__SETTING_SHOWN, "proxies fit");
_Static_assert((int)WEIR__HEADER_MAP_MAX *(int)WEIR__HEADER_SHOWN < (int)WEIR__SETTING_SHOWN, "headers fit");
_Static_assert((int)WEIR__HOSTS_MAX *(int)WEIR__HOST_SHOWN < (int)WEIR__SETTING_SHOWN, "hosts fit");

size_t weir__settings_show(const struct weir__settings *settings, const struct weir__setting *setting,
			   char ret_text[WEIR__SETTING_SHOWN])
{
	const void *const value = value_of(settings, setting);
	const char *word;
	size_t length = 0;

	ret_text[0] = '\0';
	switch (setting->kind) {
	case WEIR__SETTING_WHERE:
		return show_list(value, ret_text, WEIR__SETTING_SHOWN);
	case WEIR__SETTING_PROXIES:
		return weir__proxies_show(value, ret_text, WEIR__SETTING_SHOWN);
	case WEIR__SETTING_HEADERS:
		return weir__header_map_show(value, ret_text, WEIR__SETTING_SHOWN);
	case WEIR__SETTING_HOSTS:
		return weir__host_list_show(value, ret_text, WEIR__SETTING_SHOWN);
	case WEIR__SETTING_USERS:
		return weir__settings_show_users(value, ret_text);
	case WEIR__SETTING_URL:
		return show_url(value, ret_text);
	case WEIR__SETTING_TEXT:
		if (weir__policy_remote_is(value)) {
			weir__policy_remote_show(value, ret_text, WEIR__SETTING_SHOWN);
			return strlen(ret_text);
		}
		return (size_t)snprintf(ret_text, WEIR__SETTING_SHOWN, "%s", (const char *)value);
	case WEIR__SETTING_CHOICE:
		word = choice_of(setting, *(const uint64_t *)value, &length);
		return (size_t)snprintf(ret_text, WEIR__SETTING_SHOWN, "%.*s", (int)length, word);
	case WEIR__SETTING_MODE:
		return *(const uint64_t *)value == 0 ? 0 :
						       (size_t)snprintf(ret_text, WEIR__SETTING_SHOWN, "%04o",
									(unsigned)*(const uint64_t *)value);
	case WEIR__SETTING_DURATION:
		if (*(const uint64_t *)value % 1000000000 != 0) {
			weir__settings_write_number(setting->kind, *(const uint64_t *)value, ret_text,
						    WEIR__SETTING_SHOWN);
			return strlen(ret_text);
		}
		return (size_t)snprintf(ret_text, WEIR__SETTING_SHOWN, "%llu",
					(unsigned long long)(*(const uint64_t *)value / 1000000000));
	default:
		return (size_t)snprintf(ret_text, WEIR__SETTING_SHOWN, "%llu",
					(unsigned long long)*(const uint64_t *)value);
	}
}

/* --- flags and environment -------------------------------------------------------------------------------------- */

static void put_listed(struct weir__settings *settings, const struct weir__setting *setting,
		       struct weir__setting_place place, const char *text)
{
	for (;;) {
		const size_t length = strcspn(text, ",");

		weir__settings_put(settings, setting, place, text, length);
		if (text[length] == '\0')
			return;
		text += length + 1;
	}
}

void weir__settings_init(struct weir__settings *settings, FILE *errors)
{
	const struct weir__setting_place place = { .from = WEIR__FROM_DEFAULT };
	const long processors = sysconf(_SC_NPROCESSORS_ONLN);

	memset(settings, 0, sizeof(*settings));
	settings->errors = errors;
	for (size_t i = 0; i < WEIR__SETTINGS; i++)
		if (weir__setting_rows[i].unset[0] != '\0')
			put_listed(settings, &weir__setting_rows[i], place, weir__setting_rows[i].unset);
	settings->workers = processors < 1 ? 1 : (uint64_t)processors;
	if (settings->workers > WEIR__WORKERS_MAX)
		settings->workers = WEIR__WORKERS_MAX;
}

void weir__settings_fini(struct weir__settings *settings)
{
	weir__users_fini(&settings->users);
}

/* An empty variable counts as unset, since many programs unset variables that way. */
static const char *variable(const char *name)
{
	char whole[64];
	size_t length = (size_t)snprintf(whole, sizeof(whole), "WEIR_%s", name);
	const char *text;

	for (size_t i = 0; i < length; i++)
		whole[i] = (char)toupper((unsigned char)whole[i]);
	text = getenv(whole);
	return text && *text ? text : NULL;
}

static void read_variable(struct weir__settings *settings, const char *name)
{
	const struct weir__setting_place place = { .from = WEIR__FROM_ENVIRONMENT };
	const struct weir__setting *const setting = weir__settings_find(name, strlen(name));
	const char *const text = variable(name);

	if (text == NULL)
		return;
	weir__settings_note_name(settings, place, name, strlen(name));
	if (setting->kind == WEIR__SETTING_USERS)
		weir__settings_error(
			settings, place, setting->name,
			"set users only in the configuration file: other processes may see the environment");
	else if (weir__settings_is_list(setting))
		put_listed(settings, setting, place, text);
	else
		weir__settings_put(settings, setting, place, text, strlen(text));
}

static void read_environment(struct weir__settings *settings)
{
	for (size_t i = 0; i < WEIR__SETTINGS_RENAMED; i++)
		read_variable(settings, renamed[i].before);
	for (size_t i = 0; i < WEIR__SETTINGS; i++)
		read_variable(settings, weir__setting_rows[i].name);
}

/* Splits --name=value, or takes the next argument as the value. Returns false if the value is missing. */
static bool split_flag(int argc, char **argv, int *at, const char **ret_name, size_t *ret_length,
		       const char **ret_value)
{
	const char *const flag = argv[*at];
	const size_t length = strcspn(flag, "=");

	*ret_name = flag + 2;
	*ret_length = length - 2;
	*ret_value = flag[length] == '=' ? flag + length + 1 : NULL;
	if (*ret_value == NULL && ++*at < argc)
		*ret_value = argv[*at];
	return *ret_value != NULL;
}

static bool is_config(const char *name, size_t length)
{
	return length == 6 && memcmp(name, "config", 6) == 0;
}

enum { FLAG_SIZE = 64 };

/* Accepts --log-format and --log_format. */
static const struct weir__setting *find_flag(struct weir__settings *settings, const char *name, size_t length)
{
	const struct weir__setting_place place = { .from = WEIR__FROM_FLAG };
	char spelled[FLAG_SIZE];

	if (length >= sizeof(spelled))
		return NULL;
	for (size_t i = 0; i < length; i++)
		spelled[i] = (char)(name[i] == '-' ? '_' : name[i]);
	weir__settings_note_name(settings, place, spelled, length);
	return weir__settings_find(spelled, length);
}

static void refuse_unknown(struct weir__settings *settings, const char *name, size_t length)
{
	const struct weir__setting_place place = { .from = WEIR__FROM_FLAG };

	struct weir__nearest nearest;
	char spelled[FLAG_SIZE];
	size_t n = 0;

	for (; n < length && n + 1 < sizeof(spelled); n++)
		spelled[n] = (char)(name[n] == '-' ? '_' : name[n]);
	nearest = weir__nearest_of(spelled, n);
	weir__nearest_offer(&nearest, "config");
	for (size_t i = 0; i < WEIR__SETTINGS; i++)
		weir__nearest_offer(&nearest, weir__setting_rows[i].name);
	if (nearest.best) {
		(void)snprintf(spelled, sizeof(spelled), "%s", nearest.best);
		for (char *at = spelled; *at; at++)
			*at = (char)(*at == '_' ? '-' : *at);
	}
	weir__settings_error(settings, place, NULL, "unknown option --%.*s; %s%s%sweir serve --help lists them",
			     (int)length, name, nearest.best ? "did you mean --" : "", nearest.best ? spelled : "",
			     nearest.best ? "? " : "");
}

/* Reports that the last flag has no value. */
static void refuse_lonely(struct weir__settings *settings, const char *name, size_t length)
{
	const struct weir__setting_place place = { .from = WEIR__FROM_FLAG };
	const struct weir__setting *const setting = find_flag(settings, name, length);

	if (setting == NULL && !is_config(name, length))
		refuse_unknown(settings, name, length);
	else
		weir__settings_error(settings, place, NULL, "--%.*s needs a value: %s; see weir serve --help",
				     (int)length, name, setting && setting->value ? setting->value : "FILE");
}

static void read_flag(struct weir__settings *settings, const char *name, size_t length, const char *value)
{
	const struct weir__setting_place place = { .from = WEIR__FROM_FLAG };
	const struct weir__setting *const setting = find_flag(settings, name, length);

	if (setting == NULL)
		refuse_unknown(settings, name, length);
	else if (setting->kind == WEIR__SETTING_USERS)
		weir__settings_error(
			settings, place, setting->name,
			"set users only in the configuration file: other users of the machine can see flags");
	else
		weir__settings_put(settings, setting, place, value, strlen(value));
}

static void read_flags(struct weir__settings *settings, int argc, char **argv)
{
	const struct weir__setting_place place = { .from = WEIR__FROM_FLAG };

	for (int i = 1; i < argc; i++) {
		const char *name, *value;
		size_t length;

		if (strncmp(argv[i], "--", 2) != 0)
			weir__settings_error(settings, place, NULL,
					     "unknown argument %s; weir serve --help lists the options", argv[i]);
		else if (!split_flag(argc, argv, &i, &name, &length, &value))
			refuse_lonely(settings, name, length);
		else if (!is_config(name, length))
			read_flag(settings, name, length, value);
	}
}

/* Finds the configuration file, which is read before the other settings. */
static void find_config(struct weir__settings *settings, int argc, char **argv)
{
	struct weir__setting_place *const place = &settings->config_place;
	const char *path = variable("config"), *name, *value;
	size_t length;

	place->from = WEIR__FROM_ENVIRONMENT;
	for (int i = 1; i < argc; i++)
		if (strncmp(argv[i], "--", 2) == 0 && split_flag(argc, argv, &i, &name, &length, &value) &&
		    is_config(name, length)) {
			path = value;
			place->from = WEIR__FROM_FLAG;
		}
	if (path && !put_text(settings->config, path, strlen(path)))
		weir__settings_error(settings, *place, "config", "use a path of 1 to %d bytes",
				     WEIR__SETTING_TEXT_SIZE - 1);
}

static void check_policy(struct weir__settings *settings)
{
	const bool is_remote = weir__policy_remote_is(settings->policy);
	char shown[WEIR__SETTING_SHOWN];
	struct weir_message why;

	if (is_remote && weir__policy_remote_check(settings->policy, &why) != WEIR_OK) {
		weir__policy_remote_show(settings->policy, shown, sizeof(shown));
		weir__settings_error(settings, weir__settings_place(settings, "policy"), "policy", "\"%s\": %s", shown,
				     why.text);
	}
	if (settings->policy_copy[0] != '\0' && !is_remote)
		weir__settings_error(settings, weir__settings_place(settings, "policy_copy"), "policy_copy",
				     "only for a policy in etcd or Redis; leave it out");
}

static void check_observation(struct weir__settings *settings)
{
	struct weir_limit limit;
	struct weir_message why;

	if (settings->trace_to[0] != '\0' && weir__span_exporter_check(settings->trace_to, &why) != WEIR_OK)
		weir__settings_error(settings, weir__settings_place(settings, "trace_to"), "trace_to", "\"%s\": %s",
				     settings->trace_to, why.text);
	if (weir_limit_parse(settings->log_denials_limit, strlen(settings->log_denials_limit), &limit, &why) != WEIR_OK)
		weir__settings_error(settings, weir__settings_place(settings, "log_denials_limit"), "log_denials_limit",
				     "%s", why.text);
}

static void check_denials(struct weir__settings *settings)
{
	if (!weir__denial_type_is(settings->denial_type, strlen(settings->denial_type)))
		weir__settings_error(settings, weir__settings_place(settings, "denial_type"), "denial_type",
				     "use a media type, such as text/html; charset=utf-8 or application/json");
}

static void check_auth_limit(struct weir__settings *settings)
{
	struct weir_limit limit;
	struct weir_message why;
	int error = weir_limit_parse(settings->auth_limit, strlen(settings->auth_limit), &limit, &why);

	if (error == WEIR_OK)
		error = weir_table_check_limit(&limit, &why);
	if (error != WEIR_OK)
		weir__settings_error(settings, weir__settings_place(settings, "auth_limit"), "auth_limit", "%s",
				     why.text);
}

/* Reports each listen address with tls:// that lacks a certificate. Returns whether there is any such address. */
static bool check_tls_list(struct weir__settings *settings, const char *name, const struct weir__setting_list *list)
{
	bool any = false;

	for (size_t i = 0; i < list->n; i++) {
		bool is_tls;

		(void)weir__listeners_where(list->at[i], &is_tls);
		any |= is_tls;
		if (is_tls && settings->tls_cert[0] == '\0')
			weir__settings_error(settings, list->places[i], name,
					     "%s: TLS needs a certificate; set tls_cert, and tls_key", list->at[i]);
	}
	return any;
}

static void check_tls(struct weir__settings *settings)
{
	static const char *const needs_ca[] = { "tls_key", "tls_client_ca", "tls_client_auth" };
	bool any = check_tls_list(settings, "listen", &settings->listen);

	any |= check_tls_list(settings, "http", &settings->http);
	any |= check_tls_list(settings, "grpc", &settings->grpc);
	any |= check_tls_list(settings, "metrics_listen", &settings->metrics_listen);
	if (settings->tls_cert[0] != '\0' && !any)
		weir__settings_error(
			settings, weir__settings_place(settings, "tls_cert"), "tls_cert",
			"no address uses it; begin an address with tls://, such as listen: tls://127.0.0.1:6390");
	for (size_t i = 0; i < sizeof(needs_ca) / sizeof(needs_ca[0]) && settings->tls_cert[0] == '\0'; i++)
		if (weir__settings_place(settings, needs_ca[i]).from != WEIR__FROM_DEFAULT)
			weir__settings_error(settings, weir__settings_place(settings, needs_ca[i]), needs_ca[i],
					     "it has no effect without tls_cert; set that, too");
	if (settings->tls_client_ca[0] == '\0' && settings->tls_cert[0] != '\0' &&
	    weir__settings_place(settings, "tls_client_auth").from != WEIR__FROM_DEFAULT)
		weir__settings_error(settings, weir__settings_place(settings, "tls_client_auth"), "tls_client_auth",
				     "it has no effect without tls_client_ca; set that, too");
}

static void check_together(struct weir__settings *settings)
{
	static const char *const names[] = { "shared", "file" };

	check_policy(settings);
	check_observation(settings);
	check_auth_limit(settings);
	check_denials(settings);
	check_tls(settings);
	if (settings->policy[0] != '\0' && settings->has_policy)
		weir__settings_error(settings, weir__settings_place(settings, "policy"), "policy",
				     "%s has limits or attributes, too; use one of the two", settings->config);
	if (settings->shared[0] == '\0' || settings->file[0] == '\0')
		return;
	for (size_t i = 0; i < 2; i++)
		weir__settings_error(settings, weir__settings_place(settings, names[i]), names[i],
				     "shared and file are both set; use one of the two");
}

bool weir__settings_read(struct weir__settings *settings, int argc, char **argv)
{
	find_config(settings, argc, argv);
	if (settings->config[0] != '\0')
		weir__settings_read_file(settings);
	read_environment(settings);
	read_flags(settings, argc, argv);
	check_together(settings);
	if (settings->n_errors > WEIR__SETTING_ERRORS_MAX)
		fputs("weir serve: more errors follow; fix these first\n", settings->errors);
	if (settings->n_errors > 0) /* errors have the new names */
		weir__settings_warn_of_old_names(settings, settings->errors);
	return settings->n_errors == 0;
}
