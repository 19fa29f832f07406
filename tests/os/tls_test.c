/* tls_test.c: Weir's TLS client and OpenSSL's server, and the other way round, connected by a non-blocking socket pair. */
#include "os/tls.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "os/tls_server.h"
#include "test_folder.h"

enum { LARGE = 1 << 18, SMALL_BUFFER = 4096 };

static char folder[TEST_FOLDER_SIZE], certificate[TEST_FOLDER_SIZE + 16], key[TEST_FOLDER_SIZE + 16],
	locked[TEST_FOLDER_SIZE + 16];
static SSL_CTX *server_context;

static void __attribute__((destructor)) clean_up(void)
{
	SSL_CTX_free(server_context);
	unlink(certificate);
	unlink(key);
	unlink(locked);
	rmdir(folder);
}

/* A self-signed certificate, which is its own CA. */
static X509 *make_certificate(EVP_PKEY *pair)
{
	X509 *const made = X509_new();
	X509_EXTENSION *names;
	X509_NAME *name;

	X509_set_version(made, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
	X509_gmtime_adj(X509_getm_notBefore(made), -86400);
	X509_gmtime_adj(X509_getm_notAfter(made), 86400);
	X509_set_pubkey(made, pair);
	name = X509_get_subject_name(made);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"heron", -1, -1, 0);
	X509_set_issuer_name(made, name);
	names = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "DNS:heron.example,IP:192.0.2.7");
	if (names == NULL || X509_add_ext(made, names, -1) != 1 || X509_sign(made, pair, EVP_sha256()) == 0)
		errx(1, "no certificate");
	X509_EXTENSION_free(names);
	return made;
}

static void write_key(const char *path, EVP_PKEY *pair, const EVP_CIPHER *cipher)
{
	FILE *const file = fopen(path, "w");

	if (file == NULL ||
	    PEM_write_PrivateKey(file, pair, cipher, (const unsigned char *)"word", cipher ? 4 : 0, NULL, NULL) != 1)
		err(1, "%s", path);
	fclose(file);
}

static void need_server(void)
{
	EVP_PKEY *pair;
	X509 *made;
	FILE *file;

	if (server_context)
		return;
	test_folder_new(folder, "tls");
	(void)snprintf(certificate, sizeof(certificate), "%s/cert.pem", folder);
	(void)snprintf(key, sizeof(key), "%s/key.pem", folder);
	(void)snprintf(locked, sizeof(locked), "%s/locked.pem", folder);
	pair = EVP_EC_gen("P-256");
	made = make_certificate(pair);
	file = fopen(certificate, "w");
	if (file == NULL || PEM_write_X509(file, made) != 1)
		err(1, "%s", certificate);
	fclose(file);
	write_key(key, pair, NULL);
	write_key(locked, pair, EVP_aes_128_cbc());
	server_context = SSL_CTX_new(TLS_server_method());
	if (SSL_CTX_use_certificate(server_context, made) != 1 || SSL_CTX_use_PrivateKey(server_context, pair) != 1)
		errx(1, "no server");
	X509_free(made);
	EVP_PKEY_free(pair);
}

/* Both ends. */
struct ends {
	int sockets[2];
	struct weir__tls_context *context;
	struct weir__tls *client;
	SSL *server;
};

static void open_ends(struct ends *ends, const char *ca, bool verifies, const char *name)
{
	const struct weir__tls_files files = { .ca = ca };
	const int size = SMALL_BUFFER;
	char why[WEIR__TLS_WHY_SIZE] = "";

	need_server();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends->sockets) != 0)
		err(1, "socketpair");
	for (int i = 0; i < 2; i++)
		setsockopt(ends->sockets[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (weir__tls_context_new(&files, verifies, &ends->context, why) != 0)
		errx(1, "%s", why);
	ends->client = weir__tls_new(ends->context, ends->sockets[0], name);
	ends->server = SSL_new(server_context);
	SSL_set_fd(ends->server, ends->sockets[1]);
	SSL_set_accept_state(ends->server);
}

static void close_ends(struct ends *ends)
{
	weir__tls_free(ends->client);
	weir__tls_context_free(ends->context);
	SSL_free(ends->server);
	close(ends->sockets[0]);
	close(ends->sockets[1]);
}

/* Runs the handshake. Returns the client's result. */
static int shake(struct ends *ends)
{
	int error;

	while ((error = weir__tls_shake(ends->client)) == EAGAIN)
		(void)SSL_do_handshake(ends->server);
	(void)SSL_do_handshake(ends->server);
	return error;
}

static void names_and_addresses_are_verified(void)
{
	static const struct {
		const char *name;
		bool has_ca, verifies, is_good;
		const char *says;
	} rows[] = {
		{ "heron.example", true, true, true, "" },
		{ "192.0.2.7", true, true, true, "" },
		{ "egret.example", true, true, false,
		  "TLS: certificate not trusted for egret.example: hostname mismatch" },
		{ "192.0.2.8", true, true, false, "TLS: certificate not trusted for 192.0.2.8: IP address mismatch" },
		{ "heron.example", false, true, false,
		  "TLS: certificate not trusted for heron.example: self-signed certificate" },
		{ "egret.example", false, false, true, "" },
	};

	need_server();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct ends ends;

		open_ends(&ends, rows[i].has_ca ? certificate : "", rows[i].verifies, rows[i].name);
		CHECK_EQ(shake(&ends) == 0, rows[i].is_good);
		CHECK_TEXT(weir__tls_why(ends.client), rows[i].says);
		if (rows[i].is_good && i != 1 && rows[i].verifies)
			CHECK_TEXT(SSL_get_servername(ends.server, TLSEXT_NAMETYPE_host_name), rows[i].name);
		close_ends(&ends);
	}
}

static char sent[LARGE], received[LARGE];

/* The sockets take little at a time, and the data to be written moves between two attempts. */
static void much_is_written_and_read(void)
{
	size_t written = 0, read_there = 0, echoed = 0, got = 0;
	struct ends ends;

	open_ends(&ends, certificate, true, "heron.example");
	CHECK_EQ(shake(&ends), 0);
	for (size_t i = 0; i < LARGE; i++)
		sent[i] = (char)(i * 31 + i / 257);
	while (got < LARGE) {
		static char moved[2][LARGE], back[LARGE];
		static unsigned turn;
		ssize_t n;
		int there;

		if (written < LARGE) {
			char *const copy = moved[turn++ % 2];

			memcpy(copy, sent + written, LARGE - written);
			n = weir__tls_write(ends.client, copy, LARGE - written);
			CHECK(n > 0 || n == -EAGAIN);
			CHECK(n > 0 || weir__tls_wants_to_write(ends.client));
			written += n > 0 ? (size_t)n : 0;
		}
		there = SSL_read(ends.server, back + read_there, (int)(LARGE - read_there));
		read_there += there > 0 ? (size_t)there : 0;
		if (read_there == LARGE && echoed < LARGE) {
			there = SSL_write(ends.server, back + echoed,
					  LARGE - (int)echoed < 16000 ? LARGE - (int)echoed : 16000);
			echoed += there > 0 ? (size_t)there : 0;
		}
		do {
			n = weir__tls_read(ends.client, received + got, got < LARGE ? LARGE - got : 1);
			CHECK(n > 0 || n == -EAGAIN);
			got += n > 0 ? (size_t)n : 0;
		} while (n > 0 && weir__tls_has_unread(ends.client));
		if (check_failed)
			break;
	}
	CHECK(memcmp(sent, received, LARGE) == 0);
	close_ends(&ends);
}

static void ends_are_told(void)
{
	struct ends ends;
	char byte;

	open_ends(&ends, certificate, true, "heron.example");
	CHECK_EQ(shake(&ends), 0);
	CHECK_EQ(weir__tls_read(ends.client, &byte, 1), -EAGAIN);
	CHECK(!weir__tls_wants_to_write(ends.client));
	SSL_shutdown(ends.server);
	CHECK_EQ(weir__tls_read(ends.client, &byte, 1), 0);
	close_ends(&ends);

	open_ends(&ends, certificate, true, "heron.example");
	CHECK_EQ(shake(&ends), 0);
	shutdown(ends.sockets[1], SHUT_RDWR); /* without close_notify */
	CHECK_EQ(weir__tls_read(ends.client, &byte, 1), -EPROTO);
	CHECK(*weir__tls_why(ends.client) != '\0');
	close_ends(&ends);

	open_ends(&ends, certificate, true, "heron.example");
	CHECK_EQ(shake(&ends), 0);
	shutdown(ends.sockets[1], SHUT_RDWR);
	CHECK(weir__tls_write(ends.client, "a", 1) < 0); /* without SIGPIPE */
	close_ends(&ends);

	open_ends(&ends, certificate, true, "heron.example");
	CHECK_EQ(write(ends.sockets[1], "-ERR no TLS here\r\n", 18), 18);
	CHECK_EQ(weir__tls_shake(ends.client), EPROTO);
	CHECK(strncmp(weir__tls_why(ends.client), "TLS: ", 5) == 0);
	close_ends(&ends);
}

static void versions_before_1_2_are_refused(void)
{
	struct ends ends;

	open_ends(&ends, certificate, true, "heron.example");
	SSL_set_security_level(ends.server, 0);
	SSL_set_min_proto_version(ends.server, TLS1_VERSION);
	SSL_set_max_proto_version(ends.server, TLS1_1_VERSION);
	CHECK(shake(&ends) != 0);
	close_ends(&ends);
	open_ends(&ends, certificate, true, "heron.example");
	SSL_set_max_proto_version(ends.server, TLS1_2_VERSION);
	CHECK_EQ(shake(&ends), 0);
	close_ends(&ends);
}

static void files_are_told_apart(void)
{
	static const struct {
		struct weir__tls_files files;
		const char *begins;
	} rows[] = {
		{ { .ca = "/no/such/file" }, "the CA file /no/such/file: " },
		{ { .ca = key }, "the CA file " },
		{ { .certificate = "/no/such/file" }, "the certificate /no/such/file: " },
		{ { .certificate = certificate, .key = "/no/such/key" },
		  "the key, which must not have a password, /no/such/key: " },
		{ { .certificate = certificate, .key = locked }, "the key, which must not have a password, " },
		{ { .certificate = certificate }, "the key, which must not have a password, " },
		{ { .key = key }, "the key " },
	};
	struct weir__tls_context *context;
	struct weir__tls_files good;
	char why[WEIR__TLS_WHY_SIZE];

	need_server();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		CHECK_EQ(weir__tls_context_new(&rows[i].files, true, &context, why), EINVAL);
		if (strncmp(why, rows[i].begins, strlen(rows[i].begins)) != 0)
			CHECK_TEXT(why, rows[i].begins);
	}
	good = (struct weir__tls_files){ .ca = certificate, .certificate = certificate, .key = key };
	CHECK_EQ(weir__tls_context_new(&good, true, &context, why), 0);
	weir__tls_context_free(context);
	weir__tls_context_free(NULL);
	weir__tls_free(NULL);
}

/* --- Weir's server ----------------------------------------------------------------------------------------------- */

static struct weir__tls_pem read_pem(const char *path, char *room, size_t size)
{
	FILE *const file = fopen(path, "r");
	size_t n;

	if (file == NULL)
		err(1, "%s", path);
	n = fread(room, 1, size, file);
	fclose(file);
	return (struct weir__tls_pem){ room, n };
}

struct served {
	int sockets[2];
	struct weir__ticket_keys *tickets;
	struct weir__tls_server *server;
	struct weir__tls *end;
	SSL_CTX *context;
	SSL *client;
};

static void open_served(struct served *served)
{
	char pem[2][4096], why[WEIR__TLS_WHY_SIZE] = "";
	struct weir__tls_identity identity = { .is_client_optional = false };
	enum weir__tls_part part;
	int error;

	need_server();
	identity.certificate = read_pem(certificate, pem[0], sizeof(pem[0]));
	identity.key = read_pem(key, pem[1], sizeof(pem[1]));
	served->tickets = weir__ticket_keys_new();
	if (weir__tls_server_new(&identity, served->tickets, &served->server, &part, why) != 0)
		errx(1, "%s", why);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, served->sockets) != 0)
		err(1, "socketpair");
	served->end = weir__tls_accept(served->server, served->sockets[0], "redis");
	served->context = SSL_CTX_new(TLS_client_method());
	served->client = SSL_new(served->context);
	SSL_set_fd(served->client, served->sockets[1]);
	SSL_set_connect_state(served->client);
	do {
		(void)SSL_do_handshake(served->client);
		error = weir__tls_server_shake(served->end);
	} while (error == EAGAIN);
	CHECK_EQ(error, 0);
}

static void close_served(struct served *served)
{
	SSL_free(served->client);
	SSL_CTX_free(served->context);
	weir__tls_free(served->end);
	weir__tls_server_release(served->server);
	weir__ticket_keys_free(served->tickets);
	close(served->sockets[0]);
	close(served->sockets[1]);
}

/* Reads until the server has all, or an error. Returns how many calls it took. */
static int drain(struct served *served, size_t *ret_n, ssize_t *ret_last)
{
	static char bytes[LARGE];
	int calls = 0;

	*ret_n = 0;
	do {
		*ret_last = weir__tls_read_all(served->end, bytes, sizeof(bytes));
		*ret_n += *ret_last > 0 ? (size_t)*ret_last : 0;
		calls++;
	} while (!weir__tls_is_drained(served->end) && (*ret_last > 0 || *ret_last == -EAGAIN));
	return calls;
}

static void update_key(struct served *served, int kind)
{
	CHECK(SSL_key_update(served->client, kind) == 1 && SSL_do_handshake(served->client) == 1);
}

/* A client can send small records faster than they are read. Others must have their turns. */
static void a_read_is_bounded(void)
{
	enum { RECORDS = 200 };
	struct served served;
	ssize_t last;
	size_t n;

	open_served(&served);
	CHECK(SSL_read(served.client, received, 1) < 0); /* takes the ticket */
	for (int i = 0; i < RECORDS; i++)
		CHECK_EQ(SSL_write(served.client, "x", 1), 1);
	CHECK(drain(&served, &n, &last) >= 3);
	CHECK_EQ(n, RECORDS);
	close_served(&served);
}

static void updates_of_keys_are_bounded(void)
{
	struct served served;
	ssize_t last;
	size_t n;

	open_served(&served);
	CHECK(SSL_read(served.client, received, 1) < 0);
	for (int turn = 0; turn < 10; turn++) {
		for (int i = 0; i < 10; i++)
			update_key(&served, SSL_KEY_UPDATE_NOT_REQUESTED);
		CHECK_EQ(SSL_write(served.client, "yz", 2), 2);
		(void)drain(&served, &n, &last);
		CHECK_EQ(n, 2);
	}
	update_key(&served, SSL_KEY_UPDATE_REQUESTED);
	(void)drain(&served, &n, &last);
	CHECK(n == 0 && last == -EAGAIN);
	CHECK_EQ(weir__tls_write(served.end, "answer", 6), 6);
	CHECK_EQ(SSL_read(served.client, received, LARGE), 6);
	CHECK_EQ(SSL_write(served.client, "z", 1), 1);
	(void)drain(&served, &n, &last);
	for (int i = 0; i < 32; i++) {
		update_key(&served, SSL_KEY_UPDATE_NOT_REQUESTED);
		CHECK_EQ(weir__tls_read_all(served.end, received, LARGE), -EAGAIN);
	}
	update_key(&served, SSL_KEY_UPDATE_NOT_REQUESTED);
	CHECK_EQ(weir__tls_read_all(served.end, received, LARGE), -EPROTO);
	close_served(&served);
}

/* The queue of errors belongs to the thread. What another connection left there must not change how this one ends. */
static void errors_of_others_are_ignored(void)
{
	struct served served;
	char byte;

	open_served(&served);
	ERR_raise(ERR_LIB_SSL, SSL_R_BAD_LENGTH);
	CHECK_EQ(weir__tls_read(served.end, &byte, 1), -EAGAIN);
	CHECK_EQ(ERR_peek_error(), 0);
	ERR_raise(ERR_LIB_SSL, SSL_R_BAD_LENGTH);
	SSL_shutdown(served.client);
	CHECK_EQ(weir__tls_read(served.end, &byte, 1), 0);
	CHECK_EQ(ERR_peek_error(), 0);
	close_served(&served);
}

/* OpenSSL then waits to send an alert. The connection is over all the same. */
static void a_damaged_record_is_an_error_while_the_socket_is_full(void)
{
	static const char record[5 + 32] = { 23, 3, 3, 0, 32 };
	struct served served;

	open_served(&served);
	while (write(served.sockets[0], record, 1) == 1)
		continue;
	CHECK_EQ(write(served.sockets[1], record, sizeof(record)), (ssize_t)sizeof(record));
	CHECK_EQ(weir__tls_read_all(served.end, received, LARGE), -EPROTO);
	CHECK_TEXT(weir__tls_why(served.end), "TLS: decryption failed or bad record mac");
	CHECK_EQ(ERR_peek_error(), 0);
	close_served(&served);
}

TESTS(TEST(names_and_addresses_are_verified), TEST(much_is_written_and_read), TEST(ends_are_told),
      TEST(versions_before_1_2_are_refused), TEST(files_are_told_apart), TEST(a_read_is_bounded),
      TEST(updates_of_keys_are_bounded), TEST(errors_of_others_are_ignored),
      TEST(a_damaged_record_is_an_error_while_the_socket_is_full))
