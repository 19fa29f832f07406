/* users.c: names and roles; passwords are hashed and compared by libcrypto. */
#include "engine/users.h"

#include <ctype.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <string.h>

#include "core/hex.h"
#include "os/memory.h"

_Static_assert((int)WEIR__DIGEST_BYTES == (int)SHA256_DIGEST_LENGTH, "a digest is a SHA-256");

bool weir__users_is_name(const char *name, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (!(isascii(name[i]) && isalnum((unsigned char)name[i])) &&
		    (name[i] == '\0' || !strchr("._@-", name[i])))
			return false;
	return length >= 1 && length <= WEIR__USER_NAME_MAX;
}

const struct weir__user *weir__users_find(const struct weir__users *users, const char *name, size_t length)
{
	for (size_t i = 0; i < users->n; i++)
		if (strlen(users->at[i].name) == length && memcmp(users->at[i].name, name, length) == 0)
			return &users->at[i];
	return NULL;
}

bool weir__users_digest(const void *password, size_t length, unsigned char ret_digest[WEIR__DIGEST_BYTES])
{
	return SHA256(password, length, ret_digest) != NULL;
}

bool weir__users_read_digest(const char *text, size_t length, unsigned char ret_digest[WEIR__DIGEST_BYTES])
{
	unsigned char digest[WEIR__DIGEST_BYTES];

	if (length > 0 && *text == '#') {
		text++;
		length--;
	}
	if (length != (size_t)2 * WEIR__DIGEST_BYTES)
		return false;
	for (size_t i = 0; i < WEIR__DIGEST_BYTES; i++) {
		const int high = weir__hex_digit(text[2 * i]), low = weir__hex_digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		digest[i] = (unsigned char)(high << 4 | low);
	}
	memcpy(ret_digest, digest, sizeof(digest));
	return true;
}

const struct weir__user *weir__users_check(const struct weir__users *users, const char *name, size_t name_length,
					   const void *password, size_t length)
{
	static const struct weir__user nobody; /* compared with for unknown users, so that they take as long */
	const struct weir__user *const user = weir__users_find(users, name, name_length);
	unsigned char digest[WEIR__DIGEST_BYTES];
	bool is_right;

	if (length > WEIR__PASSWORD_MAX || !weir__users_digest(password, length, digest))
		return NULL;
	is_right = CRYPTO_memcmp(digest, user ? user->digest : nobody.digest, sizeof(digest)) == 0;
	weir__memory_wipe(digest, sizeof(digest));
	return is_right && user && user->has_password ? user : NULL;
}

bool weir__users_is_token(const char *token, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (!(isascii(token[i]) && isalnum((unsigned char)token[i])) &&
		    (token[i] == '\0' || !strchr("-._~+/=", token[i])))
			return false;
	return length >= 1 && length <= WEIR__PASSWORD_MAX;
}

const struct weir__user *weir__users_by_token(const struct weir__users *users, const char *token, size_t length)
{
	const struct weir__user *found = NULL;
	unsigned char digest[WEIR__DIGEST_BYTES];

	if (!weir__users_is_token(token, length) || !weir__users_digest(token, length, digest))
		return NULL;
	for (size_t i = 0; i < users->n; i++) {
		const bool is_right = CRYPTO_memcmp(digest, users->at[i].token_digest, sizeof(digest)) == 0;

		if (is_right && users->at[i].has_token)
			found = &users->at[i];
	}
	weir__memory_wipe(digest, sizeof(digest));
	return found;
}

bool weir__users_is_same(const struct weir__user *a, const struct weir__user *b)
{
	return strcmp(a->name, b->name) == 0 && a->role == b->role && a->has_password == b->has_password &&
	       a->has_token == b->has_token && memcmp(a->digest, b->digest, sizeof(a->digest)) == 0 &&
	       memcmp(a->token_digest, b->token_digest, sizeof(a->token_digest)) == 0;
}

const char *weir__role_word(enum weir__role role)
{
	return role == WEIR__ROLE_ADMIN ? "admin" : "decide";
}
