/* shared_changes.c: stores changes of limits in Redis, and applies changes of other servers. */
#include "server/shared_changes.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/wide.h"
#include "engine/request_audit.h"
#include "guard/guard.h"
#include "os/memory.h"
#include "os/monotonic.h"
#include "store/redis/redis_changes.h"
#include "store/redis/redis_driver.h"
#include "store/redis/redis_query.h"
#include "store/redis/redis_random.h"
#include "store/redis/redis_refusal.h"

enum {
	WORDS_MAX = 10,
	ERROR_SHOWN = 128, /* bytes of Redis's error message that are shown */
	KEY_SIZE = WEIR__REDIS_WORD_SIZE + 16,
	FIELD_SIZE = WEIR__REDIS_IDENTITY_LENGTH + WEIR__REDIS_CHANGE_NAME,
};

static const weir_ns ms = 1000000;
static const weir_ns beat_every = UINT64_C(800000000);     /* with its jitter at most 1 s */
static const weir_ns beat_budget = UINT64_C(1000000000);   /* for a reply */
static const weir_ns change_budget = UINT64_C(2000000000); /* for a reply that a client waits for */
static const weir_ns leave_budget = UINT64_C(300000000);   /* for the last reply */

_Static_assert((int)WEIR__REDIS_CHANGE_NAME == WEIR_TABLE_NAME_MAX + 1, "any name of a limit fits");
_Static_assert((int)WEIR__REDIS_CHANGE_USER == (int)WEIR__AUDIT_USER && (int)WEIR__CHANGE_USER == (int)WEIR__AUDIT_USER,
	       "any user fits");
_Static_assert((int)WEIR__REDIS_CHANGE_PEER == (int)WEIR__AUDIT_PEER && (int)WEIR__CHANGE_PEER == (int)WEIR__AUDIT_PEER,
	       "any address fits");

struct weir__shared_changes {
	struct weir__redis_url url;
	struct weir_guard *guard;
	struct weir_table *table;
	struct weir__log *log;
	struct weir__loop loop;
	struct weir__redis_client *client;
	struct weir__redis_driver *driver;
	pthread_t thread;

	pthread_mutex_t lock; /* of the next two */
	struct weir__task *first;
	uint32_t n_waiting;

	/* Used by the thread only, up to the atomic: */
	uint32_t damaged;   /* changes that could not be read, as last reported */
	uint64_t unapplied; /* version of the latest change that could not be applied, and was reported */
	uint64_t seed;
	weir_ns beat_at;
	uint64_t identity;       /* of the policy */
	uint64_t version;        /* of the changes that were last read */
	uint64_t policies;       /* weir_guard_changes then */
	char error[ERROR_SHOWN]; /* of Redis, as last reported */
	bool is_settled;         /* the driver has nothing to do until an event */
	bool has_joined;         /* Redis knows that this server runs the policy `identity` */
	bool has_read;           /* changes of this policy were read */

	_Atomic bool is_stopping;
	bool is_running;
	char id[WEIR__REDIS_IDENTITY_LENGTH + 1]; /* of this server, random */
	char key_of_servers[KEY_SIZE], key_of_changes[KEY_SIZE];
};

/* --- queries ----------------------------------------------------------------------------------------------------- */

/* The content of a reply. */
struct reply {
	struct weir__shared_changes *changes;
	bool is_good;
	bool leaves;           /* the error says that another server is the primary */
	char why[ERROR_SHOWN]; /* an error of Redis */
	uint64_t version, at_ms;
	/* Names and versions of the changes that were read, to find changes that Redis has lost. */
	struct known {
		char name[WEIR__REDIS_CHANGE_NAME];
		uint64_t version;
	} * known;
	uint32_t n_known;
};

typedef void take_reply(struct weir__redis_query *query, const struct weir__resp_token *tokens, uint32_t n);

/* Waits for sockets, or until the loop is woken, but not beyond `until`, then handles events and timers. */
static void turn(struct weir__shared_changes *changes, weir_ns until)
{
	struct weir__loop_event events[WEIR__LOOP_EVENTS];
	weir_ns now = weir__monotonic_ns(), wait_ms = 0;
	int n;

	until = weir__min(until, weir__redis_client_next(changes->client));
	if (changes->is_settled && until > now)
		wait_ms = weir__min((until - now - 1) / ms + 1, beat_every / ms);
	n = weir__loop_wait(&changes->loop, (int)wait_ms, events);
	now = weir__monotonic_ns();
	for (int i = 0; i < n; i++)
		weir__redis_driver_event(changes->driver, &events[i], now);
	weir__redis_client_tick(changes->client, now);
	changes->is_settled = weir__redis_driver_settle(changes->driver, now);
}

struct script {
	const char *text;
	const char *words[WORDS_MAX]; /* number of keys, keys, arguments; the rest is NULL */
	take_reply *take;
	weir_ns budget;
	bool is_once; /* see struct weir__redis_query */
	bool is_last; /* also while the thread is stopping */
};

static struct weir__resp_slice slice_of(const char *text)
{
	return (struct weir__resp_slice){ text, strlen(text) };
}

/* Runs a script and waits for its reply. Returns whether it is good; if not, reply->why says why. ret_was_sent may be
 * NULL. */
static bool run_script(struct weir__shared_changes *changes, const struct script *script, struct reply *reply,
		       bool *ret_was_sent)
{
	struct weir__resp_slice words[WORDS_MAX + 2] = { slice_of("EVAL"), slice_of(script->text) };
	struct weir__redis_query query = { .words = words,
					   .n = 2,
					   .deadline = weir__monotonic_ns() + script->budget,
					   .is_once = script->is_once,
					   .take = script->take,
					   .context = reply };
	struct weir__redis_client_info info;

	for (size_t i = 0; i < WORDS_MAX && script->words[i]; i++)
		words[query.n++] = slice_of(script->words[i]);
	reply->changes = changes;
	weir__redis_query_send(changes->client, &query, weir__monotonic_ns());
	changes->is_settled = false;
	while (!weir__redis_query_is_done(&query) && (script->is_last || !atomic_load(&changes->is_stopping)))
		turn(changes, WEIR_NEVER);
	if (!weir__redis_query_is_done(&query)) {
		weir__redis_query_give_up(changes->client, weir__monotonic_ns());
		(void)snprintf(reply->why, sizeof(reply->why), "the server is shutting down");
	} else if (query.state == WEIR__REDIS_QUERY_IS_TOO_LARGE) {
		(void)snprintf(reply->why, sizeof(reply->why), "the reply is too large");
	} else if (query.state == WEIR__REDIS_QUERY_HAS_FAILED) {
		weir__redis_client_info(changes->client, &info);
		(void)snprintf(reply->why, sizeof(reply->why), "%.*s", ERROR_SHOWN - 1, info.last_error);
	}
	if (reply->leaves)
		weir__redis_query_leave(changes->client, weir__monotonic_ns());
	if (ret_was_sent)
		*ret_was_sent = query.was_sent && query.state != WEIR__REDIS_QUERY_IS_ANSWERED;
	return reply->is_good;
}

/* Reports each error of Redis once. redis_log.h reports that Redis cannot be reached. */
static void tell_error(struct weir__shared_changes *changes, const char *error)
{
	if (strcmp(changes->error, error) == 0)
		return;
	(void)snprintf(changes->error, sizeof(changes->error), "%s", error);
	if (*error)
		weir__log_say(changes->log, WEIR__LOG_WARNING,
			      "limit changes are not shared with other servers: Redis: %s", error);
}

static bool take_error(struct reply *reply, const struct weir__resp_token *token)
{
	if (token->type != WEIR__RESP_ERROR)
		return false;
	(void)snprintf(reply->why, sizeof(reply->why), "%.*s", (int)weir__min(token->text.length, ERROR_SHOWN - 1),
		       token->text.bytes);
	reply->leaves = weir__redis_refusal_of(token->text)->leaves;
	tell_error(reply->changes, reply->why);
	return true;
}

/* An array of two texts. */
static bool is_pair(struct reply *reply, const struct weir__resp_token *tokens, uint32_t n)
{
	const bool is = n == 3 && tokens[0].type == WEIR__RESP_ARRAY && tokens[1].type == WEIR__RESP_BULK &&
			tokens[2].type == WEIR__RESP_BULK;

	if (!is && !take_error(reply, &tokens[0]))
		(void)snprintf(reply->why, sizeof(reply->why), "unexpected reply from Redis");
	return is;
}

static void write_field(uint64_t identity, const char *plan, char ret_field[FIELD_SIZE])
{
	(void)snprintf(ret_field, FIELD_SIZE, "%016" PRIx64 "%s", identity, plan);
}

/* --- reading changes --------------------------------------------------------------------------------------------- */

static struct weir__limit_change change_of(const struct weir__redis_change *read)
{
	struct weir__limit_change change = { .to = read->limit, .at = read->at, .version = read->version };

	memcpy(change.user, read->user, sizeof(change.user));
	memcpy(change.peer, read->peer, sizeof(change.peer));
	return change;
}

/* Another server may run an older or a newer Weir, so it may have stored a limit that cannot be applied here. */
static void apply(struct weir__shared_changes *changes, const struct weir__redis_change *read)
{
	const struct weir__limit_change change = change_of(read);
	struct weir__audit_who who = weir__audit_system("store");
	struct weir_limit before = { .count = 0 };
	struct weir_message why;
	bool is_made;
	const int error = weir__guard_change_limit(changes->guard, read->name, &change, changes->identity,
						   weir_table_now(changes->table), &is_made, &before, &why);

	if (!is_made && (error == WEIR_OK || read->version <= changes->unapplied))
		return;
	if (!is_made)
		changes->unapplied = read->version;
	memcpy(who.user, read->user, sizeof(who.user));
	memcpy(who.peer, read->peer, sizeof(who.peer));
	weir__audit_change(changes->log, &who, read->name, before.count > 0 ? &before : NULL, &read->limit, true,
			   is_made ? NULL : why.text);
}

static void note_known(struct reply *reply, const struct weir__redis_change *read)
{
	struct known *known;

	if (reply->known == NULL || reply->n_known == WEIR__REDIS_CHANGES_MAX)
		return;
	known = &reply->known[reply->n_known++];
	memcpy(known->name, read->name, sizeof(known->name));
	known->version = read->version;
}

static void tell_damaged(struct weir__shared_changes *changes, uint32_t n)
{
	if (n > changes->damaged)
		weir__log_say(changes->log, WEIR__LOG_WARNING,
			      "ignoring %u invalid limit changes in Redis; see HGETALL %s", n, changes->key_of_changes);
	changes->damaged = n;
}

static void take_changes(struct weir__redis_query *query, const struct weir__resp_token *tokens, uint32_t n)
{
	struct reply *const reply = query->context;
	struct weir__resp_slice rest, field, value;
	struct weir__redis_change read;
	uint32_t damaged = 0;

	reply->is_good = is_pair(reply, tokens, n);
	if (!reply->is_good)
		return;
	reply->version = weir__redis_changes_number(tokens[1].text);
	rest = tokens[2].text;
	while (weir__redis_changes_next(&rest, &field, &value)) {
		if (weir__redis_change_read(field, value, &read)) {
			apply(reply->changes, &read);
			note_known(reply, &read);
		} else {
			damaged++;
		}
	}
	tell_damaged(reply->changes, damaged);
}

/* --- changes that Redis has lost --------------------------------------------------------------------------------- */

struct lost {
	const struct reply *reply;
	struct weir__redis_change *at; /* room for WEIR__REDIS_CHANGES_MAX */
	uint32_t n;
};

static bool has_change(const struct reply *reply, const char *plan, uint64_t version)
{
	for (uint32_t i = 0; i < reply->n_known; i++)
		if (reply->known[i].version >= version && strcmp(reply->known[i].name, plan) == 0)
			return true;
	return false;
}

static void note_lost(void *lost_, const char *plan, const struct weir__limit_change *change)
{
	struct lost *const lost = lost_;
	struct weir__redis_change *to;

	if (lost->n == WEIR__REDIS_CHANGES_MAX || has_change(lost->reply, plan, change->version))
		return;
	to = &lost->at[lost->n++];
	*to = (struct weir__redis_change){ .limit = change->to, .at = change->at, .version = change->version };
	(void)snprintf(to->name, sizeof(to->name), "%s", plan);
	memcpy(to->user, change->user, sizeof(to->user));
	memcpy(to->peer, change->peer, sizeof(to->peer));
}

static void take_restored(struct weir__redis_query *query, const struct weir__resp_token *tokens, uint32_t n)
{
	struct reply *const reply = query->context;

	(void)n;
	reply->is_good = !take_error(reply, &tokens[0]);
}

static bool restore(struct weir__shared_changes *changes, const struct weir__redis_change *lost)
{
	char field[FIELD_SIZE], value[WEIR__REDIS_CHANGE_VALUE], version[24], most[16];
	const struct script script = { .text = weir__redis_changes_restore,
				       .words = { "1", changes->key_of_changes, field, value, version, most },
				       .take = take_restored,
				       .budget = beat_budget };
	struct reply reply = { .is_good = false };

	write_field(changes->identity, lost->name, field);
	(void)weir__redis_change_write(lost, value);
	(void)snprintf(version, sizeof(version), "%" PRIu64, lost->version);
	(void)snprintf(most, sizeof(most), "%d", WEIR__REDIS_CHANGES_MAX);
	return run_script(changes, &script, &reply, NULL);
}

/* A Redis that started without its data, or a replica that took over, may lack changes that servers have. */
static bool restore_lost(struct weir__shared_changes *changes, const struct reply *reply)
{
	struct lost lost = { .reply = reply };
	bool is_done = true;

	lost.at = calloc(WEIR__REDIS_CHANGES_MAX, sizeof(*lost.at));
	if (lost.at == NULL)
		return false;
	weir__guard_list_shared(changes->guard, changes->identity, note_lost, &lost);
	for (uint32_t i = 0; i < lost.n && is_done; i++)
		is_done = restore(changes, &lost.at[i]);
	free(lost.at);
	return is_done;
}

static bool read_changes(struct weir__shared_changes *changes)
{
	char identity[WEIR__REDIS_IDENTITY_LENGTH + 1], field[16], value[16], most[16];
	const struct script script = { .text = weir__redis_changes_read,
				       .words = { "1", changes->key_of_changes, identity, field, value, most },
				       .take = take_changes,
				       .budget = beat_budget };
	struct reply reply = { .is_good = false };
	bool is_done;

	(void)snprintf(identity, sizeof(identity), "%016" PRIx64, changes->identity);
	(void)snprintf(field, sizeof(field), "%d", FIELD_SIZE - 1);
	(void)snprintf(value, sizeof(value), "%d", WEIR__REDIS_CHANGE_VALUE - 1);
	(void)snprintf(most, sizeof(most), "%d", WEIR__REDIS_CHANGES_MAX);
	reply.known = calloc(WEIR__REDIS_CHANGES_MAX, sizeof(*reply.known));
	is_done = reply.known && run_script(changes, &script, &reply, NULL) && restore_lost(changes, &reply);
	if (is_done)
		changes->version = reply.version;
	free(reply.known);
	return is_done;
}

/* --- heartbeats -------------------------------------------------------------------------------------------------- */

static void take_version(struct weir__redis_query *query, const struct weir__resp_token *tokens, uint32_t n)
{
	struct reply *const reply = query->context;

	(void)n;
	reply->is_good = tokens[0].type == WEIR__RESP_BULK;
	if (reply->is_good)
		reply->version = weir__redis_changes_number(tokens[0].text);
	else if (!take_error(reply, &tokens[0]))
		(void)snprintf(reply->why, sizeof(reply->why), "unexpected reply from Redis");
}

/* Tells Redis which policy this server runs. Reads the changes if there are new ones, or if the policy is new and lacks
 * earlier changes. Returns whether Redis knows the policy; if not, ret_reply says why. */
static bool beat(struct weir__shared_changes *changes, struct reply *ret_reply)
{
	const uint64_t policies = weir_guard_changes(changes->guard); /* first: a policy that comes now is seen later */
	const uint64_t identity = weir__guard_identity(changes->guard);
	const bool joins = !changes->has_joined || identity != changes->identity;
	char now[WEIR__REDIS_IDENTITY_LENGTH + 1], before[WEIR__REDIS_IDENTITY_LENGTH + 1] = "";
	const struct script script = { .text = weir__redis_changes_beat,
				       .words = { "2", changes->key_of_servers, changes->key_of_changes, changes->id,
						  now, before, joins ? "1" : "0" },
				       .take = take_version,
				       .budget = beat_budget };

	*ret_reply = (struct reply){ .is_good = false };
	(void)snprintf(now, sizeof(now), "%016" PRIx64, identity);
	if (changes->has_joined && joins)
		(void)snprintf(before, sizeof(before), "%016" PRIx64, changes->identity);
	changes->beat_at = weir__monotonic_ns() + weir__redis_jittered(beat_every, &changes->seed);
	if (!run_script(changes, &script, ret_reply, NULL))
		return false;
	changes->has_read &= !joins && policies == changes->policies && ret_reply->version == changes->version;
	changes->has_joined = true;
	changes->identity = identity;
	changes->policies = policies;
	if (!changes->has_read)
		changes->has_read = read_changes(changes);
	if (changes->has_read)
		tell_error(changes, "");
	return true;
}

/* Tells Redis that this server ends, so that a server that starts with the next policy sees that the old policy is not
 * in use any more. */
static void leave(struct weir__shared_changes *changes)
{
	static const char text[] = "return redis.call('ZREM', KEYS[1], ARGV[1])\n";
	char member[2 * WEIR__REDIS_IDENTITY_LENGTH + 1];
	const struct script script = { .text = text,
				       .words = { "1", changes->key_of_servers, member },
				       .take = take_restored,
				       .budget = leave_budget,
				       .is_last = true };
	struct reply reply = { .is_good = false };

	(void)snprintf(member, sizeof(member), "%016" PRIx64 "%s", changes->identity, changes->id);
	if (changes->has_joined)
		(void)run_script(changes, &script, &reply, NULL);
}

/* --- changes of clients ------------------------------------------------------------------------------------------ */

static void take_stored(struct weir__redis_query *query, const struct weir__resp_token *tokens, uint32_t n)
{
	struct reply *const reply = query->context;

	reply->is_good = is_pair(reply, tokens, n);
	if (!reply->is_good)
		return;
	reply->version = weir__redis_changes_number(tokens[1].text);
	reply->at_ms = weir__redis_changes_number(tokens[2].text);
	reply->is_good = reply->version > 0;
}

static bool refuse(struct weir__shared_change *change, enum weir__error_number error, const char *why)
{
	return weir__refusal_set(&change->refusal, error, why);
}

/* Returns false if the change was rejected. */
static bool store(struct weir__shared_changes *changes, struct weir__shared_change *change, struct reply *reply)
{
	char field[FIELD_SIZE], limit[WEIR_LIMIT_TEXT_MAX], most[16];
	const struct script script = { .text = weir__redis_changes_store,
				       .words = { "1", changes->key_of_changes, field, limit, change->who.user,
						  change->who.peer, most },
				       .take = take_stored,
				       .budget = change_budget,
				       .is_once = true };
	bool was_sent;

	if (weir__guard_identity(changes->guard) != changes->identity || !changes->has_joined) {
		if (!beat(changes, reply))
			return refuse(change, WEIR__ERROR_UNSHARED, reply->why);
	}
	*reply = (struct reply){ .is_good = false };
	write_field(changes->identity, change->plan, field);
	(void)weir_limit_print(&change->to, limit);
	(void)snprintf(most, sizeof(most), "%d", WEIR__REDIS_CHANGES_MAX);
	if (run_script(changes, &script, reply, &was_sent))
		return true;
	return refuse(change, was_sent ? WEIR__ERROR_UNSHARED_PERHAPS : WEIR__ERROR_UNSHARED, reply->why);
}

static void make(struct weir__shared_changes *changes, struct weir__shared_change *change)
{
	struct weir__limit_change noted = { .to = change->to };
	struct weir_limit before = { .count = 0 };
	struct weir_message why;
	struct reply reply;
	int error;

	if (store(changes, change, &reply)) {
		noted.version = reply.version;
		noted.at = reply.at_ms * ms;
		memcpy(noted.user, change->who.user, sizeof(noted.user));
		memcpy(noted.peer, change->who.peer, sizeof(noted.peer));
		error = weir__guard_change_limit(changes->guard, change->plan, &noted, changes->identity,
						 weir_table_now(changes->table), &change->is_made, &before, &why);
		if (!change->is_made)
			(void)refuse(change, WEIR__ERROR_LIMIT,
				     error == WEIR_OK ? "a later change was made in the meantime" : why.text);
	}
	weir__audit_change(changes->log, &change->who, change->plan, before.count > 0 ? &before : NULL, &change->to,
			   true, change->is_made ? NULL : change->refusal.why.text);
}

static struct weir__shared_change *take_first(struct weir__shared_changes *changes)
{
	struct weir__task *task;

	(void)pthread_mutex_lock(&changes->lock);
	task = changes->first;
	if (task) {
		changes->first = task->next;
		task->next = NULL;
		changes->n_waiting--;
	}
	(void)pthread_mutex_unlock(&changes->lock);
	return (void *)task;
}

/* --- the thread -------------------------------------------------------------------------------------------------- */

static void *run(void *changes_)
{
	struct weir__shared_changes *const changes = changes_;
	struct weir__shared_change *change;
	struct reply reply;

	while (!atomic_load(&changes->is_stopping)) {
		while (!atomic_load(&changes->is_stopping) && (change = take_first(changes)) != NULL) {
			make(changes, change);
			weir__mailbox_return(&change->task);
		}
		if (weir__monotonic_ns() >= changes->beat_at)
			(void)beat(changes, &reply);
		else
			turn(changes, changes->beat_at);
	}
	leave(changes);
	return NULL;
}

/* --- new and free ------------------------------------------------------------------------------------------------ */

static bool init(struct weir__shared_changes *changes, struct weir_message *ret_message)
{
	uint64_t seeds[2];

	*ret_message = (struct weir_message){ .text = "no memory, file descriptor or thread to share limit changes" };
	if (weir__memory_random(seeds, sizeof(seeds)) != 0)
		return false;
	changes->seed = seeds[0];
	(void)snprintf(changes->id, sizeof(changes->id), "%016" PRIx64, seeds[1]);
	(void)snprintf(changes->key_of_servers, sizeof(changes->key_of_servers), "%s~servers", changes->url.prefix);
	(void)snprintf(changes->key_of_changes, sizeof(changes->key_of_changes), "%s~changes", changes->url.prefix);
	changes->url.budget = beat_budget; /* a connection is closed after two budgets without a reply */
	changes->url.connect_timeout = beat_budget;
	changes->client = weir__redis_client_new_for_queries(&changes->url, WEIR__REDIS_CHANGES_BYTES,
							     weir__redis_random(&changes->seed), weir__monotonic_ns());
	return changes->client && weir__redis_driver_new(&changes->url, changes->client, &changes->loop,
							 &changes->driver, ret_message) == WEIR_OK;
}

struct weir__shared_changes *weir__shared_changes_new(const struct weir__redis_url *url, struct weir_guard *guard,
						      struct weir_table *table, struct weir__log *log,
						      struct weir_message *ret_message)
{
	struct weir__shared_changes *const changes = calloc(1, sizeof(*changes));

	*ret_message = (struct weir_message){ .text = "no memory to share limit changes" };
	if (changes == NULL || weir__loop_init(&changes->loop) != 0) {
		free(changes);
		return NULL;
	}
	changes->url = *url;
	changes->guard = guard;
	changes->table = table;
	changes->log = log;
	(void)pthread_mutex_init(&changes->lock, NULL);
	if (init(changes, ret_message))
		changes->is_running = pthread_create(&changes->thread, NULL, run, changes) == 0;
	if (changes->is_running)
		return changes;
	weir__shared_changes_free(changes);
	return NULL;
}

/* Changes that still wait return without effect. */
void weir__shared_changes_free(struct weir__shared_changes *changes)
{
	struct weir__shared_change *change;

	if (changes == NULL)
		return;
	if (changes->is_running) {
		atomic_store(&changes->is_stopping, true);
		weir__loop_wake(&changes->loop);
		(void)pthread_join(changes->thread, NULL);
	}
	while ((change = take_first(changes)) != NULL)
		weir__mailbox_return(&change->task);
	weir__redis_driver_free(changes->driver);
	weir__redis_client_free(changes->client);
	weir__loop_close(&changes->loop);
	(void)pthread_mutex_destroy(&changes->lock);
	OPENSSL_cleanse(&changes->url, sizeof(changes->url));
	free(changes);
}

/* --- requests ---------------------------------------------------------------------------------------------------- */

static void free_change(struct weir__task *task)
{
	free(task);
}

/* Called when the change is back in the mailbox of its worker. Its request is done. */
static void returned(struct weir__task *task)
{
	struct weir__shared_change *const change = (void *)task;

	if (change->request)
		weir__request_finish(change->request);
	else
		task->free(task);
}

/* The change continues, and is freed when it returns. */
static bool cancel(struct weir__request *request)
{
	struct weir__change_request *const of = (struct weir__change_request *)(void *)request;

	of->change->request = NULL;
	of->change = NULL;
	return true;
}

static void fini(struct weir__request *request)
{
	struct weir__change_request *const of = (struct weir__change_request *)(void *)request;

	free(of->change);
}

static const struct weir__request_kind kind = { .cancel = cancel, .fini = fini };

bool weir__change_request_init(struct weir__change_request *request, struct weir__context *context,
			       struct weir__client *client, const struct weir__audit_who *who, const char *name,
			       size_t length, const struct weir_limit *to, struct weir__refusal *ret_refusal)
{
	struct weir__shared_change *change;

	if (!weir__limit_ref_check_change(context, who, name, length, to, ret_refusal))
		return false;
	change = context->mailbox ? calloc(1, sizeof(*change)) : NULL;
	if (change == NULL)
		return weir__refusal_set(ret_refusal, WEIR__ERROR_CHANGES_WAIT, "");
	change->task.free = free_change;
	change->task.returned = returned;
	memcpy(change->plan, name, length); /* it fits, because a limit of this name exists */
	change->to = *to;
	change->who = *who;
	(void)refuse(change, WEIR__ERROR_UNSHARED, "the server is shutting down");
	request->change = change;
	weir__request_init(&request->request, sizeof(*request), &kind, context, client);
	request->request.n_claims = 0;
	request->request.is_barrier = true;
	return true;
}

/* Returns false if too many wait. */
static bool add(struct weir__shared_changes *changes, struct weir__task *task)
{
	struct weir__task **last = &changes->first;
	bool has_room;

	(void)pthread_mutex_lock(&changes->lock);
	has_room = changes->n_waiting < WEIR__SHARED_CHANGES_WAITING;
	if (has_room) {
		while (*last)
			last = &(*last)->next;
		*last = task;
		changes->n_waiting++;
	}
	(void)pthread_mutex_unlock(&changes->lock);
	if (has_room)
		weir__loop_wake(&changes->loop);
	return has_room;
}

bool weir__change_request_send(struct weir__change_request *request, struct weir__refusal *ret_refusal)
{
	struct weir__context *const context = request->request.context;
	struct weir__client *const client = request->request.client;
	struct weir__shared_change *const change = request->change;
	struct weir__request *const moved = weir__request_move(&request->request);

	if (moved == NULL) {
		free(change);
		return weir__refusal_set(ret_refusal, WEIR__ERROR_CHANGES_WAIT, "");
	}
	change->request = moved;
	weir__mailbox_send(context->mailbox, &change->task);
	if (add(context->changes, &change->task))
		return true;
	weir__requests_abandon(client); /* this request is the only one */
	weir__mailbox_cancel(&change->task);
	return weir__refusal_set(ret_refusal, WEIR__ERROR_CHANGES_WAIT, "");
}
