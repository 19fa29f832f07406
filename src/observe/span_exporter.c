/* span_exporter.c: sends batches of spans with libcurl. */
#include "observe/span_exporter.h"

#include <weir/types.h>

#include <curl/curl.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "observe/log.h"
#include "observe/otlp.h"
#include "os/curl_socket.h"
#include "os/memory.h"
#include "os/monotonic.h"

enum {
	LOOK_MS = 25, /* how often to poll the rings, so that workers need not wake the thread */
	ANSWER_MOST = 64 * 1024,
	INSTANCE_SIZE = 37, /* a UUID */
	SERVICE_SIZE = 1024,
};

/* The outcome of sending a batch. */
enum outcome { TAKEN, COME_AGAIN, REFUSED };

struct weir__span_exporter {
	char *url;
	char service[SERVICE_SIZE], instance[INSTANCE_SIZE];
	struct weir__log *log;
	bool has_curl;
	CURL *easy;
	CURLM *multi;
	struct curl_slist *headers;
	pthread_t thread;
	pthread_mutex_t lock; /* of is_ending */
	pthread_cond_t wake;
	bool is_ending;
	uint64_t until_ms; /* with is_ending: the deadline */
	bool is_lost;      /* the last send failed, and a warning was logged */
	_Atomic uint64_t sent, dropped;
	size_t n;
	struct weir__span batch[WEIR__SPAN_EXPORTER_BATCH];
	char answer[ANSWER_MOST];
	size_t answer_length;
	char error[CURL_ERROR_SIZE];
	uint32_t workers;
	struct weir__span_ring *rings[];
};

/* --- the URL ----------------------------------------------------------------------------------------------------- */

#define RIGHT_URL "use a URL such as http://localhost:4318/v1/traces"

static bool has_part(CURLU *url, CURLUPart part)
{
	char *text = NULL;
	const bool has = curl_url_get(url, part, &text, 0) == CURLUE_OK;

	curl_free(text);
	return has;
}

static const char *fault_in(CURLU *url, const char *text)
{
	if (strncmp(text, "http://", 7) != 0 && strncmp(text, "https://", 8) != 0)
		return "unknown scheme; " RIGHT_URL;
	if (url == NULL)
		return "no memory";
	if (curl_url_set(url, CURLUPART_URL, text, 0) != CURLUE_OK)
		return "not a URL; " RIGHT_URL;
	if (has_part(url, CURLUPART_USER) || has_part(url, CURLUPART_PASSWORD))
		return "a user or password in it would be shown to others; use a URL without, such as a collector "
		       "on this machine, http://localhost:4318/v1/traces";
	return has_part(url, CURLUPART_FRAGMENT) ? "a URL with # is not supported; " RIGHT_URL : NULL;
}

int weir__span_exporter_check(const char *url, struct weir_message *ret_message)
{
	CURLU *const parts = curl_url();
	const char *const fault = fault_in(parts, url);

	curl_url_cleanup(parts);
	if (fault)
		(void)snprintf(ret_message->text, sizeof(ret_message->text), "%s", fault);
	return fault ? WEIR_ERR_LIMIT : WEIR_OK;
}

/* --- time -------------------------------------------------------------------------------------------------------- */

/* The deadline for everything; UINT64_MAX: not ending. */
static uint64_t end_ms(struct weir__span_exporter *traces)
{
	uint64_t until;

	(void)pthread_mutex_lock(&traces->lock);
	until = traces->is_ending ? traces->until_ms : UINT64_MAX;
	(void)pthread_mutex_unlock(&traces->lock);
	return until;
}

/* Sleeps for ms, or until the exporter is ending. Returns false if it is ending. */
static bool pause_for(struct weir__span_exporter *traces, uint64_t ms)
{
	const uint64_t until = weir__monotonic_ms() + ms;
	const struct timespec at = { (time_t)(until / 1000), (long)(until % 1000 * 1000000) };
	int error = 0;
	bool is_ending;

	(void)pthread_mutex_lock(&traces->lock);
	while (!traces->is_ending && error == 0)
		error = pthread_cond_timedwait(&traces->wake, &traces->lock, &at);
	is_ending = traces->is_ending;
	(void)pthread_mutex_unlock(&traces->lock);
	return !is_ending;
}

/* --- posting ----------------------------------------------------------------------------------------------------- */

/* Bytes that do not fit are ignored. */
static size_t take_answer(char *bytes, size_t one, size_t n, void *traces_)
{
	struct weir__span_exporter *const traces = traces_;
	const size_t room = ANSWER_MOST - traces->answer_length, taken = n < room ? n : room;

	memcpy(traces->answer + traces->answer_length, bytes, taken);
	traces->answer_length += taken;
	return n * one;
}

static bool init_curl(struct weir__span_exporter *traces)
{
	struct curl_slist *more;

	traces->easy = curl_easy_init();
	traces->multi = curl_multi_init();
	traces->headers = curl_slist_append(NULL, "Content-Type: application/json");
	more = traces->headers ? curl_slist_append(traces->headers, "Expect:") : NULL; /* no wait for 100 Continue */
	if (traces->easy == NULL || traces->multi == NULL || more == NULL)
		return false;
	(void)curl_easy_setopt(traces->easy, CURLOPT_URL, traces->url);
	(void)curl_easy_setopt(traces->easy, CURLOPT_PROTOCOLS_STR, "http,https");
	(void)curl_easy_setopt(traces->easy, CURLOPT_PROXY, "");
	(void)curl_easy_setopt(traces->easy, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(traces->easy, CURLOPT_USERAGENT, "weir/" WEIR_VERSION);
	(void)curl_easy_setopt(traces->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)WEIR__SPAN_EXPORTER_CONNECT_MS);
	(void)curl_easy_setopt(traces->easy, CURLOPT_TIMEOUT_MS, (long)WEIR__SPAN_EXPORTER_ANSWER_MS);
	(void)curl_easy_setopt(traces->easy, CURLOPT_OPENSOCKETFUNCTION, weir__curl_socket_open);
	(void)curl_easy_setopt(traces->easy, CURLOPT_HTTPHEADER, traces->headers);
	(void)curl_easy_setopt(traces->easy, CURLOPT_WRITEFUNCTION, take_answer);
	(void)curl_easy_setopt(traces->easy, CURLOPT_WRITEDATA, traces);
	(void)curl_easy_setopt(traces->easy, CURLOPT_ERRORBUFFER, traces->error);
	return true;
}

/* Returns false if the deadline came first. */
static bool transfer(struct weir__span_exporter *traces, CURLcode *ret_code)
{
	int running = 1, n;

	*ret_code = CURLE_FAILED_INIT;
	if (curl_multi_add_handle(traces->multi, traces->easy) != CURLM_OK)
		return true;
	while (curl_multi_perform(traces->multi, &running) == CURLM_OK && running &&
	       weir__monotonic_ms() < end_ms(traces))
		(void)curl_multi_poll(traces->multi, NULL, 0, LOOK_MS, NULL);
	for (const CURLMsg *message; (message = curl_multi_info_read(traces->multi, &n)) != NULL;)
		*ret_code = message->data.result;
	(void)curl_multi_remove_handle(traces->multi, traces->easy);
	return !running;
}

/* OTLP defines which statuses to retry. */
static enum outcome outcome_of(long status)
{
	if (status >= 200 && status < 300)
		return TAKEN;
	return status == 429 || status == 502 || status == 503 || status == 504 ? COME_AGAIN : REFUSED;
}

static void tell(struct weir__span_exporter *traces, enum outcome outcome, const char *why)
{
	if (outcome != TAKEN && !traces->is_lost)
		weir__log_say(traces->log, WEIR__LOG_WARNING, "%s: %s; dropping spans that it does not accept",
			      traces->url, why);
	else if (outcome == TAKEN && traces->is_lost)
		weir__log_say(traces->log, WEIR__LOG_INFO, "%s: accepts spans again", traces->url);
	traces->is_lost = outcome != TAKEN;
}

/* *ret_pause_ms is the collector's Retry-After, or 0. */
static enum outcome post(struct weir__span_exporter *traces, const char *body, uint64_t *ret_pause_ms,
			 struct weir_message *why)
{
	curl_off_t seconds = 0;
	CURLcode code;
	long status = 0;

	traces->answer_length = 0;
	traces->error[0] = '\0';
	*ret_pause_ms = 0;
	(void)curl_easy_setopt(traces->easy, CURLOPT_POSTFIELDS, body);
	if (!transfer(traces, &code) || code != CURLE_OK) {
		(void)snprintf(why->text, sizeof(why->text), "%.200s",
			       traces->error[0] ? traces->error : curl_easy_strerror(code));
		return COME_AGAIN;
	}
	(void)curl_easy_getinfo(traces->easy, CURLINFO_RESPONSE_CODE, &status);
	(void)curl_easy_getinfo(traces->easy, CURLINFO_RETRY_AFTER, &seconds);
	if (seconds > 0)
		*ret_pause_ms = seconds < WEIR__SPAN_EXPORTER_PAUSE_MOST_MS / 1000 ? (uint64_t)seconds * 1000 :
										     WEIR__SPAN_EXPORTER_PAUSE_MOST_MS;
	(void)snprintf(why->text, sizeof(why->text), "status %ld", status);
	return outcome_of(status);
}

/* With jitter, so that servers do not retry at the same time. */
static uint64_t pause_before(unsigned try, uint64_t asked_ms, unsigned char random)
{
	const uint64_t usual = (uint64_t)WEIR__SPAN_EXPORTER_PAUSE_MS << try;

	return asked_ms ? asked_ms : usual * (192 + random % 128) / 256;
}

static enum outcome post_until_taken(struct weir__span_exporter *traces, const char *body)
{
	enum outcome outcome = COME_AGAIN;

	for (unsigned try = 0;
	     outcome == COME_AGAIN && try < WEIR__SPAN_EXPORTER_TRIES && weir__monotonic_ms() < end_ms(traces); try++) {
		struct weir_message why;
		unsigned char random = 0;
		uint64_t asked_ms;

		outcome = post(traces, body, &asked_ms, &why);
		tell(traces, outcome, why.text);
		(void)weir__memory_random(&random, 1);
		if (outcome == COME_AGAIN && try + 1 < WEIR__SPAN_EXPORTER_TRIES &&
		    !pause_for(traces, pause_before(try, asked_ms, random)))
			break;
	}
	return outcome;
}

static void send_batch(struct weir__span_exporter *traces)
{
	const struct weir__otlp_resource resource = { traces->service, WEIR_VERSION, traces->instance };
	char *const body = weir__otlp_write(&resource, traces->batch, traces->n);
	uint64_t rejected = traces->n;

	if (body && post_until_taken(traces, body) == TAKEN)
		rejected = weir__otlp_rejected(traces->answer, traces->answer_length);
	if (rejected > traces->n)
		rejected = traces->n;
	atomic_fetch_add_explicit(&traces->sent, traces->n - rejected, memory_order_relaxed);
	atomic_fetch_add_explicit(&traces->dropped, rejected, memory_order_relaxed);
	traces->n = 0;
	free(body);
}

/* --- the thread -------------------------------------------------------------------------------------------------- */

static void gather(struct weir__span_exporter *traces)
{
	for (uint32_t i = 0; i < traces->workers; i++)
		traces->n += weir__span_ring_take(traces->rings[i], traces->batch + traces->n,
						  WEIR__SPAN_EXPORTER_BATCH - traces->n);
}

static void *keep(void *traces_)
{
	struct weir__span_exporter *const traces = traces_;
	uint64_t since = weir__monotonic_ms();

	do {
		gather(traces);
		if (traces->n == 0)
			since = weir__monotonic_ms();
		if (traces->n == WEIR__SPAN_EXPORTER_BATCH ||
		    weir__monotonic_ms() - since >= WEIR__SPAN_EXPORTER_EVERY_MS) {
			if (traces->n > 0)
				send_batch(traces);
			since = weir__monotonic_ms();
		}
	} while (pause_for(traces, traces->n == WEIR__SPAN_EXPORTER_BATCH ? 0 : LOOK_MS));
	for (gather(traces); traces->n > 0; gather(traces)) /* past the deadline, send_batch drops them */
		send_batch(traces);
	return NULL;
}

/* A UUID of version 4, random. */
static void make_instance(char ret_text[INSTANCE_SIZE])
{
	unsigned char bytes[16] = { 0 };
	char hex[2 * sizeof(bytes) + 1];

	(void)weir__memory_random(bytes, sizeof(bytes));
	bytes[6] = (unsigned char)((bytes[6] & 0x0f) | 0x40);
	bytes[8] = (unsigned char)((bytes[8] & 0x3f) | 0x80);
	weir__trace_write_hex(bytes, sizeof(bytes), hex);
	(void)snprintf(ret_text, INSTANCE_SIZE, "%.8s-%.4s-%.4s-%.4s-%s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

static void free_parts(struct weir__span_exporter *traces)
{
	for (uint32_t i = 0; i < traces->workers; i++)
		free(traces->rings[i]);
	(void)pthread_cond_destroy(&traces->wake);
	(void)pthread_mutex_destroy(&traces->lock);
	curl_multi_cleanup(traces->multi);
	curl_easy_cleanup(traces->easy);
	curl_slist_free_all(traces->headers);
	if (traces->has_curl)
		curl_global_cleanup();
	free(traces->url);
	free(traces);
}

static void init_wake(struct weir__span_exporter *traces)
{
	pthread_condattr_t attributes;

	(void)pthread_condattr_init(&attributes);
	(void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&traces->wake, &attributes);
	(void)pthread_condattr_destroy(&attributes);
}

struct weir__span_exporter *weir__span_exporter_new(const char *url, const char *service, uint32_t workers,
						    struct weir__log *log)
{
	struct weir__span_exporter *const traces = calloc(1, sizeof(*traces) + workers * sizeof(traces->rings[0]));
	bool is_whole = true;

	if (traces == NULL)
		return NULL;
	traces->url = strdup(url);
	traces->log = log;
	(void)weir__log_escape(service, strlen(service), traces->service, sizeof(traces->service));
	make_instance(traces->instance);
	(void)pthread_mutex_init(&traces->lock, NULL);
	init_wake(traces);
	for (; traces->workers < workers && is_whole; traces->workers++) {
		traces->rings[traces->workers] = weir__span_ring_new();
		is_whole = traces->rings[traces->workers] != NULL;
	}
	traces->has_curl = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
	if (is_whole && traces->url && traces->has_curl && init_curl(traces) &&
	    pthread_create(&traces->thread, NULL, keep, traces) == 0)
		return traces;
	free_parts(traces);
	return NULL;
}

void weir__span_exporter_free(struct weir__span_exporter *traces)
{
	if (traces == NULL)
		return;
	(void)pthread_mutex_lock(&traces->lock);
	traces->is_ending = true;
	traces->until_ms = weir__monotonic_ms() + WEIR__SPAN_EXPORTER_LAST_MS;
	(void)pthread_mutex_unlock(&traces->lock);
	(void)pthread_cond_signal(&traces->wake);
	(void)pthread_join(traces->thread, NULL);
	free_parts(traces);
}

struct weir__span_ring *weir__span_exporter_ring(struct weir__span_exporter *traces, uint32_t worker)
{
	return traces->rings[worker];
}

void weir__span_exporter_info(const struct weir__span_exporter *traces, struct weir__span_exporter_info *ret_info)
{
	*ret_info = (struct weir__span_exporter_info){ .sent = 0 };
	if (traces == NULL)
		return;
	ret_info->sent = atomic_load_explicit(&traces->sent, memory_order_relaxed);
	ret_info->dropped = atomic_load_explicit(&traces->dropped, memory_order_relaxed);
	for (uint32_t i = 0; i < traces->workers; i++)
		ret_info->dropped += atomic_load_explicit(&traces->rings[i]->dropped, memory_order_relaxed);
}
