/* tls_server.c: certificates, ALPN, session tickets, and the names in a client's certificate. */
#include "os/tls_server.h"

#include <errno.h>
#include <limits.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/x509v3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "os/memory.h"
#include "os/tls_internal.h"

struct weir__tls_server {
	SSL_CTX *ssl;
	_Atomic uint32_t references;
	int64_t expires_s, client_ca_expires_s;
};

/* --- session tickets --------------------------------------------------------------------------------------------- */

static int64_t now_s(void)
{
	return (int64_t)time(NULL);
}

static bool set_mac(EVP_MAC_CTX *mac, const struct weir__ticket_key *key)
{
	char digest[] = "SHA256";
	unsigned char bytes[WEIR__TICKET_KEY_BYTES];
	const OSSL_PARAM parameters[] = { OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, bytes, sizeof(bytes)),
					  OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
					  OSSL_PARAM_construct_end() };
	bool is_set;

	memcpy(bytes, key->mac, sizeof(bytes));
	is_set = EVP_MAC_CTX_set_params(mac, parameters) == 1;
	weir__memory_wipe(bytes, sizeof(bytes));
	return is_set;
}

/* The return value is OpenSSL's: 1 encrypt or decrypt with this key, 2 decrypt and send a new ticket, 0 full handshake,
 * -1 error. */
static int choose_ticket_key(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher, EVP_MAC_CTX *mac,
			     int is_new)
{
	struct weir__ticket_keys *const keys = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	struct weir__ticket_key key;
	bool is_old = false;
	int result = -1;

	if (!is_new && !weir__ticket_keys_find(keys, name, (uint64_t)now_s(), &key, &is_old))
		return 0;
	if (is_new && (!weir__ticket_keys_current(keys, (uint64_t)now_s(), &key) ||
		       weir__memory_random(iv, (size_t)EVP_CIPHER_get_iv_length(EVP_aes_256_cbc())) != 0))
		return -1;
	if (is_new)
		memcpy(name, key.name, sizeof(key.name));
	if (set_mac(mac, &key) && EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, key.cipher, iv, is_new) == 1)
		result = is_old ? 2 : 1;
	weir__memory_wipe(&key, sizeof(key));
	return result;
}

/* --- ALPN -------------------------------------------------------------------------------------------------------- */

static bool offers(const unsigned char *offered, unsigned n, const char *protocol, size_t length)
{
	for (unsigned at = 0; at < n && offered[at] < n - at; at += 1U + offered[at])
		if (offered[at] == length && memcmp(offered + at + 1, protocol, length) == 0)
			return true;
	return false;
}

static int choose_protocol(SSL *ssl, const unsigned char **ret, unsigned char *ret_n, const unsigned char *offered,
			   unsigned n, void *context)
{
	const struct weir__tls *const tls = SSL_get_app_data(ssl);

	(void)context;
	for (const char *word = tls->alpn; *word;) {
		const size_t length = strcspn(word, " ");

		if (offers(offered, n, word, length)) {
			*ret = (const unsigned char *)word;
			*ret_n = (unsigned char)length;
			return SSL_TLSEXT_ERR_OK;
		}
		word += length + (word[length] == ' ');
	}
	return SSL_TLSEXT_ERR_ALERT_FATAL;
}

bool weir__tls_has_alpn(const struct weir__tls *tls, const char *protocol)
{
	const unsigned char *chosen;
	unsigned n;

	SSL_get0_alpn_selected(tls->ssl, &chosen, &n);
	return n == strlen(protocol) && memcmp(chosen, protocol, n) == 0;
}

/* --- certificates ------------------------------------------------------------------------------------------------ */

static int64_t seconds_of(const ASN1_TIME *at)
{
	struct tm parts;

	return ASN1_TIME_to_tm(at, &parts) == 1 ? (int64_t)timegm(&parts) : 0;
}

static void note_expiry(const X509 *certificate, int64_t *expires_s)
{
	const int64_t at = seconds_of(X509_get0_notAfter(certificate));

	if (at < *expires_s)
		*expires_s = at;
}

static int refuse(const char *what, char ret_why[WEIR__TLS_WHY_SIZE])
{
	(void)snprintf(ret_why, WEIR__TLS_WHY_SIZE, "%s: %s", what, weir__tls_reason());
	return EINVAL;
}

static BIO *open_pem(const struct weir__tls_pem *pem)
{
	return pem->n <= INT_MAX ? BIO_new_mem_buf(pem->at, (int)pem->n) : NULL;
}

/* Reads the next certificate of the file. NULL: the end, or a damaged certificate, see *ret_is_damaged. */
static X509 *next_certificate(BIO *bio, bool *ret_is_damaged)
{
	X509 *const certificate = PEM_read_bio_X509(bio, NULL, weir__tls_no_password, NULL);

	*ret_is_damaged = certificate == NULL && ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE;
	if (certificate == NULL && !*ret_is_damaged)
		ERR_clear_error();
	return certificate;
}

static int load_chain(struct weir__tls_server *server, const struct weir__tls_pem *pem,
		      char ret_why[WEIR__TLS_WHY_SIZE])
{
	BIO *const bio = open_pem(pem);
	bool is_damaged = false, is_taken = true;
	X509 *certificate;
	int n = 0;

	if (bio == NULL)
		return ENOMEM;
	while (is_taken && (certificate = next_certificate(bio, &is_damaged)) != NULL) {
		note_expiry(certificate, &server->expires_s);
		is_taken = n++ == 0 ? SSL_CTX_use_certificate(server->ssl, certificate) == 1 :
				      SSL_CTX_add1_chain_cert(server->ssl, certificate) == 1;
		X509_free(certificate);
	}
	BIO_free(bio);
	if (n == 0 && !is_damaged) {
		(void)snprintf(ret_why, WEIR__TLS_WHY_SIZE,
			       "the certificate: found none in the file; use PEM, with -----BEGIN CERTIFICATE-----");
		return EINVAL;
	}
	return is_damaged || !is_taken ? refuse("the certificate", ret_why) : 0;
}

static int load_key(struct weir__tls_server *server, const struct weir__tls_pem *pem, char ret_why[WEIR__TLS_WHY_SIZE])
{
	static const char what[] = "the key, which must be PEM without a password";
	BIO *const bio = open_pem(pem);
	EVP_PKEY *key;
	int error = 0;

	if (bio == NULL)
		return ENOMEM;
	key = PEM_read_bio_PrivateKey(bio, NULL, weir__tls_no_password, NULL);
	BIO_free(bio);
	if (key == NULL)
		return refuse(what, ret_why);
	if (SSL_CTX_use_PrivateKey(server->ssl, key) != 1 || SSL_CTX_check_private_key(server->ssl) != 1)
		error = refuse("the key does not belong to the certificate", ret_why);
	EVP_PKEY_free(key);
	return error;
}

/* Adds a CA to those that sign clients' certificates, and to those that the server names to clients. */
static bool add_authority(struct weir__tls_server *server, X509 *certificate)
{
	return X509_STORE_add_cert(SSL_CTX_get_cert_store(server->ssl), certificate) == 1 &&
	       SSL_CTX_add_client_CA(server->ssl, certificate) == 1;
}

static int load_authorities(struct weir__tls_server *server, const struct weir__tls_pem *pem,
			    char ret_why[WEIR__TLS_WHY_SIZE])
{
	BIO *const bio = open_pem(pem);
	bool is_damaged = false, is_taken = true;
	X509 *certificate;
	int n = 0;

	if (bio == NULL)
		return ENOMEM;
	for (; is_taken && (certificate = next_certificate(bio, &is_damaged)) != NULL; n++) {
		note_expiry(certificate, &server->client_ca_expires_s);
		is_taken = add_authority(server, certificate);
		X509_free(certificate);
	}
	BIO_free(bio);
	if (n == 0 && !is_damaged) {
		(void)snprintf(
			ret_why, WEIR__TLS_WHY_SIZE,
			"the clients' CA: found no certificate in the file; use PEM, with -----BEGIN CERTIFICATE-----");
		return EINVAL;
	}
	return is_damaged || !is_taken ? refuse("the clients' CA", ret_why) : 0;
}

/* A session may be resumed only if its client would be accepted again. So the session context is a digest of the CAs, and
 * its last byte says whether clients need a certificate. A session may have begun where they did not. */
static bool set_session_context(struct weir__tls_server *server, const struct weir__tls_identity *identity)
{
	unsigned char digest[SHA256_DIGEST_LENGTH];
	const char *const ca = identity->client_ca.at ? identity->client_ca.at : "";

	if (SHA256((const unsigned char *)ca, identity->client_ca.at ? identity->client_ca.n : 0, digest) == NULL)
		return false;
	digest[sizeof(digest) - 1] = identity->client_ca.at && !identity->is_client_optional;
	return SSL_CTX_set_session_id_context(server->ssl, digest, SSL_MAX_SID_CTX_LENGTH) == 1;
}

static bool set_up(struct weir__tls_server *server, struct weir__ticket_keys *tickets)
{
	SSL_CTX *const ssl = server->ssl;

	(void)SSL_CTX_set_app_data(ssl, tickets);
	/* While a write waits, the data to write may grow and move. An idle connection has no buffers. */
	(void)SSL_CTX_set_mode(ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					    SSL_MODE_RELEASE_BUFFERS);
	/* Without this, one call would read a client's key updates as long as more of them arrive. */
	(void)SSL_CTX_clear_mode(ssl, SSL_MODE_AUTO_RETRY);
	(void)SSL_CTX_set_options(ssl, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
					       SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
					       SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_read_ahead(ssl, 1);                                /* one system call for a record, not two */
	(void)SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF); /* tickets need no memory here */
	(void)SSL_CTX_set_timeout(ssl, WEIR__TICKET_PERIOD_S);
	(void)SSL_CTX_set_num_tickets(ssl, 1);
	SSL_CTX_set_alpn_select_cb(ssl, choose_protocol, NULL);
	return SSL_CTX_set_min_proto_version(ssl, TLS1_2_VERSION) == 1 &&
	       SSL_CTX_set_cipher_list(ssl, "ECDHE+AESGCM:ECDHE+CHACHA20") == 1 &&
	       SSL_CTX_set_tlsext_ticket_key_evp_cb(ssl, choose_ticket_key) == 1;
}

int weir__tls_server_new(const struct weir__tls_identity *identity, struct weir__ticket_keys *tickets,
			 struct weir__tls_server **ret_server, enum weir__tls_part *ret_part,
			 char ret_why[WEIR__TLS_WHY_SIZE])
{
	struct weir__tls_server *const server = calloc(1, sizeof(*server));
	int error = ENOMEM;

	ERR_clear_error();
	*ret_part = WEIR__TLS_PART_CERTIFICATE;
	(void)snprintf(ret_why, WEIR__TLS_WHY_SIZE, "no memory for TLS");
	if (server == NULL)
		return error;
	atomic_init(&server->references, 1);
	server->expires_s = server->client_ca_expires_s = INT64_MAX;
	server->ssl = SSL_CTX_new(TLS_server_method());
	if (server->ssl == NULL || !set_up(server, tickets) || !set_session_context(server, identity))
		goto fail;
	SSL_CTX_set_verify(server->ssl,
			   identity->client_ca.at == NULL ? SSL_VERIFY_NONE :
			   identity->is_client_optional   ? SSL_VERIFY_PEER :
							    SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
			   NULL);
	error = load_chain(server, &identity->certificate, ret_why);
	if (error == 0 && identity->key.at)
		*ret_part = WEIR__TLS_PART_KEY;
	if (error == 0)
		error = load_key(server, identity->key.at ? &identity->key : &identity->certificate, ret_why);
	if (error == 0 && identity->client_ca.at) {
		*ret_part = WEIR__TLS_PART_CLIENT_CA;
		error = load_authorities(server, &identity->client_ca, ret_why);
	}
	if (error != 0)
		goto fail;
	*ret_server = server;
	return 0;
fail:
	ERR_clear_error();
	weir__tls_server_release(server);
	return error;
}

struct weir__tls_server *weir__tls_server_share(struct weir__tls_server *server)
{
	atomic_fetch_add(&server->references, 1);
	return server;
}

void weir__tls_server_release(struct weir__tls_server *server)
{
	if (server == NULL || atomic_fetch_sub(&server->references, 1) > 1)
		return;
	SSL_CTX_free(server->ssl);
	free(server);
}

int64_t weir__tls_server_expires_s(const struct weir__tls_server *server)
{
	return server->expires_s;
}

int64_t weir__tls_server_client_ca_expires_s(const struct weir__tls_server *server)
{
	return server->client_ca_expires_s;
}

/* --- connections ------------------------------------------------------------------------------------------------- */

struct weir__tls *weir__tls_accept(struct weir__tls_server *server, int socket, const char *alpn)
{
	struct weir__tls *const tls = weir__tls_make(server->ssl, socket);

	if (tls == NULL)
		return NULL;
	tls->is_server = true;
	tls->alpn = alpn;
	(void)SSL_set_app_data(tls->ssl, tls);
	SSL_set_accept_state(tls->ssl);
	return tls;
}

static bool is_about_time(long verified)
{
	return verified == X509_V_ERR_CERT_HAS_EXPIRED || verified == X509_V_ERR_CERT_NOT_YET_VALID;
}

bool weir__tls_has_heard(const struct weir__tls *tls)
{
	return tls->has_heard;
}

enum weir__tls_failure weir__tls_failure(const struct weir__tls *tls)
{
	const long verified = SSL_get_verify_result(tls->ssl);

	if (verified != X509_V_OK)
		return is_about_time(verified) ? WEIR__TLS_EXPIRED : WEIR__TLS_UNTRUSTED;
	switch (ERR_GET_REASON(tls->error)) {
	case 0:
	case SSL_R_UNEXPECTED_EOF_WHILE_READING:
		return WEIR__TLS_CLOSED;
	case SSL_R_HTTP_REQUEST:
	case SSL_R_HTTPS_PROXY_REQUEST:
	case SSL_R_WRONG_VERSION_NUMBER:
	case SSL_R_PACKET_LENGTH_TOO_LONG:
	case SSL_R_RECORD_LENGTH_MISMATCH:
		return WEIR__TLS_PLAIN;
	case SSL_R_UNSUPPORTED_PROTOCOL:
	case SSL_R_VERSION_TOO_LOW:
	case SSL_R_NO_PROTOCOLS_AVAILABLE:
		return WEIR__TLS_VERSION;
	case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
		return WEIR__TLS_NO_CERTIFICATE;
	case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
	case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
	case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
	case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
	case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
		return WEIR__TLS_REJECTED;
	default:
		return WEIR__TLS_OTHER;
	}
}

/* OpenSSL verifies certificates only in a full handshake. A session must not be resumed after the client's certificate
 * has expired. */
static bool has_expired(const struct weir__tls *tls)
{
	const X509 *const certificate = SSL_session_reused(tls->ssl) ? SSL_get0_peer_certificate(tls->ssl) : NULL;

	return certificate && X509_cmp_current_time(X509_get0_notAfter(certificate)) <= 0;
}

int weir__tls_server_shake(struct weir__tls *tls)
{
	const int error = weir__tls_shake(tls);

	if (error != 0 || !has_expired(tls))
		return error;
	SSL_set_verify_result(tls->ssl, X509_V_ERR_CERT_HAS_EXPIRED);
	weir__tls_explain(tls, SSL_ERROR_SSL);
	return EPROTO;
}

/* --- names ------------------------------------------------------------------------------------------------------- */

static bool take_name(const GENERAL_NAME *general, int type, char ret_name[WEIR__TLS_NAME_SIZE])
{
	int kind;
	const ASN1_STRING *const text = GENERAL_NAME_get0_value(general, &kind);
	const unsigned char *const bytes = kind == type ? ASN1_STRING_get0_data(text) : NULL;
	const int n = bytes ? ASN1_STRING_length(text) : 0;

	if (n <= 0 || n >= WEIR__TLS_NAME_SIZE || memchr(bytes, '\0', (size_t)n))
		return false;
	memcpy(ret_name, bytes, (size_t)n);
	ret_name[n] = '\0';
	return true;
}

size_t weir__tls_peer_names(const struct weir__tls *tls, char ret_names[WEIR__TLS_NAMES_MAX][WEIR__TLS_NAME_SIZE])
{
	static const int types[] = { GEN_URI, GEN_DNS, GEN_EMAIL };
	const X509 *const certificate = SSL_get0_peer_certificate(tls->ssl);
	GENERAL_NAMES *const names = certificate ? X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL) :
						   NULL;
	size_t n = 0;

	for (size_t type = 0; names && type < sizeof(types) / sizeof(types[0]); type++)
		for (int i = 0; i < sk_GENERAL_NAME_num(names) && n < WEIR__TLS_NAMES_MAX; i++)
			n += take_name(sk_GENERAL_NAME_value(names, i), types[type], ret_names[n]);
	GENERAL_NAMES_free(names);
	ERR_clear_error();
	return n;
}
