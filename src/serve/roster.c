/* roster.c: users put in the place of others, and the thread that reads them. */
#include "serve/roster.h"

#include <weir/clock.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "guard/readers.h"
#include "os/loop.h"
#include "serve/audit.h"
#include "serve/crew.h"
#include "serve/policy_source.h"

static const weir_ns ms = 1000000;
static const weir_ns quiet_ns = UINT64_C(100000000);     /* of which the file must have been left alone, */
static const weir_ns patience_ns = UINT64_C(2000000000); /* unless that takes so long */
static const weir_ns poll_ns = UINT64_C(2000000000);     /* where nothing tells of changes */

struct version {
	uint64_t number;
	struct weir__users users;
};

struct weir__roster {
	struct weir__readers readers; /* of the next */
	struct version *_Atomic current;
	_Atomic uint64_t number; /* of that */

	const struct weir__settings *started;
	struct weir__policy_source *source;
	struct weir__settings *said;
	char *wrong;      /* what was last told to be */
	bool lacks_users; /* that is all that is wrong */
	struct weir__crew *crew;
	struct weir__loop loop;
	pthread_t thread;
	bool is_running;
	_Atomic bool is_stopping, is_asked;
	weir_ns changed_at, touched_at; /* first and last that was told and not looked at; 0: nothing was */
	weir_ns looked_at;
};

/* --- versions --------------------------------------------------------------------------------------------------- */

static void free_version(struct version *version)
{
	if (version)
		weir__users_wipe(version, sizeof(*version));
	free(version);
}

static bool put(struct weir__roster *roster, const struct weir__users *users)
{
	struct version *const next = calloc(1, sizeof(*next));
	struct version *before;

	if (next == NULL)
		return false;
	next->number = atomic_load(&roster->number) + 1;
	next->users = *users;
	before = atomic_exchange(&roster->current, next);
	atomic_store(&roster->number, next->number);
	if (before)
		weir__readers_wait(&roster->readers);
	free_version(before);
	return true;
}

uint64_t weir__roster_version(const struct weir__roster *roster)
{
	return atomic_load_explicit(&roster->number, memory_order_relaxed);
}

uint64_t weir__roster_copy(struct weir__roster *roster, struct weir__users *ret_users)
{
	const uint32_t phase = weir__readers_enter(&roster->readers);
	const struct version *const current = atomic_load(&roster->current);
	const uint64_t number = current->number;

	*ret_users = current->users;
	weir__readers_leave(&roster->readers, phase);
	return number;
}

struct weir__roster *weir__roster_new(const struct weir__settings *settings)
{
	struct weir__roster *const roster = aligned_alloc(_Alignof(struct weir__roster), sizeof(*roster));

	if (roster == NULL)
		return NULL;
	memset(roster, 0, sizeof(*roster));
	roster->started = settings;
	if (put(roster, &settings->users))
		return roster;
	weir__roster_free(roster);
	return NULL;
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

static void add_line(void *errors, const char *line)
{
	fprintf(errors, "%s\n", line);
}

/* What the file says. False: something is wrong, and was told to `errors`. */
static bool read_file(struct weir__roster *roster, FILE *errors)
{
	struct weir__settings *const said = roster->said;
	struct weir__faults faults = { .file = roster->started->config, .report = add_line, .context = errors };
	struct weir__policy_version version;

	if (!roster->source->read(roster->source, &faults, &version))
		return false;
	weir__settings_init(said, errors);
	memcpy(said->config, roster->started->config, sizeof(said->config));
	(void)weir__settings_read_text(said, version.parts[0].text.at, version.parts[0].text.n);
	weir__policy_version_free(&version);
	roster->lacks_users = said->faults == 0 && said->users.n == 0 && atomic_load(&roster->current)->users.n > 0;
	if (roster->lacks_users)
		weir__settings_fault(said, (struct weir__setting_place){ WEIR__FROM_FILE, 1, 1 }, "users",
				     "there are none in it; to have none any more, start the server anew");
	return said->faults == 0;
}

static bool is_same(const struct weir__users *a, const struct weir__users *b)
{
	bool is_same = a->n == b->n;

	for (size_t i = 0; is_same && i < a->n; i++)
		is_same = weir__users_is_same(&a->at[i], &b->at[i]);
	return is_same;
}

/* How many there were before, and why nothing has changed, if so. */
static void audit(const struct weir__roster *roster, size_t before, const char *why_not)
{
	const struct weir__audit_who nobody = weir__audit_nobody("file");
	struct weir__log *const log = roster->started->log;
	struct weir__log_line line;

	weir__audit_begin(&line, log, &nobody, "users_changed");
	weir__log_number(&line, "before", before);
	weir__log_number(&line, "after", atomic_load(&roster->current)->users.n);
	weir__audit_end(&line, log, why_not);
}

static void take_users(struct weir__roster *roster)
{
	const size_t before = atomic_load(&roster->current)->users.n;

	free(roster->wrong);
	roster->wrong = NULL;
	if (is_same(&roster->said->users, &atomic_load(&roster->current)->users))
		return;
	if (!put(roster, &roster->said->users)) {
		weir__log_say(roster->started->log, WEIR__LOG_ERROR,
			      "users stay as they are, since there is no memory for others");
		return;
	}
	weir__crew_wake(roster->crew);
	weir__log_say(roster->started->log, WEIR__LOG_INFO, "users have changed; there are %zu now",
		      roster->said->users.n);
	audit(roster, before, NULL);
}

/* Once for the same. If there are limits in the file, too, whoever reads those tells the faults, but that users are missing. */
static void tell_wrong(struct weir__roster *roster, char *text)
{
	if (roster->wrong && strcmp(roster->wrong, text) == 0)
		return;
	free(roster->wrong);
	roster->wrong = strdup(text);
	audit(roster, atomic_load(&roster->current)->users.n, "what was read is wrong");
	weir__log_say(roster->started->log, WEIR__LOG_ERROR, "users stay as they are, since what was read is wrong:");
	if (roster->started->log && (!roster->started->has_policy || roster->lacks_users)) {
		FILE *const stream = weir__log_stream(roster->started->log, WEIR__LOG_ERROR);

		fputs(text, stream);
		fflush(stream);
	}
}

static void look(struct weir__roster *roster)
{
	char *text = NULL;
	size_t size;
	FILE *const errors = open_memstream(&text, &size);
	bool is_right;

	roster->looked_at = weir_clock_now();
	roster->changed_at = roster->touched_at = 0;
	if (errors == NULL)
		return;
	(void)roster->source->follow(roster->source, NULL, 0); /* first: what changes from here on is told */
	is_right = read_file(roster, errors);
	fclose(errors);
	if (is_right)
		take_users(roster);
	else
		tell_wrong(roster, text);
	weir__users_wipe(&roster->said->users, sizeof(roster->said->users));
	free(text);
}

/* --- the thread ------------------------------------------------------------------------------------------------- */

/* The instant from which to look. */
static weir_ns due_at(const struct weir__roster *roster)
{
	weir_ns at = roster->source->is_blind ? roster->looked_at + poll_ns : WEIR_NEVER;
	weir_ns quiet = roster->touched_at + quiet_ns;

	if (roster->changed_at == 0)
		return at;
	if (quiet > roster->changed_at + patience_ns)
		quiet = roster->changed_at + patience_ns;
	return quiet < at ? quiet : at;
}

static int timeout_ms(const struct weir__roster *roster)
{
	const weir_ns at = due_at(roster), now = weir_clock_now();

	if (at == WEIR_NEVER)
		return -1;
	return at <= now ? 0 : (int)((at - now) / ms) + 1;
}

static void *keep(void *roster_)
{
	struct weir__roster *const roster = roster_;
	struct weir__loop_event events[WEIR__LOOP_EVENTS];

	while (!atomic_load(&roster->is_stopping)) {
		const int n = weir__loop_wait(&roster->loop, timeout_ms(roster), events);
		const weir_ns now = weir_clock_now();

		if (n > 0 && roster->source->take(roster->source)) {
			roster->touched_at = now;
			if (roster->changed_at == 0)
				roster->changed_at = now;
		}
		if (atomic_exchange(&roster->is_asked, false) || due_at(roster) <= now)
			look(roster);
	}
	return NULL;
}

static bool start_thread(struct weir__roster *roster)
{
	if (weir__loop_init(&roster->loop) != 0)
		return false;
	if ((roster->source->descriptor < 0 ||
	     weir__loop_add(&roster->loop, roster->source->descriptor, roster) == 0) &&
	    pthread_create(&roster->thread, NULL, keep, roster) == 0)
		return true;
	weir__loop_close(&roster->loop);
	return false;
}

bool weir__roster_start(struct weir__roster *roster, struct weir__crew *crew)
{
	if (roster->started->config[0] == '\0')
		return true;
	roster->crew = crew;
	roster->said = calloc(1, sizeof(*roster->said));
	roster->source = weir__policy_source_of_path(roster->started->config);
	if (roster->said == NULL || roster->source == NULL)
		return false;
	(void)roster->source->follow(roster->source, NULL, 0);
	roster->changed_at = roster->touched_at = roster->looked_at = weir_clock_now(); /* since it was read */
	roster->is_running = start_thread(roster);
	return roster->is_running;
}

void weir__roster_free(struct weir__roster *roster)
{
	if (roster == NULL)
		return;
	if (roster->is_running) {
		atomic_store(&roster->is_stopping, true);
		weir__loop_wake(&roster->loop);
		(void)pthread_join(roster->thread, NULL);
		weir__loop_close(&roster->loop);
	}
	if (roster->source)
		roster->source->free(roster->source);
	free_version(atomic_load(&roster->current));
	free(roster->said);
	free(roster->wrong);
	free(roster);
}

void weir__roster_reload(struct weir__roster *roster)
{
	if (!roster->is_running)
		return;
	atomic_store(&roster->is_asked, true);
	weir__loop_wake(&roster->loop);
}
