/* users.h: who may ask, and for what. Passwords and tokens are kept as their SHA-256 alone, and nothing here prints one. */
#ifndef WEIR_ENGINE_USERS_H
#define WEIR_ENGINE_USERS_H

#include <stdbool.h>
#include <stddef.h>

enum {
	WEIR__USERS_MAX = 32,
	WEIR__USER_NAME_MAX = 63,
	WEIR__PASSWORD_MAX = 512, /* as in Redis */
	WEIR__DIGEST_BYTES = 32,
};

enum weir__role {
	WEIR__ROLE_DECIDE, /* asks for decisions */
	WEIR__ROLE_ADMIN,  /* may also do what changes or shows the state of others */
};

struct weir__user {
	char name[WEIR__USER_NAME_MAX + 1];
	enum weir__role role;
	bool has_password, has_token;
	unsigned char digest[WEIR__DIGEST_BYTES];       /* of the password, for RESP */
	unsigned char token_digest[WEIR__DIGEST_BYTES]; /* for HTTP */
};

struct weir__users {
	struct weir__user at[WEIR__USERS_MAX];
	size_t n;
};

/* The user that AUTH means when it names none, as in Redis. */
#define WEIR__USER_DEFAULT "default"

/* 1 to WEIR__USER_NAME_MAX letters, digits and . _ @ -: what needs no quotes in a file, a shell or an answer. */
bool weir__users_is_name(const char *name, size_t length);

const struct weir__user *weir__users_find(const struct weir__users *users, const char *name, size_t length);

/* SHA-256. False: libcrypto could not, for want of memory. */
bool weir__users_digest(const void *password, size_t length, unsigned char ret_digest[WEIR__DIGEST_BYTES]);

/* From 64 hexadecimal digits, behind a # if they come from an ACL of Redis. */
bool weir__users_read_digest(const char *text, size_t length, unsigned char ret_digest[WEIR__DIGEST_BYTES]);

/* The user of this name and password, or NULL. How long it takes tells nothing of the password, nor whether there is such
 * a user. */
const struct weir__user *weir__users_check(const struct weir__users *users, const char *name, size_t name_length,
					   const void *password, size_t length);

/* 1 to WEIR__PASSWORD_MAX of the signs that a bearer token may have (RFC 6750). */
bool weir__users_is_token(const char *token, size_t length);

/* The user of this token, or NULL. Takes as long for each. */
const struct weir__user *weir__users_by_token(const struct weir__users *users, const char *token, size_t length);

/* Whether all of both is the same. */
bool weir__users_is_same(const struct weir__user *a, const struct weir__user *b);

const char *weir__role_word(enum weir__role role);

#endif
