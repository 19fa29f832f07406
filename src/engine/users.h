/* users.h: users and their roles. Passwords and tokens are stored only as SHA-256, and nothing here prints one.
 *
 * Users are found by a keyed hash of the name or of the token's digest. The key is random and secret, so the time that
 * a lookup takes says nothing about the digests that are stored. */
#ifndef WEIR_ENGINE_USERS_H
#define WEIR_ENGINE_USERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "guard/guard.h"
#include "store/table/hash.h"

enum {
	WEIR__USERS_MAX = 10000,
	WEIR__USER_NAME_MAX = 63,
	WEIR__PASSWORD_MAX = 512, /* as in Redis */
	WEIR__DIGEST_BYTES = 32,
	WEIR__CERTIFICATE_NAME_MAX = 255,
	WEIR__ROLES_TEXT = 64, /* bytes of all roles as text, with a NUL */
};

/* The roles of a user are a set of these bits. */
enum weir__role {
	WEIR__ROLE_DECIDE = 1,  /* requests decisions, and settles its own holds */
	WEIR__ROLE_OPERATE = 2, /* gives back, resets and changes, and settles any hold */
	WEIR__ROLE_READ = 4,    /* sees the state of the server and of keys */
	WEIR__ROLE_ADMIN = 8,   /* all of these, and policies */
};

struct weir__user {
	char name[WEIR__USER_NAME_MAX + 1];
	unsigned roles; /* of enum weir__role */
	/* Goes in front of all keys and hold ids of this user, and ends with a slash; empty: none. */
	char key_prefix[WEIR__KEY_PREFIX_MAX + 1];
	uint8_t prefix_length;
	bool has_password, has_token;
	unsigned char digest[WEIR__DIGEST_BYTES];       /* of the password, for RESP */
	unsigned char token_digest[WEIR__DIGEST_BYTES]; /* of the token, for HTTP */
	/* A name in the client's certificate (subjectAltName), such as spiffe://example.org/web; empty: none. */
	char certificate[WEIR__CERTIFICATE_NAME_MAX + 1];
};

/* Zero is an empty list. */
struct weir__users {
	struct weir__user *at; /* in the order of the file */
	size_t n, room;
	/* Open addressing: numbers of users plus 1, 0 is empty. At most half of the places are taken. */
	uint32_t *by_name, *by_token, *by_certificate;
	size_t places; /* a power of 2; 0: none yet */
	struct weir__hash_secret secret;
};

/* Adds a copy of the user. Returns false without memory, random bytes or room, and changes nothing. */
bool weir__users_add(struct weir__users *users, const struct weir__user *user);

/* Returns false without memory, with *ret_users empty. */
bool weir__users_copy(const struct weir__users *users, struct weir__users *ret_users);

/* Wipes and frees all users. The list is then empty. */
void weir__users_fini(struct weir__users *users);

/* The user of AUTH without a name, as in Redis. */
#define WEIR__USER_DEFAULT "default"

/* 1 to WEIR__USER_NAME_MAX letters, digits and . _ @ -: no name needs quotes in a file, a shell or a reply. */
bool weir__users_is_name(const char *name, size_t length);

const struct weir__user *weir__users_find(const struct weir__users *users, const char *name, size_t length);

/* SHA-256. Returns false if libcrypto has no memory. */
bool weir__users_digest(const void *password, size_t length, unsigned char ret_digest[WEIR__DIGEST_BYTES]);

/* Parses 64 hexadecimal digits, with an optional # in front, as in Redis ACLs. */
bool weir__users_read_digest(const char *text, size_t length, unsigned char ret_digest[WEIR__DIGEST_BYTES]);

/* Returns the user with this name and password, or NULL. The time it takes reveals neither the password nor whether the
 * user exists. */
const struct weir__user *weir__users_check(const struct weir__users *users, const char *name, size_t name_length,
					   const void *password, size_t length);

/* 1 to WEIR__PASSWORD_MAX characters of a bearer token (RFC 6750). */
bool weir__users_is_token(const char *token, size_t length);

/* Returns the user with this token, or NULL. Digests are compared in constant time. */
const struct weir__user *weir__users_by_token(const struct weir__users *users, const char *token, size_t length);
const struct weir__user *weir__users_by_token_digest(const struct weir__users *users,
						     const unsigned char digest[WEIR__DIGEST_BYTES]);

/* 1 to WEIR__CERTIFICATE_NAME_MAX printable ASCII characters without spaces. */
bool weir__users_is_certificate(const char *name, size_t length);

/* Returns the user whose certificate has this name, or NULL. */
const struct weir__user *weir__users_by_certificate(const struct weir__users *users, const char *name, size_t length);

/* Whether all fields are equal. */
bool weir__users_is_same(const struct weir__user *a, const struct weir__user *b);

/* The role of this name, or 0. */
unsigned weir__role_of(const char *word, size_t length);

/* Writes the roles of the set, with `between` between them: "decide+read". Returns the length. */
size_t weir__roles_write(unsigned roles, const char *between, char ret_text[WEIR__ROLES_TEXT]);

#endif
