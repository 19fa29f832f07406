/* certificates.c: the thread that reads the files, and how their content is replaced. */
#include "server/certificates.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "observe/log.h"
#include "os/memory.h"
#include "os/text_file.h"

enum { FILES = 3, FILE_MAX = 1024 * 1024, LOOK_S = 2, LINE_SIZE = WEIR__TLS_WHY_SIZE + WEIR__SETTING_TEXT_SIZE + 32 };

static const char *const names[FILES] = { [WEIR__TLS_PART_CERTIFICATE] = "tls_cert",
					  [WEIR__TLS_PART_KEY] = "tls_key",
					  [WEIR__TLS_PART_CLIENT_CA] = "tls_client_ca" };

/* What was read; NULL: the setting is not set. */
struct content {
	char *at[FILES];
	size_t n[FILES];
	unsigned char digest[WEIR__DIGEST_BYTES];
};

struct weir__certificates {
	const struct weir__settings *settings;
	struct weir__ticket_keys *tickets;
	pthread_mutex_t lock; /* of what follows, until the thread's own */
	pthread_cond_t changed;
	struct weir__tls_server *current;
	bool is_refused, is_asked, is_stopping;
	uint64_t reloads;

	pthread_t thread;
	bool is_running;
	unsigned char used[WEIR__DIGEST_BYTES];  /* what `current` was made from */
	unsigned char wrong[WEIR__DIGEST_BYTES]; /* what was wrong at the last look; it is reported at the second one */
	bool has_wrong, is_told;
	char unread[LINE_SIZE]; /* why the files could not be read at the last look */
};

/* --- files ------------------------------------------------------------------------------------------------------ */

static const char *path_of(const struct weir__settings *settings, int file)
{
	const char *const paths[FILES] = { settings->tls_cert, settings->tls_key, settings->tls_client_ca };

	return paths[file];
}

static void forget(struct content *content)
{
	for (int i = 0; i < FILES; i++) {
		weir__memory_wipe(content->at[i], content->n[i]);
		free(content->at[i]);
	}
}

static bool digest(struct content *content)
{
	unsigned char parts[FILES][WEIR__DIGEST_BYTES];

	for (int i = 0; i < FILES; i++)
		if (!weir__users_digest(content->at[i] ? content->at[i] : "", content->n[i], parts[i]))
			return false;
	return weir__users_digest(parts, sizeof(parts), content->digest);
}

/* Returns 0 or an errno; *ret_file is then the file at fault. */
static int read_files(const struct weir__settings *settings, struct content *ret_content, int *ret_file)
{
	*ret_content = (struct content){ .at = { NULL } };
	for (int i = 0; i < FILES; i++) {
		const char *const path = path_of(settings, i);
		const int error =
			*path ? weir__text_file_read(path, FILE_MAX, &ret_content->at[i], &ret_content->n[i]) : 0;

		if (error != 0) {
			*ret_file = i;
			forget(ret_content);
			return error;
		}
	}
	*ret_file = 0;
	if (digest(ret_content))
		return 0;
	forget(ret_content);
	return ENOMEM;
}

static struct weir__tls_pem pem_of(const struct content *content, int file)
{
	return (struct weir__tls_pem){ content->at[file], content->n[file] };
}

static int make(const struct weir__certificates *certificates, const struct content *content,
		struct weir__tls_server **ret_server, enum weir__tls_part *ret_part, char ret_why[WEIR__TLS_WHY_SIZE])
{
	const struct weir__tls_identity identity = {
		.certificate = pem_of(content, 0),
		.key = pem_of(content, 1),
		.client_ca = pem_of(content, 2),
		.is_client_optional = certificates->settings->tls_client_auth == WEIR__CLIENT_AUTH_OPTIONAL,
	};

	return weir__tls_server_new(&identity, certificates->tickets, ret_server, ret_part, ret_why);
}

/* --- a look ----------------------------------------------------------------------------------------------------- */

static void write_time(int64_t at_s, char ret_text[32])
{
	const time_t at = (time_t)at_s;
	struct tm parts;

	if (gmtime_r(&at, &parts) == NULL || strftime(ret_text, 32, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
		(void)snprintf(ret_text, 32, "%lld", (long long)at_s);
}

static void use(struct weir__certificates *certificates, struct weir__tls_server *server, const struct content *content)
{
	const int64_t expires_s = weir__tls_server_expires_s(server);
	struct weir__tls_server *before;
	char expires[32];

	write_time(expires_s, expires);
	memcpy(certificates->used, content->digest, sizeof(certificates->used));
	(void)pthread_mutex_lock(&certificates->lock);
	before = certificates->current;
	certificates->current = server;
	certificates->is_refused = false;
	certificates->reloads += before != NULL;
	(void)pthread_mutex_unlock(&certificates->lock);
	weir__tls_server_release(before);
	if (before)
		weir__log_say(certificates->settings->log, WEIR__LOG_INFO,
			      "tls_cert: certificates changed; the certificate expires at %s", expires);
	if (expires_s <= (int64_t)time(NULL))
		weir__log_say(certificates->settings->log, WEIR__LOG_WARNING,
			      "tls_cert: %s: expired at %s, so clients refuse it; replace it",
			      certificates->settings->tls_cert, expires);
}

static void refuse(struct weir__certificates *certificates, const char *what)
{
	(void)pthread_mutex_lock(&certificates->lock);
	certificates->is_refused = true;
	(void)pthread_mutex_unlock(&certificates->lock);
	weir__log_say(certificates->settings->log, WEIR__LOG_ERROR, "%s; keeping the current certificate", what);
}

/* Reports files that cannot be read at two looks in a row, once for the same reason. */
static void note_unread(struct weir__certificates *certificates, int file, int error)
{
	char text[LINE_SIZE] = "";

	(void)snprintf(text, sizeof(text), "%s: %s: %s", names[file], path_of(certificates->settings, file),
		       weir__text_file_error(error));
	if (strcmp(text, certificates->unread) != 0) {
		memcpy(certificates->unread, text, sizeof(text));
		certificates->is_told = false;
	} else if (!certificates->is_told) {
		certificates->is_told = true;
		refuse(certificates, text);
	}
}

static void note_wrong(struct weir__certificates *certificates, const struct content *content, enum weir__tls_part part,
		       const char *why)
{
	char text[LINE_SIZE];

	if (!certificates->has_wrong || memcmp(certificates->wrong, content->digest, sizeof(content->digest)) != 0) {
		memcpy(certificates->wrong, content->digest, sizeof(content->digest));
		certificates->has_wrong = true;
		certificates->is_told = false;
	} else if (!certificates->is_told) {
		certificates->is_told = true;
		(void)snprintf(text, sizeof(text), "%s: %s: %s", names[part],
			       path_of(certificates->settings, (int)part), why);
		refuse(certificates, text);
	}
}

/* The files are as they are in use, perhaps again. */
static void note_right(struct weir__certificates *certificates)
{
	certificates->has_wrong = certificates->is_told = false;
	(void)pthread_mutex_lock(&certificates->lock);
	certificates->is_refused = false;
	(void)pthread_mutex_unlock(&certificates->lock);
}

static void look(struct weir__certificates *certificates)
{
	struct weir__tls_server *server;
	char why[WEIR__TLS_WHY_SIZE];
	enum weir__tls_part part;
	struct content content;
	int file, error = read_files(certificates->settings, &content, &file);

	if (error != 0) {
		note_unread(certificates, file, error);
		return;
	}
	certificates->unread[0] = '\0';
	if (memcmp(content.digest, certificates->used, sizeof(content.digest)) == 0) {
		note_right(certificates);
	} else if (make(certificates, &content, &server, &part, why) == 0) {
		use(certificates, server, &content);
		note_right(certificates);
	} else {
		note_wrong(certificates, &content, part, why);
	}
	forget(&content);
}

/* --- the thread ------------------------------------------------------------------------------------------------- */

/* Returns false when the thread must end. */
static bool wait_for_look(struct weir__certificates *certificates)
{
	struct timespec until;
	bool goes_on;
	int error = 0;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += LOOK_S;
	(void)pthread_mutex_lock(&certificates->lock);
	while (!certificates->is_stopping && !certificates->is_asked && error == 0)
		error = pthread_cond_timedwait(&certificates->changed, &certificates->lock, &until);
	certificates->is_asked = false;
	goes_on = !certificates->is_stopping;
	(void)pthread_mutex_unlock(&certificates->lock);
	return goes_on;
}

static void *keep(void *certificates_)
{
	struct weir__certificates *const certificates = certificates_;

	while (wait_for_look(certificates))
		look(certificates);
	return NULL;
}

static bool init_lock(struct weir__certificates *certificates)
{
	pthread_condattr_t attributes;
	bool is_right = pthread_condattr_init(&attributes) == 0;

	is_right = is_right && pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
		   pthread_cond_init(&certificates->changed, &attributes) == 0 &&
		   pthread_mutex_init(&certificates->lock, NULL) == 0;
	(void)pthread_condattr_destroy(&attributes);
	return is_right;
}

struct weir__certificates *weir__certificates_new(struct weir__settings *settings, struct weir__ticket_keys *tickets)
{
	struct weir__certificates *const certificates = calloc(1, sizeof(*certificates));
	struct weir__tls_server *server;
	char why[WEIR__TLS_WHY_SIZE];
	enum weir__tls_part part;
	struct content content;
	int file, error;

	if (certificates == NULL || !init_lock(certificates)) {
		free(certificates);
		weir__ticket_keys_free(tickets);
		weir__settings_error(settings, weir__settings_place(settings, "tls_cert"), "tls_cert",
				     "no memory for TLS");
		return NULL;
	}
	certificates->settings = settings;
	certificates->tickets = tickets ? tickets : weir__ticket_keys_new();
	error = certificates->tickets ? read_files(settings, &content, &file) : ENOMEM;
	if (error != 0) {
		file = certificates->tickets ? file : 0;
		weir__settings_error(settings, weir__settings_place(settings, names[file]), names[file], "%s: %s",
				     path_of(settings, file), weir__text_file_error(error));
		weir__certificates_free(certificates);
		return NULL;
	}
	error = make(certificates, &content, &server, &part, why);
	if (error == 0) {
		use(certificates, server, &content);
	} else {
		weir__settings_error(settings, weir__settings_place(settings, names[part]), names[part], "%s: %s",
				     path_of(settings, (int)part), why);
		weir__certificates_free(certificates);
	}
	forget(&content);
	return error == 0 ? certificates : NULL;
}

int weir__certificates_start(struct weir__certificates *certificates)
{
	const int error = pthread_create(&certificates->thread, NULL, keep, certificates);

	certificates->is_running = error == 0;
	return error;
}

void weir__certificates_free(struct weir__certificates *certificates)
{
	if (certificates == NULL)
		return;
	(void)pthread_mutex_lock(&certificates->lock);
	certificates->is_stopping = true;
	(void)pthread_cond_signal(&certificates->changed);
	(void)pthread_mutex_unlock(&certificates->lock);
	if (certificates->is_running)
		(void)pthread_join(certificates->thread, NULL);
	weir__tls_server_release(certificates->current);
	weir__ticket_keys_free(certificates->tickets);
	(void)pthread_cond_destroy(&certificates->changed);
	(void)pthread_mutex_destroy(&certificates->lock);
	free(certificates);
}

void weir__certificates_reload(struct weir__certificates *certificates)
{
	if (certificates == NULL)
		return;
	(void)pthread_mutex_lock(&certificates->lock);
	certificates->is_asked = true;
	(void)pthread_cond_signal(&certificates->changed);
	(void)pthread_mutex_unlock(&certificates->lock);
}

struct weir__tls_server *weir__certificates_share(struct weir__certificates *certificates)
{
	struct weir__tls_server *server;

	(void)pthread_mutex_lock(&certificates->lock);
	server = weir__tls_server_share(certificates->current);
	(void)pthread_mutex_unlock(&certificates->lock);
	return server;
}

struct weir__ticket_keys *weir__certificates_tickets(struct weir__certificates *certificates)
{
	return certificates->tickets;
}

void weir__certificates_status(struct weir__certificates *certificates, struct weir__certificates_status *ret_status)
{
	(void)pthread_mutex_lock(&certificates->lock);
	*ret_status = (struct weir__certificates_status){
		.expires_s = weir__tls_server_expires_s(certificates->current),
		.client_ca_expires_s = weir__tls_server_client_ca_expires_s(certificates->current),
		.is_refused = certificates->is_refused,
		.reloads = certificates->reloads,
	};
	(void)pthread_mutex_unlock(&certificates->lock);
}
