/* policy_etcd.c: a policy in etcd, read with libcurl through the JSON gateway of etcd 3.4 and later.
 *
 * A range request returns the value and the store's revision. A watch from the next revision on reports every later
 * change. An event of the watch is only a hint to read the value again, so the value arrives in one way only. */
#include <weir/clock.h>

#include <curl/curl.h>
#include <jansson.h>
#include <openssl/evp.h>

#include <errno.h>
#include <stdlib.h>

#include "os/curl_socket.h"
#include "os/text_file.h"
#include "policy/source/etcd_url.h"
#include "policy/source/policy_remote.h"

enum {
	BODY_MOST = WEIR__POLICY_REMOTE_MOST / 3 * 4 + 65536, /* the value in base64, and the JSON around it */
	LINE_MOST = 4096,                                     /* of the first line of a watch */
	KEY_CODED = WEIR__ETCD_WORD_SIZE / 3 * 4 + 8,
	REQUEST_SIZE = KEY_CODED + 128,
	AT_SIZE = WEIR__ETCD_PLACE_SIZE + 64,
	STATUS_GOOD = 200,
	STATUS_NO_TOKEN = 401,
};

struct body {
	char *bytes; /* followed by a NUL */
	size_t length;
	bool is_too_long;
};

struct etcd {
	struct weir__policy_remote remote; /* first, so that a pointer to it is one to the struct */
	struct weir__etcd_url url;
	uint32_t place; /* index of the member that replied last */
	char key[KEY_CODED];
	CURL *easy;
	struct curl_slist *token; /* the Authorization header; NULL: no token yet */
	char error[CURL_ERROR_SIZE];
	uint64_t revision; /* of the store when the value was read; 0: not read */

	CURLM *multi; /* for the watch */
	CURL *watch;  /* NULL: no watch */
	char request[REQUEST_SIZE];
	char line[LINE_MOST]; /* its first line: that it was created, or why not */
	size_t line_length;
	bool is_created, is_broken, is_told;
};

/* --- requests --------------------------------------------------------------------------------------------------- */

static size_t add_bytes(char *bytes, size_t one, size_t n, void *body_)
{
	struct body *const body = body_;
	char *longer;

	body->is_too_long = n > BODY_MOST - body->length;
	longer = body->is_too_long ? NULL : realloc(body->bytes, body->length + n + 1);
	if (longer == NULL)
		return 0;
	memcpy(longer + body->length, bytes, n);
	body->bytes = longer;
	body->length += n;
	longer[body->length] = '\0';
	return n * one;
}

static int is_over(void *etcd_, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	const struct etcd *const etcd = etcd_;

	(void)a;
	(void)b;
	(void)c;
	(void)d;
	return atomic_load(&etcd->remote.is_stopping);
}

/* Sets the options that all requests have in common. */
static void set_options(struct etcd *etcd, CURL *easy, const char *path, const char *request)
{
	const struct weir__etcd_url *const url = &etcd->url;
	char at[AT_SIZE];

	(void)snprintf(at, sizeof(at), "%s://%s%s", url->is_tls ? "https" : "http", url->places[etcd->place], path);
	(void)curl_easy_setopt(easy, CURLOPT_URL, at);
	(void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	(void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
	(void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)WEIR__POLICY_REMOTE_CONNECT_MS);
	(void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, weir__curl_socket_open);
	(void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request);
	(void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, etcd->token);
	(void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, etcd->error);
	if (!url->is_tls)
		return;
	(void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, url->verifies ? 1L : 0L);
	(void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, url->verifies ? 2L : 0L);
	if (url->ca[0] != '\0')
		(void)curl_easy_setopt(easy, CURLOPT_CAINFO, url->ca);
	if (url->certificate[0] != '\0') {
		(void)curl_easy_setopt(easy, CURLOPT_SSLCERT, url->certificate);
		(void)curl_easy_setopt(easy, CURLOPT_SSLKEY, url->private_key);
	}
}

static void say(struct weir__policy_remote_answer *answer, enum weir__policy_remote_found found, const char *why)
{
	answer->found = found;
	(void)snprintf(answer->why, sizeof(answer->why), "%s", why);
}

/* Whether a response is about the request. Other responses, such as from a server that shuts down, are about the
 * server: another member of the cluster, or the same one later, responds differently. */
static bool is_final(long status)
{
	return status == STATUS_GOOD || (status >= 400 && status <= 404) || status == 412;
}

/* Copies etcd's error message for a failed request. */
static void say_refusal(struct weir__policy_remote_answer *answer, long status, const json_t *json)
{
	const char *const words = json_string_value(json_object_get(json, "message"));

	answer->found = is_final(status) ? WEIR__POLICY_REMOTE_INVALID : WEIR__POLICY_REMOTE_LOST;
	(void)snprintf(answer->why, sizeof(answer->why), "it responded with status %ld: %.300s", status,
		       words ? words : "no reason given");
}

/* libcurl opens files by itself, and would wait for the writer of a FIFO. */
static bool check_files(const struct weir__etcd_url *url, struct weir__policy_remote_answer *answer)
{
	const char *const files[] = { url->ca, url->certificate, url->private_key };

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (files[i][0] != '\0' && weir__text_file_check(files[i]) == ENXIO) {
			char why[sizeof(answer->why)];

			(void)snprintf(why, sizeof(why), "%.300s: %s", files[i], weir__text_file_error(ENXIO));
			say(answer, WEIR__POLICY_REMOTE_LOST, why);
			return false;
		}
	return true;
}

/* Returns the response as JSON. NULL: it failed, and `answer` has the reason. */
static json_t *post(struct etcd *etcd, const char *path, const char *request, long *ret_status,
		    struct weir__policy_remote_answer *answer)
{
	struct body body = { NULL, 0, false };
	json_t *json = NULL;
	CURLcode code;

	if (!check_files(&etcd->url, answer))
		return NULL;
	set_options(etcd, etcd->easy, path, request);
	(void)curl_easy_setopt(etcd->easy, CURLOPT_TIMEOUT_MS, (long)WEIR__POLICY_REMOTE_ANSWER_MS);
	(void)curl_easy_setopt(etcd->easy, CURLOPT_WRITEFUNCTION, add_bytes);
	(void)curl_easy_setopt(etcd->easy, CURLOPT_WRITEDATA, &body);
	(void)curl_easy_setopt(etcd->easy, CURLOPT_NOPROGRESS, 0L);
	(void)curl_easy_setopt(etcd->easy, CURLOPT_XFERINFOFUNCTION, is_over);
	(void)curl_easy_setopt(etcd->easy, CURLOPT_XFERINFODATA, etcd);
	etcd->error[0] = '\0';
	code = curl_easy_perform(etcd->easy);
	(void)curl_easy_getinfo(etcd->easy, CURLINFO_RESPONSE_CODE, ret_status);
	if (body.is_too_long)
		say(answer, WEIR__POLICY_REMOTE_INVALID, "the policy is too long; a policy in etcd has at most 16 MiB");
	else if (code != CURLE_OK)
		say(answer, WEIR__POLICY_REMOTE_LOST, etcd->error[0] ? etcd->error : curl_easy_strerror(code));
	else if ((json = json_loadb(body.bytes ? body.bytes : "", body.length, 0, NULL)) == NULL)
		say(answer, is_final(*ret_status) ? WEIR__POLICY_REMOTE_INVALID : WEIR__POLICY_REMOTE_LOST,
		    "the response is not from etcd's JSON gateway; check the port");
	free(body.bytes);
	return json;
}

/* Logs in and stores the token, which is valid for a while. */
static bool authenticate(struct etcd *etcd, struct weir__policy_remote_answer *answer)
{
	json_t *const who = json_pack("{ss,ss}", "name", etcd->url.user, "password", etcd->url.password);
	char *const request = who ? json_dumps(who, JSON_COMPACT) : NULL;
	struct curl_slist *header = NULL;
	const char *token;
	json_t *json = NULL;
	long status = 0;

	json_decref(who);
	curl_slist_free_all(etcd->token);
	etcd->token = NULL;
	if (request)
		json = post(etcd, "/v3/auth/authenticate", request, &status, answer);
	else
		say(answer, WEIR__POLICY_REMOTE_INVALID, "user or password of the URL is not UTF-8, or out of memory");
	token = json_string_value(json_object_get(json, "token"));
	if (token) {
		char line[1024];

		if (snprintf(line, sizeof(line), "Authorization: %s", token) < (int)sizeof(line))
			header = curl_slist_append(NULL, line);
		say(answer, WEIR__POLICY_REMOTE_LOST, "no memory for its token");
	} else if (json) {
		say_refusal(answer, status, json);
	}
	json_decref(json);
	free(request);
	etcd->token = header;
	return header != NULL;
}

/* --- the value -------------------------------------------------------------------------------------------------- */

/* Decodes base64. Returns false if the text is not base64, or memory runs out. */
static bool decode(const char *coded, size_t length, char **ret_text, size_t *ret_length)
{
	char *const text = malloc(length / 4 * 3 + 4);
	const int n = text && length % 4 == 0 ?
			      EVP_DecodeBlock((unsigned char *)text, (const unsigned char *)coded, (int)length) :
			      -1;
	size_t padding = 0;

	if (n < 0) {
		free(text);
		return false;
	}
	while (padding < 2 && padding < length && coded[length - 1 - padding] == '=')
		padding++;
	*ret_length = (size_t)n - padding;
	*ret_text = text;
	text[*ret_length] = '\0';
	return true;
}

static void read_value(struct etcd *etcd, const json_t *json, struct weir__policy_remote_answer *answer)
{
	const char *const revision = json_string_value(json_object_get(json_object_get(json, "header"), "revision"));
	const json_t *const found = json_array_get(json_object_get(json, "kvs"), 0);
	const json_t *const value = json_object_get(found, "value");

	etcd->revision = revision ? strtoull(revision, NULL, 10) : 0;
	if (etcd->revision == 0)
		say(answer, WEIR__POLICY_REMOTE_INVALID, "the response is not from etcd: it has no revision");
	else if (found == NULL)
		say(answer, WEIR__POLICY_REMOTE_INVALID, "key not found");
	else if (!decode(value ? json_string_value(value) : "", value ? json_string_length(value) : 0, &answer->text,
			 &answer->length))
		say(answer, WEIR__POLICY_REMOTE_INVALID, "the value is not base64, or out of memory");
	else if (answer->length > WEIR__POLICY_REMOTE_MOST)
		say(answer, WEIR__POLICY_REMOTE_INVALID, "the policy is too long; a policy in etcd has at most 16 MiB");
	else
		answer->found = WEIR__POLICY_REMOTE_FOUND;
}

/* Reads the value from the member at etcd->place. If the token has expired, logs in again once. */
static void ask_place(struct etcd *etcd, struct weir__policy_remote_answer *answer)
{
	char request[REQUEST_SIZE];

	(void)snprintf(request, sizeof(request), "{\"key\":\"%s\"}", etcd->key);
	for (int tries = 0; tries < 2; tries++) {
		const bool has_user = etcd->url.user[0] != '\0';
		long status = 0;
		json_t *json;

		if (has_user && etcd->token == NULL && !authenticate(etcd, answer))
			return;
		json = post(etcd, "/v3/kv/range", request, &status, answer);
		if (json == NULL)
			return;
		if (status == STATUS_GOOD)
			read_value(etcd, json, answer);
		else
			say_refusal(answer, status, json);
		json_decref(json);
		if (status != STATUS_NO_TOKEN || !has_user)
			return;
		curl_slist_free_all(etcd->token);
		etcd->token = NULL;
	}
}

/* --- the watch -------------------------------------------------------------------------------------------------- */

static void end_watch(struct etcd *etcd)
{
	if (etcd->watch == NULL)
		return;
	(void)curl_multi_remove_handle(etcd->multi, etcd->watch);
	curl_easy_cleanup(etcd->watch);
	etcd->watch = NULL;
}

static bool says_created(const char *line)
{
	json_t *const json = json_loads(line, 0, NULL);
	const json_t *const result = json_object_get(json, "result");
	const bool is_created = json_is_true(json_object_get(result, "created")) &&
				!json_is_true(json_object_get(result, "canceled"));

	json_decref(json);
	return is_created;
}

/* Each event is a line. The first says that the watch was created. Any later one says that something changed. */
static size_t take_lines(char *bytes, size_t one, size_t n, void *etcd_)
{
	struct etcd *const etcd = etcd_;
	const char *const end = memchr(bytes, '\n', n);
	const size_t of_line = end ? (size_t)(end - bytes) : n;

	if (etcd->is_created) {
		etcd->is_told = true;
		return n * one;
	}
	if (of_line >= sizeof(etcd->line) - etcd->line_length) {
		etcd->is_broken = true;
		return 0;
	}
	memcpy(etcd->line + etcd->line_length, bytes, of_line);
	etcd->line_length += of_line;
	etcd->line[etcd->line_length] = '\0';
	if (end == NULL)
		return n * one;
	etcd->is_created = says_created(etcd->line);
	etcd->is_broken = !etcd->is_created;
	etcd->is_told = of_line + 1 < n;
	return etcd->is_broken ? 0 : n * one;
}

static bool begin_watch(struct etcd *etcd)
{
	etcd->watch = etcd->revision > 0 ? curl_easy_init() : NULL;
	if (etcd->watch == NULL)
		return false;
	etcd->is_created = etcd->is_broken = etcd->is_told = false;
	etcd->line_length = 0;
	(void)snprintf(etcd->request, sizeof(etcd->request),
		       "{\"create_request\":{\"key\":\"%s\",\"start_revision\":\"%llu\"}}", etcd->key,
		       (unsigned long long)etcd->revision + 1);
	set_options(etcd, etcd->watch, "/v3/watch", etcd->request);
	(void)curl_easy_setopt(etcd->watch, CURLOPT_WRITEFUNCTION, take_lines);
	(void)curl_easy_setopt(etcd->watch, CURLOPT_WRITEDATA, etcd);
	if (curl_multi_add_handle(etcd->multi, etcd->watch) == CURLM_OK)
		return true;
	curl_easy_cleanup(etcd->watch);
	etcd->watch = NULL;
	return false;
}

/* --- struct weir__policy_remote --------------------------------------------------------------------------------- */

/* Tries the members of the cluster in turn, beginning with the one that replied last. */
static void ask(struct weir__policy_remote *remote, struct weir__policy_remote_answer *ret_answer)
{
	struct etcd *const etcd = (void *)remote;

	for (uint32_t i = 0; i < etcd->url.n_places; i++) {
		*ret_answer = (struct weir__policy_remote_answer){ .found = WEIR__POLICY_REMOTE_LOST };
		ask_place(etcd, ret_answer);
		if (ret_answer->found != WEIR__POLICY_REMOTE_LOST || atomic_load(&remote->is_stopping))
			return;
		end_watch(etcd);
		curl_slist_free_all(etcd->token);
		etcd->token = NULL;
		etcd->place = (etcd->place + 1) % etcd->url.n_places;
	}
}

static weir_ns now_ms(void)
{
	return weir_clock_now() / 1000000;
}

static bool wait_for_change(struct weir__policy_remote *remote)
{
	struct etcd *const etcd = (void *)remote;
	const weir_ns begun = now_ms();
	struct weir__loop_event events[WEIR__LOOP_EVENTS];

	if (etcd->watch == NULL && !begin_watch(etcd))
		return false;
	for (;;) {
		struct curl_waitfd wake = { .fd = remote->loop->epoll, .events = CURL_WAIT_POLLIN };
		const weir_ns waited = now_ms() - begun;
		int running = 0;

		(void)curl_multi_perform(etcd->multi, &running);
		if (etcd->is_told) {
			etcd->is_told = false;
			return true;
		}
		if (running == 0 || etcd->is_broken) {
			end_watch(etcd);
			return false;
		}
		if (waited >= WEIR__POLICY_REMOTE_CHECK_MS)
			return true;
		(void)curl_multi_poll(etcd->multi, &wake, 1, WEIR__POLICY_REMOTE_CHECK_MS - (int)waited, NULL);
		if (wake.revents != 0) {
			(void)weir__loop_wait(remote->loop, 0, events);
			return true;
		}
	}
}

static void free_etcd(struct weir__policy_remote *remote)
{
	struct etcd *const etcd = (void *)remote;

	end_watch(etcd);
	if (etcd->multi)
		(void)curl_multi_cleanup(etcd->multi);
	curl_easy_cleanup(etcd->easy);
	curl_slist_free_all(etcd->token);
	OPENSSL_cleanse(etcd->url.password, sizeof(etcd->url.password));
	free(etcd);
	curl_global_cleanup();
}

struct weir__policy_remote *weir__policy_etcd_new(const char *url)
{
	struct etcd *const etcd = calloc(1, sizeof(*etcd));

	if (etcd == NULL || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		free(etcd);
		return NULL;
	}
	if (weir__etcd_url_read(url, &etcd->url, NULL) == WEIR_OK) {
		etcd->easy = curl_easy_init();
		etcd->multi = curl_multi_init();
	}
	etcd->remote.ask = ask;
	etcd->remote.wait = wait_for_change;
	etcd->remote.free = free_etcd;
	if (etcd->easy == NULL || etcd->multi == NULL) {
		free_etcd(&etcd->remote);
		return NULL;
	}
	(void)EVP_EncodeBlock((unsigned char *)etcd->key, (const unsigned char *)etcd->url.key,
			      (int)strlen(etcd->url.key));
	return &etcd->remote;
}
