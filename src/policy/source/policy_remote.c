/* policy_remote.c: the thread that watches a server's policy, and the state that it shares with readers. */
#include "policy/source/policy_remote.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "os/memory.h"
#include "policy/source/etcd_url.h"

enum { PAUSE_LEAST_MS = 50, PAUSE_MOST_MS = 1000, READ_MOST_S = 15 };

struct remote_source {
	struct weir__policy_source source; /* first, so that a pointer to it is one to the struct */
	struct weir__policy_remote *remote;
	FILE *errors;
	struct weir__loop loop; /* of the watching thread; a reader wakes it to request a read */
	struct weir__loop told; /* its descriptor is the source's: woken when the policy changed */
	pthread_t thread;
	bool is_watched; /* the thread runs; before that, read_far itself queries the server */

	pthread_mutex_t lock; /* guards everything below */
	pthread_cond_t has_answered;
	struct weir__policy_remote_answer latest;
	bool is_new;              /* `latest` changed and was not read yet */
	bool is_lost;             /* the server does not reply, and that was reported */
	uint64_t known;           /* hash of the latest result that was not LOST */
	uint64_t asked, answered; /* number of reads requested by read_far; of those done */
};

/* --- URLs ------------------------------------------------------------------------------------------------------- */

/* Returns the length of the scheme before "://"; 0: not a URL. */
static size_t scheme_of(const char *text)
{
	const size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789+.-");

	return n > 0 && strncmp(text + n, "://", 3) == 0 ? n : 0;
}

bool weir__policy_remote_is(const char *text)
{
	return scheme_of(text) > 0;
}

static bool is_etcd(const char *url)
{
	return strncmp(url, "etcd://", 7) == 0 || strncmp(url, "etcds://", 8) == 0;
}

static bool is_redis(const char *url)
{
	return strncmp(url, "redis", 5) == 0 || strncmp(url, "unix://", 7) == 0;
}

/* A password is between the first colon and the last @. If the URL has another form, too much is hidden rather than too
 * little. Options may contain passwords, too, so only policy_key is shown. */
void weir__policy_remote_show(const char *url, char *ret_text, size_t size)
{
	const size_t scheme = scheme_of(url);
	const char *const rest = url + scheme + (scheme ? 3 : 0);
	const char *const end = rest + strcspn(rest, "?");
	const char *const at = memrchr(rest, '@', (size_t)(end - rest));
	const char *const colon = at ? memchr(rest, ':', (size_t)(at - rest)) : NULL;
	const char *const shown = colon ? at : rest;
	const char *const key = strstr(end, "policy_key=");

	(void)snprintf(ret_text, size, "%.*s%s%.*s%s%.*s", (int)((colon ? colon : rest) - url), url,
		       colon ? ":***" : "", (int)(end - shown), shown, key ? "?" : "", key ? (int)strcspn(key, "&") : 0,
		       key ? key : "");
}

int weir__policy_remote_check(const char *url, struct weir_message *ret_message)
{
	struct weir__etcd_url etcd;

	if (is_etcd(url))
		return weir__etcd_url_read(url, &etcd, ret_message);
	if (is_redis(url))
		return weir__policy_redis_check(url, ret_message);
	if (ret_message)
		*ret_message = (struct weir_message){
			.text = "unknown source; use a path, etcd://HOST:PORT/KEY or "
				"redis://HOST:PORT/DATABASE?policy_key=KEY, with etcds:// or rediss:// for TLS"
		};
	return WEIR_ERR_SYNTAX;
}

/* --- shared state ----------------------------------------------------------------------------------------------- */

static uint64_t hash_of(const struct weir__policy_remote_answer *answer)
{
	return answer->found == WEIR__POLICY_REMOTE_FOUND ? weir__policy_hash(1, answer->text, answer->length) :
							    weir__policy_hash(2, answer->why, strlen(answer->why));
}

/* Wipes the text: a policy may contain secrets. */
static void forget(struct weir__policy_remote_answer *answer)
{
	if (answer->text)
		weir__memory_wipe(answer->text, answer->length);
	free(answer->text);
	answer->text = NULL;
}

static void tell_loss(struct remote_source *source, const struct weir__policy_remote_answer *answer)
{
	const bool is_lost = answer->found == WEIR__POLICY_REMOTE_LOST;

	if (is_lost && !source->is_lost)
		fprintf(source->errors, "weir serve: %s: %s; keeping the current policy, retrying\n",
			source->remote->name, answer->why);
	else if (!is_lost && source->is_lost)
		fprintf(source->errors, "weir serve: %s: reachable again\n", source->remote->name);
	fflush(source->errors);
}

/* Takes ownership of the result. Call it with the lock held. Returns whether it differs from the one before. */
static bool note(struct remote_source *source, struct weir__policy_remote_answer *answer)
{
	const bool is_lost = answer->found == WEIR__POLICY_REMOTE_LOST, was_lost = source->is_lost;
	const uint64_t hash = is_lost ? source->known : hash_of(answer);
	const bool is_other = !is_lost && (hash != source->known || was_lost);

	forget(&source->latest);
	source->latest = *answer;
	source->is_lost = is_lost;
	source->known = hash;
	return is_other;
}

/* --- the thread ------------------------------------------------------------------------------------------------- */

/* Whether a reader waits for a newer result than the last. */
static bool is_wanted(struct remote_source *source)
{
	bool is_wanted;

	(void)pthread_mutex_lock(&source->lock);
	is_wanted = source->asked > source->answered;
	(void)pthread_mutex_unlock(&source->lock);
	return is_wanted;
}

/* Waits until the loop is woken, for at most pause_ms. */
static void pause_for(struct remote_source *source, int pause_ms)
{
	struct weir__loop_event events[WEIR__LOOP_EVENTS];

	(void)weir__loop_wait(&source->loop, pause_ms, events);
}

static void ask_once(struct remote_source *source)
{
	struct weir__policy_remote_answer answer = { .found = WEIR__POLICY_REMOTE_LOST };
	uint64_t asked;
	bool is_other;

	(void)pthread_mutex_lock(&source->lock);
	asked = source->asked;
	(void)pthread_mutex_unlock(&source->lock);
	source->remote->ask(source->remote, &answer);
	if (atomic_load(&source->remote->is_stopping)) {
		forget(&answer);
		return;
	}
	tell_loss(source, &answer);
	(void)pthread_mutex_lock(&source->lock);
	is_other = note(source, &answer);
	source->is_new |= is_other;
	source->answered = asked;
	(void)pthread_cond_broadcast(&source->has_answered);
	(void)pthread_mutex_unlock(&source->lock);
	if (is_other)
		weir__loop_wake(&source->told);
}

/* A reader increments `asked` before it wakes the loop, so no request is missed between the check and the wait. */
static void *watch(void *source_)
{
	struct remote_source *const source = source_;
	int pause_ms = PAUSE_LEAST_MS;

	while (!atomic_load(&source->remote->is_stopping)) {
		ask_once(source);
		if (is_wanted(source) || atomic_load(&source->remote->is_stopping))
			continue;
		if (source->is_lost) { /* only this thread writes it */
			pause_for(source, pause_ms);
			pause_ms = 2 * pause_ms < PAUSE_MOST_MS ? 2 * pause_ms : PAUSE_MOST_MS;
			continue;
		}
		pause_ms = PAUSE_LEAST_MS;
		if (!source->remote->wait(source->remote))
			pause_for(source, WEIR__POLICY_REMOTE_POLL_MS);
	}
	return NULL;
}

/* --- the source ------------------------------------------------------------------------------------------------- */

/* Requests a new read and waits for it. Call it with the lock held. Returns false after READ_MOST_S. */
static bool ask_anew(struct remote_source *source)
{
	const uint64_t wanted = ++source->asked;
	struct timespec until;
	int error = 0;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += READ_MOST_S;
	weir__loop_wake(&source->loop);
	while (source->answered < wanted && error == 0)
		error = pthread_cond_timedwait(&source->has_answered, &source->lock, &until);
	return error == 0;
}

static bool refuse(struct remote_source *source, struct weir__diagnostics *diagnostics, const char *why)
{
	diagnostics->file = source->remote->name;
	weir__diagnostics_add(diagnostics, (struct weir__mark){ 1, 1 }, "%s", why);
	return false;
}

static bool copy_latest(struct remote_source *source, struct weir__diagnostics *diagnostics,
			struct weir__policy_version *ret_version)
{
	const struct weir__policy_remote_answer *const latest = &source->latest;
	struct weir__policy_version version = { NULL, 0 };
	char *text;

	if (latest->found != WEIR__POLICY_REMOTE_FOUND)
		return refuse(source, diagnostics, latest->why);
	text = malloc(latest->length + 1);
	version.parts = calloc(1, sizeof(*version.parts));
	if (text == NULL || version.parts == NULL) {
		free(text);
		free(version.parts);
		return refuse(source, diagnostics, "no memory for it");
	}
	memcpy(text, latest->text, latest->length + 1);
	version.parts[version.n++] = (struct weir__policy_part){ .text = { text, latest->length },
								 .file = strdup(source->remote->name),
								 .is_text = true };
	if (version.parts[0].file == NULL) {
		weir__policy_version_free(&version);
		return refuse(source, diagnostics, "no memory for it");
	}
	*ret_version = version;
	return true;
}

/* Returns a change that was not read yet at once. Without one, the caller wants the current state, so the server is
 * read again. */
static bool read_remote(struct weir__policy_source *source_, struct weir__diagnostics *diagnostics,
			struct weir__policy_version *ret_version)
{
	struct remote_source *const source = (void *)source_;
	struct weir__policy_remote_answer answer = { .found = WEIR__POLICY_REMOTE_LOST };
	bool is_answered = true, is_good;

	if (!source->is_watched)
		source->remote->ask(source->remote, &answer);
	(void)pthread_mutex_lock(&source->lock);
	if (!source->is_watched)
		(void)note(source, &answer);
	else if (!source->is_new)
		is_answered = ask_anew(source);
	source->is_new = false;
	is_good = is_answered ? copy_latest(source, diagnostics, ret_version) :
				refuse(source, diagnostics, "it does not respond");
	(void)pthread_mutex_unlock(&source->lock);
	return is_good;
}

static bool take(struct weir__policy_source *source_)
{
	struct remote_source *const source = (void *)source_;
	struct weir__loop_event events[WEIR__LOOP_EVENTS];

	source->told.was_woken = false;
	(void)weir__loop_wait(&source->told, 0, events);
	return source->told.was_woken;
}

/* The policy names no files. The first call starts the watching thread. If the thread cannot start, the source is
 * blind, and the caller polls it. */
static bool follow(struct weir__policy_source *source_, const char *const *files, size_t n)
{
	struct remote_source *const source = (void *)source_;

	(void)files;
	(void)n;
	if (!source->is_watched) {
		source->is_watched = pthread_create(&source->thread, NULL, watch, source) == 0;
		source_->is_blind = !source->is_watched;
	}
	return false;
}

static void free_source(struct weir__policy_source *source_)
{
	struct remote_source *const source = (void *)source_;

	atomic_store(&source->remote->is_stopping, true);
	weir__loop_wake(&source->loop);
	if (source->is_watched)
		(void)pthread_join(source->thread, NULL);
	source->remote->free(source->remote);
	forget(&source->latest);
	weir__loop_close(&source->told);
	weir__loop_close(&source->loop);
	(void)pthread_cond_destroy(&source->has_answered);
	(void)pthread_mutex_destroy(&source->lock);
	free(source);
}

/* Uses the monotonic clock, so that setting the wall clock does not prolong a wait. */
static void init_condition(pthread_cond_t *condition)
{
	pthread_condattr_t attributes;

	(void)pthread_condattr_init(&attributes);
	(void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	(void)pthread_cond_init(condition, &attributes);
	(void)pthread_condattr_destroy(&attributes);
}

static bool init_loops(struct remote_source *source)
{
	if (weir__loop_init(&source->loop) != 0)
		return false;
	if (weir__loop_init(&source->told) == 0)
		return true;
	weir__loop_close(&source->loop);
	return false;
}

struct weir__policy_source *weir__policy_source_of_url(const char *url, FILE *errors)
{
	struct remote_source *const source = calloc(1, sizeof(*source));

	if (source == NULL || !init_loops(source)) {
		free(source);
		return NULL;
	}
	source->remote = is_etcd(url) ? weir__policy_etcd_new(url) : weir__policy_redis_new(url);
	if (source->remote == NULL) {
		weir__loop_close(&source->told);
		weir__loop_close(&source->loop);
		free(source);
		return NULL;
	}
	weir__policy_remote_show(url, source->remote->name, sizeof(source->remote->name));
	source->remote->loop = &source->loop;
	source->errors = errors;
	(void)pthread_mutex_init(&source->lock, NULL);
	init_condition(&source->has_answered);
	source->source = (struct weir__policy_source){ .descriptor = source->told.epoll,
						       .name = source->remote->name,
						       .read = read_remote,
						       .take = take,
						       .follow = follow,
						       .free = free_source };
	return &source->source;
}
