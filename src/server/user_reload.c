/* user_reload.c: the thread that reads the users again, and how they are replaced. */
#include "server/user_reload.h"

#include <weir/clock.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "guard/epoch.h"
#include "observe/audit.h"
#include "os/loop.h"
#include "policy/source/policy_source.h"
#include "server/accept_balancer.h"
#include "server/denial_body.h"

static const weir_ns ms = 1000000;
static const weir_ns quiet_ns = UINT64_C(100000000);     /* without a change before a read */
static const weir_ns patience_ns = UINT64_C(2000000000); /* the longest that a change waits */
static const weir_ns poll_ns = UINT64_C(2000000000);     /* between reads without notification */

struct version {
	struct weir__users users; /* must be first, so that it casts to the version */
	uint64_t number;
	_Atomic uint32_t references; /* of workers, and one while it is current */
};

struct weir__user_reload {
	struct weir__epoch readers; /* of `current`, until they hold a reference */
	struct version *_Atomic current;
	_Atomic uint64_t number; /* of `current` */

	const struct weir__settings *started;
	struct weir__denial_body *denial_body; /* NULL: none */
	struct weir__policy_source *source;    /* NULL: without a configuration file */
	struct weir__settings *said;
	char *wrong;      /* the errors that were last reported */
	bool lacks_users; /* the only error is that the file has no users */
	struct weir__accept_balancer *balancer;
	struct weir__loop loop;
	pthread_t thread;
	_Atomic bool is_running;
	_Atomic bool is_stopping, is_asked;
	weir_ns changed_at, touched_at; /* first and last notification since the last look; 0: none */
	weir_ns looked_at;
};

/* --- versions --------------------------------------------------------------------------------------------------- */

void weir__user_reload_release(const struct weir__users *users)
{
	struct version *const version = (struct version *)(uintptr_t)users;

	if (version == NULL || atomic_fetch_sub(&version->references, 1) > 1)
		return;
	weir__users_fini(&version->users);
	free(version);
}

/* Makes a copy of the users the current version. Returns false without memory. */
static bool put(struct weir__user_reload *user_reload, const struct weir__users *users)
{
	struct version *const next = calloc(1, sizeof(*next));
	struct version *before;

	if (next == NULL || !weir__users_copy(users, &next->users)) {
		free(next);
		return false;
	}
	next->number = atomic_load(&user_reload->number) + 1;
	atomic_init(&next->references, 1);
	before = atomic_exchange(&user_reload->current, next);
	atomic_store(&user_reload->number, next->number);
	if (before)
		weir__epoch_wait(&user_reload->readers);
	weir__user_reload_release(before ? &before->users : NULL);
	return true;
}

uint64_t weir__user_reload_version(const struct weir__user_reload *user_reload)
{
	return atomic_load_explicit(&user_reload->number, memory_order_relaxed);
}

const struct weir__users *weir__user_reload_acquire(struct weir__user_reload *user_reload, uint64_t *ret_version)
{
	const uint32_t phase = weir__epoch_enter(&user_reload->readers);
	struct version *const current = atomic_load(&user_reload->current);

	atomic_fetch_add(&current->references, 1);
	weir__epoch_leave(&user_reload->readers, phase);
	*ret_version = current->number;
	return &current->users;
}

struct weir__user_reload *weir__user_reload_new(const struct weir__settings *settings,
						struct weir__denial_body *denial_body)
{
	struct weir__user_reload *const user_reload = aligned_alloc(_Alignof(struct weir__user_reload),
								    sizeof(*user_reload));

	if (user_reload == NULL)
		return NULL;
	memset(user_reload, 0, sizeof(*user_reload));
	user_reload->started = settings;
	user_reload->denial_body = denial_body;
	if (put(user_reload, &settings->users))
		return user_reload;
	weir__user_reload_free(user_reload);
	return NULL;
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

static void add_line(void *errors, const char *line)
{
	fprintf(errors, "%s\n", line);
}

/* Reads the file. Returns false if anything is wrong, after reporting it to `errors`. */
static bool read_file(struct weir__user_reload *user_reload, FILE *errors)
{
	struct weir__settings *const said = user_reload->said;
	struct weir__diagnostics diagnostics = { .file = user_reload->started->config,
						 .report = add_line,
						 .context = errors };
	struct weir__policy_version version;

	if (!user_reload->source->read(user_reload->source, &diagnostics, &version))
		return false;
	weir__settings_init(said, errors);
	memcpy(said->config, user_reload->started->config, sizeof(said->config));
	(void)weir__settings_read_text(said, version.parts[0].text.at, version.parts[0].text.n);
	weir__policy_version_free(&version);
	user_reload->lacks_users = said->n_errors == 0 && said->users.n == 0 &&
				   atomic_load(&user_reload->current)->users.n > 0;
	if (user_reload->lacks_users)
		weir__settings_error(said, (struct weir__setting_place){ WEIR__FROM_FILE, 1, 1 }, "users",
				     "no users found; to remove all users, restart the server");
	return said->n_errors == 0;
}

static bool is_same(const struct weir__users *a, const struct weir__users *b)
{
	bool is_same = a->n == b->n;

	for (size_t i = 0; is_same && i < a->n; i++)
		is_same = weir__users_is_same(&a->at[i], &b->at[i]);
	return is_same;
}

/* `before` is the former number of users. `why_not` is why nothing changed, or NULL. */
static void audit(const struct weir__user_reload *user_reload, size_t before, const char *why_not)
{
	const struct weir__audit_who by_itself = weir__audit_system("file");
	struct weir__log *const log = user_reload->started->log;
	struct weir__log_line line;

	weir__audit_begin(&line, log, &by_itself, "users_changed");
	weir__log_number(&line, "before", before);
	weir__log_number(&line, "after", atomic_load(&user_reload->current)->users.n);
	weir__audit_end(&line, log, why_not);
}

static void take_users(struct weir__user_reload *user_reload)
{
	const size_t before = atomic_load(&user_reload->current)->users.n;

	free(user_reload->wrong);
	user_reload->wrong = NULL;
	if (is_same(&user_reload->said->users, &atomic_load(&user_reload->current)->users))
		return;
	if (!put(user_reload, &user_reload->said->users)) {
		weir__log_say(user_reload->started->log, WEIR__LOG_ERROR,
			      "no memory for the new users; keeping the current users");
		return;
	}
	weir__accept_balancer_wake(user_reload->balancer);
	weir__log_say(user_reload->started->log, WEIR__LOG_INFO, "users changed; %zu in total",
		      user_reload->said->users.n);
	audit(user_reload, before, NULL);
}

/* Reports the same errors once. If the file also has limits, the policy loader reports its errors, but not missing
 * users. */
static void tell_wrong(struct weir__user_reload *user_reload, char *text)
{
	if (user_reload->wrong && strcmp(user_reload->wrong, text) == 0)
		return;
	free(user_reload->wrong);
	user_reload->wrong = strdup(text);
	audit(user_reload, atomic_load(&user_reload->current)->users.n, "the file has errors");
	weir__log_say(user_reload->started->log, WEIR__LOG_ERROR,
		      "the configuration file has errors; keeping the current users:");
	if (user_reload->started->log && (!user_reload->started->has_policy || user_reload->lacks_users)) {
		FILE *const stream = weir__log_stream(user_reload->started->log, WEIR__LOG_ERROR);

		fputs(text, stream);
		fflush(stream);
	}
}

static void look_at_denials(struct weir__user_reload *user_reload)
{
	struct weir__log *const log = user_reload->started->log;
	struct weir_message why;
	bool is_changed;

	if (!weir__denial_body_reload(user_reload->denial_body, &is_changed, &why))
		weir__log_say(log, WEIR__LOG_ERROR, "denial_body: %s; keeping the current one", why.text);
	else if (is_changed)
		weir__log_say(log, WEIR__LOG_INFO, "denial_body changed");
}

static void look_at_users(struct weir__user_reload *user_reload)
{
	char *text = NULL;
	size_t size;
	FILE *const errors = open_memstream(&text, &size);
	bool is_right;

	if (errors == NULL)
		return;
	(void)user_reload->source->follow(user_reload->source, NULL, 0); /* first: notifies of later changes */
	is_right = read_file(user_reload, errors);
	fclose(errors);
	if (is_right)
		take_users(user_reload);
	else
		tell_wrong(user_reload, text);
	weir__settings_fini(user_reload->said);
	free(text);
}

static void look(struct weir__user_reload *user_reload)
{
	user_reload->looked_at = weir_clock_now();
	user_reload->changed_at = user_reload->touched_at = 0;
	if (user_reload->source)
		look_at_users(user_reload);
	if (user_reload->denial_body)
		look_at_denials(user_reload);
}

/* --- the thread ------------------------------------------------------------------------------------------------- */

/* When to read the file next. */
static weir_ns due_at(const struct weir__user_reload *user_reload)
{
	weir_ns at = user_reload->source && user_reload->source->is_blind ? user_reload->looked_at + poll_ns :
									    WEIR_NEVER;
	weir_ns quiet = user_reload->touched_at + quiet_ns;

	if (user_reload->changed_at == 0)
		return at;
	if (quiet > user_reload->changed_at + patience_ns)
		quiet = user_reload->changed_at + patience_ns;
	return quiet < at ? quiet : at;
}

static int timeout_ms(const struct weir__user_reload *user_reload)
{
	const weir_ns at = due_at(user_reload), now = weir_clock_now();

	if (at == WEIR_NEVER)
		return -1;
	return at <= now ? 0 : (int)((at - now) / ms) + 1;
}

static void *keep(void *reload_)
{
	struct weir__user_reload *const user_reload = reload_;
	struct weir__loop_event events[WEIR__LOOP_EVENTS];

	while (!atomic_load(&user_reload->is_stopping)) {
		const int n = weir__loop_wait(&user_reload->loop, timeout_ms(user_reload), events);
		const weir_ns now = weir_clock_now();

		if (n > 0 && user_reload->source && user_reload->source->take(user_reload->source)) {
			user_reload->touched_at = now;
			if (user_reload->changed_at == 0)
				user_reload->changed_at = now;
		}
		if (atomic_exchange(&user_reload->is_asked, false) || due_at(user_reload) <= now)
			look(user_reload);
	}
	return NULL;
}

static bool start_thread(struct weir__user_reload *user_reload)
{
	if (weir__loop_init(&user_reload->loop) != 0)
		return false;
	if ((user_reload->source == NULL || user_reload->source->descriptor < 0 ||
	     weir__loop_add(&user_reload->loop, user_reload->source->descriptor, user_reload) == 0) &&
	    pthread_create(&user_reload->thread, NULL, keep, user_reload) == 0)
		return true;
	weir__loop_close(&user_reload->loop);
	return false;
}

bool weir__user_reload_start(struct weir__user_reload *user_reload, struct weir__accept_balancer *balancer)
{
	user_reload->balancer = balancer;
	if (user_reload->started->config[0] == '\0') {
		user_reload->is_running = user_reload->denial_body && start_thread(user_reload);
		return user_reload->denial_body == NULL || user_reload->is_running;
	}
	user_reload->said = calloc(1, sizeof(*user_reload->said));
	user_reload->source = weir__policy_source_of_path(user_reload->started->config);
	if (user_reload->said == NULL || user_reload->source == NULL)
		return false;
	(void)user_reload->source->follow(user_reload->source, NULL, 0);
	user_reload->changed_at = user_reload->touched_at = user_reload->looked_at =
		weir_clock_now(); /* it may have changed since it was read */
	user_reload->is_running = start_thread(user_reload);
	return user_reload->is_running;
}

void weir__user_reload_free(struct weir__user_reload *user_reload)
{
	if (user_reload == NULL)
		return;
	if (user_reload->is_running) {
		atomic_store(&user_reload->is_stopping, true);
		weir__loop_wake(&user_reload->loop);
		(void)pthread_join(user_reload->thread, NULL);
		weir__loop_close(&user_reload->loop);
	}
	if (user_reload->source)
		user_reload->source->free(user_reload->source);
	if (atomic_load(&user_reload->current))
		weir__user_reload_release(&atomic_load(&user_reload->current)->users);
	free(user_reload->said);
	free(user_reload->wrong);
	free(user_reload);
}

void weir__user_reload_reload(struct weir__user_reload *user_reload)
{
	if (!user_reload->is_running)
		return;
	atomic_store(&user_reload->is_asked, true);
	weir__loop_wake(&user_reload->loop);
}
