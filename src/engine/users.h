/* users.h: users and their roles. Passwords and tokens are stored only as SHA-256, and nothing here prints one. */
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
	WEIR__ROLE_DECIDE, /* requests decisions */
	WEIR__ROLE_ADMIN,  /* may also change or show the state of others */
};

struct weir__user {
	char name[WEIR__USER_NAME_MAX + 1];
	enum weir__role role;
	bool has_password, has_token;
	unsigned char digest[WEIR__DIGEST_BYTES];       /* of the password, for RESP */
	unsigned char token_digest[WEIR__DIGEST_BYTES]; /* of the token, for HTTP */
};

struct weir__users {
	struct weir__user at[WEIR__USERS_MAX];
	size_t n;
};

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

/* Returns the user with this token, or NULL. Compares with every user, so that the time it takes does not reveal which
 * one matched. */
const struct weir__user *weir__users_by_token(const struct weir__users *users, const char *token, size_t length);

/* Whether all fields are equal. */
bool weir__users_is_same(const struct weir__user *a, const struct weir__user *b);

const char *weir__role_word(enum weir__role role);

#endif
