/* tls.c: TLS connections with OpenSSL, and how it reads and writes sockets. */
#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/net.h"
#include "os/text_file.h"
#include "os/tls_internal.h"

/* Records in one call of weir__tls_read_all: a record with one byte takes as long as one with thousands. And how many
 * calls in a row may read messages without data, such as key updates. */
enum { READS_AT_ONCE = 64, WITHOUT_DATA_MAX = 32 };

struct weir__tls_context {
	SSL_CTX *ssl;
};

/* Passes bytes to the socket. OpenSSL's own BIO would raise SIGPIPE. Connections may outlive every context, so this is
 * made once and never freed. */
static BIO_METHOD *way;
static pthread_once_t way_once = PTHREAD_ONCE_INIT;

/* --- the way to the socket --------------------------------------------------------------------------------------- */

static int pass(BIO *bio, ssize_t n, int retry)
{
	BIO_clear_retry_flags(bio);
	if (n == -EAGAIN || n == -EINTR)
		BIO_set_flags(bio, retry | BIO_FLAGS_SHOULD_RETRY);
	return n < 0 ? -1 : (int)n;
}

static int way_write(BIO *bio, const char *bytes, int n)
{
	const struct weir__tls *const tls = BIO_get_data(bio);

	return pass(bio, weir__net_write(tls->socket, bytes, (size_t)n), BIO_FLAGS_WRITE);
}

static int way_read(BIO *bio, char *bytes, int n)
{
	struct weir__tls *const tls = BIO_get_data(bio);
	const ssize_t got = weir__net_read(tls->socket, bytes, (size_t)n);

	tls->read_was_short = got < n;
	tls->is_dry = got == -EAGAIN;
	tls->has_heard |= got > 0;
	return pass(bio, got, BIO_FLAGS_READ);
}

static long way_control(BIO *bio, int command, long number, void *pointer)
{
	(void)bio;
	(void)number;
	(void)pointer;
	return command == BIO_CTRL_FLUSH; /* nothing is buffered */
}

static void make_way(void)
{
	BIO_METHOD *const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weir socket");

	if (made && BIO_meth_set_write(made, way_write) == 1 && BIO_meth_set_read(made, way_read) == 1 &&
	    BIO_meth_set_ctrl(made, way_control) == 1)
		way = made;
	else
		BIO_meth_free(made);
}

/* --- contexts ---------------------------------------------------------------------------------------------------- */

int weir__tls_no_password(char *buffer, int size, int is_for_writing, void *context)
{
	(void)buffer;
	(void)size;
	(void)is_for_writing;
	(void)context;
	return -1;
}

/* The first error is the cause. The later ones only say which functions failed because of it. */
const char *weir__tls_reason(void)
{
	const unsigned long error = ERR_get_error();
	const char *const words = ERR_SYSTEM_ERROR(error) ? strerror(ERR_GET_REASON(error)) :
							    ERR_reason_error_string(error);

	ERR_clear_error();
	return error == 0 ? "unknown reason" : words ? words : "an error without a message";
}

static int refuse(const char *what, const char *file, char ret_why[WEIR__TLS_WHY_SIZE])
{
	(void)snprintf(ret_why, WEIR__TLS_WHY_SIZE, "%s %s: %s", what, file, weir__tls_reason());
	return EINVAL;
}

static bool is_given(const char *file)
{
	return file && *file;
}

/* Checks a file that OpenSSL will open: on a FIFO without a writer, OpenSSL would block. Returns 0 or EINVAL. */
static int check_file(const char *what, const char *file, char ret_why[WEIR__TLS_WHY_SIZE])
{
	const int error = weir__text_file_check(file);

	if (error == 0)
		return 0;
	(void)snprintf(ret_why, WEIR__TLS_WHY_SIZE, "%s %s: %s", what, file, weir__text_file_error(error));
	return EINVAL;
}

static int load_authorities(SSL_CTX *ssl, const char *ca, char ret_why[WEIR__TLS_WHY_SIZE])
{
	if (is_given(ca) && check_file("the CA file", ca, ret_why) != 0)
		return EINVAL;
	if (is_given(ca) && SSL_CTX_load_verify_file(ssl, ca) != 1)
		return refuse("the CA file", ca, ret_why);
	if (!is_given(ca) && SSL_CTX_set_default_verify_paths(ssl) != 1)
		return refuse("the CA files", "of this system", ret_why);
	return 0;
}

static int load_certificate(SSL_CTX *ssl, const struct weir__tls_files *files, char ret_why[WEIR__TLS_WHY_SIZE])
{
	static const char key_words[] = "the key, which must not have a password,";
	const char *const key = is_given(files->key) ? files->key : files->certificate;

	if (!is_given(files->certificate)) {
		if (!is_given(files->key))
			return 0;
		(void)snprintf(ret_why, WEIR__TLS_WHY_SIZE,
			       "the key %s has no certificate: set the certificate file, too", files->key);
		return EINVAL;
	}
	if (check_file("the certificate", files->certificate, ret_why) != 0 || check_file(key_words, key, ret_why) != 0)
		return EINVAL;
	SSL_CTX_set_default_passwd_cb(ssl, weir__tls_no_password);
	if (SSL_CTX_use_certificate_chain_file(ssl, files->certificate) != 1)
		return refuse("the certificate", files->certificate, ret_why);
	if (SSL_CTX_use_PrivateKey_file(ssl, key, SSL_FILETYPE_PEM) != 1)
		return refuse(key_words, key, ret_why);
	return 0;
}

int weir__tls_context_new(const struct weir__tls_files *files, bool verifies, struct weir__tls_context **ret_context,
			  char ret_why[WEIR__TLS_WHY_SIZE])
{
	struct weir__tls_context *const context = calloc(1, sizeof(*context));
	int error = ENOMEM;

	ERR_clear_error();
	(void)snprintf(ret_why, WEIR__TLS_WHY_SIZE, "no memory for TLS");
	if (context == NULL)
		return error;
	context->ssl = SSL_CTX_new(TLS_client_method());
	if (context->ssl == NULL)
		goto fail;
	if (SSL_CTX_set_min_proto_version(context->ssl, TLS1_2_VERSION) != 1)
		goto fail;
	/* While a write waits, the data to write may grow and move. */
	(void)SSL_CTX_set_mode(context->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_verify(context->ssl, verifies ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
	error = load_authorities(context->ssl, files->ca, ret_why);
	if (error == 0)
		error = load_certificate(context->ssl, files, ret_why);
	if (error != 0)
		goto fail;
	*ret_context = context;
	return 0;
fail:
	weir__tls_context_free(context);
	return error;
}

void weir__tls_context_free(struct weir__tls_context *context)
{
	if (context == NULL)
		return;
	SSL_CTX_free(context->ssl);
	free(context);
}

/* --- connections ------------------------------------------------------------------------------------------------- */

static bool is_address(const char *name)
{
	unsigned char address[sizeof(struct in6_addr)];

	return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

static bool expect_name(SSL *ssl, const char *name)
{
	if (is_address(name))
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
	SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

struct weir__tls *weir__tls_make(SSL_CTX *context, int socket)
{
	struct weir__tls *const tls = calloc(1, sizeof(*tls));
	BIO *bio;

	(void)pthread_once(&way_once, make_way);
	if (tls == NULL || way == NULL) {
		free(tls);
		return NULL;
	}
	tls->socket = socket;
	tls->ssl = SSL_new(context);
	bio = BIO_new(way);
	if (tls->ssl == NULL || bio == NULL) {
		BIO_free(bio);
		weir__tls_free(tls);
		return NULL;
	}
	BIO_set_data(bio, tls);
	BIO_set_init(bio, 1);
	SSL_set_bio(tls->ssl, bio, bio);
	return tls;
}

struct weir__tls *weir__tls_new(struct weir__tls_context *context, int socket, const char *name)
{
	struct weir__tls *const tls = weir__tls_make(context->ssl, socket);

	if (tls == NULL)
		return NULL;
	tls->name = strdup(name);
	if (tls->name == NULL || !expect_name(tls->ssl, name)) {
		weir__tls_free(tls);
		return NULL;
	}
	SSL_set_connect_state(tls->ssl);
	return tls;
}

void weir__tls_end_writing(struct weir__tls *tls)
{
	ERR_clear_error();
	if (!tls->is_over && SSL_is_init_finished(tls->ssl))
		(void)SSL_shutdown(tls->ssl);
	ERR_clear_error();
}

void weir__tls_free(struct weir__tls *tls)
{
	if (tls == NULL)
		return;
	if (tls->ssl)
		weir__tls_end_writing(tls);
	SSL_free(tls->ssl);
	ERR_clear_error();
	free(tls->name);
	free(tls->why);
	free(tls);
}

/* With TLS 1.3 a client learns only after the handshake whether the server accepts its certificate. If the connection
 * breaks, it may not get that message. */
void weir__tls_explain(struct weir__tls *tls, int error)
{
	const long verified = SSL_get_verify_result(tls->ssl);
	const bool is_early = tls->has_read || !SSL_is_init_finished(tls->ssl);

	tls->is_over = true;
	tls->error = error == SSL_ERROR_SSL ? ERR_peek_error() : 0;
	if (tls->why == NULL)
		tls->why = malloc(WEIR__TLS_WHY_SIZE);
	if (tls->why == NULL)
		(void)weir__tls_reason();
	else if (verified != X509_V_OK && SSL_get_verify_mode(tls->ssl) != SSL_VERIFY_NONE && tls->is_server)
		(void)snprintf(tls->why, WEIR__TLS_WHY_SIZE, "TLS: client certificate not trusted: %s",
			       X509_verify_cert_error_string(verified));
	else if (verified != X509_V_OK && SSL_get_verify_mode(tls->ssl) != SSL_VERIFY_NONE)
		(void)snprintf(tls->why, WEIR__TLS_WHY_SIZE, "TLS: certificate not trusted for %.100s: %s", tls->name,
			       X509_verify_cert_error_string(verified));
	else if (error == SSL_ERROR_SSL)
		(void)snprintf(tls->why, WEIR__TLS_WHY_SIZE, "TLS: %s", weir__tls_reason());
	else
		(void)snprintf(tls->why, WEIR__TLS_WHY_SIZE, "TLS: the connection was closed%s",
			       is_early || tls->is_server ?
				       "" :
				       " right after the handshake: the server may require a client certificate");
	ERR_clear_error();
}

/* Returns the errno for a failed call of OpenSSL. SSL_get_error first reads the thread's error queue. To clear the
 * queue before each call takes 200 to 400 instructions, so it is cleared here. A fatal error puts its connection back
 * into the handshake state. So if the connection is in another state, the errors in the queue are of another
 * connection. */
static int judge(struct weir__tls *tls, int result)
{
	int error;

	if (SSL_is_init_finished(tls->ssl))
		ERR_clear_error();
	error = SSL_get_error(tls->ssl, result);
	if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
		tls->wants_to_write = error == SSL_ERROR_WANT_WRITE;
		return EAGAIN;
	}
	weir__tls_explain(tls, error);
	return error == SSL_ERROR_ZERO_RETURN ? EPIPE : EPROTO;
}

int weir__tls_shake(struct weir__tls *tls)
{
	int result, error;

	ERR_clear_error();
	result = SSL_do_handshake(tls->ssl);
	error = result > 0 ? 0 : judge(tls, result);
	ERR_clear_error();
	return error;
}

static int size_of(size_t size)
{
	return size > INT_MAX ? INT_MAX : (int)size;
}

ssize_t weir__tls_read(struct weir__tls *tls, void *bytes, size_t size)
{
	int n, error;

	n = SSL_read(tls->ssl, bytes, size_of(size));
	error = n > 0 ? 0 : judge(tls, n);
	tls->has_read |= n > 0;
	return error == 0 ? n : error == EPIPE ? 0 : -error;
}

ssize_t weir__tls_write(struct weir__tls *tls, const void *bytes, size_t size)
{
	int n, error;

	n = SSL_write(tls->ssl, bytes, size_of(size));
	error = n > 0 ? 0 : judge(tls, n);
	return error == 0 ? n : -error;
}

ssize_t weir__tls_read_all(struct weir__tls *tls, void *bytes, size_t size)
{
	size_t done = 0;
	ssize_t n = 0;

	tls->is_drained = tls->is_dry = false;
	for (int i = 0; i < READS_AT_ONCE && done < size && !tls->is_drained; i++) {
		n = weir__tls_read(tls, (char *)bytes + done, size - done);
		if (n <= 0)
			break;
		done += (size_t)n;
		tls->is_drained = tls->read_was_short && SSL_has_pending(tls->ssl) == 0;
	}
	/* The next call returns the end, or an error, after these bytes. A read that must first write, for a key
	 * update, continues when there is room to write. A read that has read a key update continues in the next
	 * turn. */
	if (done == 0 || n == -EAGAIN)
		tls->is_drained = n != -EAGAIN || (!tls->wants_to_write && tls->is_dry);
	if (done > 0)
		tls->n_without_data = 0;
	else if (n == -EAGAIN && !tls->is_dry && ++tls->n_without_data > WITHOUT_DATA_MAX)
		return -EPROTO;
	return done > 0 ? (ssize_t)done : n;
}

bool weir__tls_is_drained(const struct weir__tls *tls)
{
	return tls->is_drained;
}

bool weir__tls_wants_to_write(const struct weir__tls *tls)
{
	return tls->wants_to_write;
}

bool weir__tls_has_unread(const struct weir__tls *tls)
{
	return SSL_pending(tls->ssl) > 0;
}

const char *weir__tls_why(const struct weir__tls *tls)
{
	return tls->why ? tls->why : "";
}
