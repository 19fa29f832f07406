/* users.c: names and roles, and the tables that find them. libcrypto hashes and compares passwords. */
#include "engine/users.h"

#include <ctype.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
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

/* --- the list --------------------------------------------------------------------------------------------------- */

static size_t place_of(const struct weir__users *users, const void *bytes, size_t length)
{
	return weir__hash(&users->secret, bytes, length) & (users->places - 1);
}

static void put(const struct weir__users *users, uint32_t *table, const void *bytes, size_t length, size_t number)
{
	size_t place = place_of(users, bytes, length);

	while (table[place] != 0)
		place = (place + 1) & (users->places - 1);
	table[place] = (uint32_t)number + 1;
}

static void put_user(const struct weir__users *users, size_t number)
{
	const struct weir__user *const user = &users->at[number];

	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): after grow, users has the new arrays */
	put(users, users->by_name, user->name, strlen(user->name), number);
	if (user->has_token)
		put(users, users->by_token, user->token_digest, sizeof(user->token_digest), number);
	if (user->certificate[0] != '\0')
		put(users, users->by_certificate, user->certificate, strlen(user->certificate), number);
}

/* Doubles the room. The old memory is wiped, so realloc would not do. */
static bool grow(struct weir__users *users)
{
	enum { FIRST = 32 };
	struct weir__users next = { .n = users->n, .room = users->room ? 2 * users->room : FIRST };

	next.places = 2 * next.room;
	next.at = calloc(next.room, sizeof(*next.at));
	next.by_name = calloc(next.places, sizeof(*next.by_name));
	next.by_token = calloc(next.places, sizeof(*next.by_token));
	next.by_certificate = calloc(next.places, sizeof(*next.by_certificate));
	if (next.at == NULL || next.by_name == NULL || next.by_token == NULL || next.by_certificate == NULL ||
	    weir__memory_random(&next.secret, sizeof(next.secret)) != 0) {
		next.n = 0;
		weir__users_fini(&next);
		return false;
	}
	if (users->n > 0)
		memcpy(next.at, users->at, users->n * sizeof(*next.at));
	for (size_t i = 0; i < next.n; i++)
		put_user(&next, i);
	weir__users_fini(users);
	*users = next;
	return true;
}

bool weir__users_add(struct weir__users *users, const struct weir__user *user)
{
	if (users->n == WEIR__USERS_MAX || (users->n == users->room && !grow(users)))
		return false;
	users->at[users->n] = *user;
	put_user(users, users->n++);
	return true;
}

bool weir__users_copy(const struct weir__users *users, struct weir__users *ret_users)
{
	*ret_users = (struct weir__users){ .at = NULL };
	for (size_t i = 0; i < users->n; i++)
		if (!weir__users_add(ret_users, &users->at[i])) {
			weir__users_fini(ret_users);
			return false;
		}
	return true;
}

void weir__users_fini(struct weir__users *users)
{
	if (users->at)
		weir__memory_wipe(users->at, users->room * sizeof(*users->at));
	free(users->at);
	free(users->by_name);
	free(users->by_token);
	free(users->by_certificate);
	*users = (struct weir__users){ .at = NULL };
}

const struct weir__user *weir__users_find(const struct weir__users *users, const char *name, size_t length)
{
	if (users->n == 0)
		return NULL;
	for (size_t place = place_of(users, name, length); users->by_name[place] != 0;
	     place = (place + 1) & (users->places - 1)) {
		const struct weir__user *const user = &users->at[users->by_name[place] - 1];

		if (strlen(user->name) == length && memcmp(user->name, name, length) == 0)
			return user;
	}
	return NULL;
}

/* --- passwords and tokens --------------------------------------------------------------------------------------- */

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
	static const struct weir__user no_user; /* unknown users are compared with this, to take as long */
	const struct weir__user *const user = weir__users_find(users, name, name_length);
	unsigned char digest[WEIR__DIGEST_BYTES];
	bool is_right;

	if (length > WEIR__PASSWORD_MAX || !weir__users_digest(password, length, digest))
		return NULL;
	is_right = CRYPTO_memcmp(digest, user ? user->digest : no_user.digest, sizeof(digest)) == 0;
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

const struct weir__user *weir__users_by_token_digest(const struct weir__users *users,
						     const unsigned char digest[WEIR__DIGEST_BYTES])
{
	if (users->n == 0)
		return NULL;
	for (size_t place = place_of(users, digest, WEIR__DIGEST_BYTES); users->by_token[place] != 0;
	     place = (place + 1) & (users->places - 1)) {
		const struct weir__user *const user = &users->at[users->by_token[place] - 1];

		if (CRYPTO_memcmp(digest, user->token_digest, WEIR__DIGEST_BYTES) == 0)
			return user;
	}
	return NULL;
}

const struct weir__user *weir__users_by_token(const struct weir__users *users, const char *token, size_t length)
{
	const struct weir__user *found;
	unsigned char digest[WEIR__DIGEST_BYTES];

	if (!weir__users_is_token(token, length) || !weir__users_digest(token, length, digest))
		return NULL;
	found = weir__users_by_token_digest(users, digest);
	weir__memory_wipe(digest, sizeof(digest));
	return found;
}

bool weir__users_is_certificate(const char *name, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (!isascii(name[i]) || !isgraph((unsigned char)name[i]))
			return false;
	return length >= 1 && length <= WEIR__CERTIFICATE_NAME_MAX;
}

const struct weir__user *weir__users_by_certificate(const struct weir__users *users, const char *name, size_t length)
{
	if (users->n == 0)
		return NULL;
	for (size_t place = place_of(users, name, length); users->by_certificate[place] != 0;
	     place = (place + 1) & (users->places - 1)) {
		const struct weir__user *const user = &users->at[users->by_certificate[place] - 1];

		if (strlen(user->certificate) == length && memcmp(user->certificate, name, length) == 0)
			return user;
	}
	return NULL;
}

bool weir__users_is_same(const struct weir__user *a, const struct weir__user *b)
{
	return strcmp(a->name, b->name) == 0 && a->roles == b->roles && strcmp(a->key_prefix, b->key_prefix) == 0 &&
	       strcmp(a->certificate, b->certificate) == 0 && a->has_password == b->has_password &&
	       a->has_token == b->has_token && memcmp(a->digest, b->digest, sizeof(a->digest)) == 0 &&
	       memcmp(a->token_digest, b->token_digest, sizeof(a->token_digest)) == 0;
}

/* --- roles ------------------------------------------------------------------------------------------------------ */

static const struct {
	enum weir__role role;
	const char *word;
} known_roles[] = { { WEIR__ROLE_DECIDE, "decide" },
		    { WEIR__ROLE_OPERATE, "operate" },
		    { WEIR__ROLE_READ, "read" },
		    { WEIR__ROLE_ADMIN, "admin" } };

enum { ROLES = sizeof(known_roles) / sizeof(known_roles[0]) };

unsigned weir__role_of(const char *word, size_t length)
{
	for (size_t i = 0; i < ROLES; i++)
		if (strlen(known_roles[i].word) == length && memcmp(known_roles[i].word, word, length) == 0)
			return known_roles[i].role;
	return 0;
}

size_t weir__roles_write(unsigned roles, const char *between, char ret_text[WEIR__ROLES_TEXT])
{
	size_t length = 0;

	ret_text[0] = '\0';
	for (size_t i = 0; i < ROLES; i++)
		if (roles & known_roles[i].role)
			length += (size_t)snprintf(ret_text + length, WEIR__ROLES_TEXT - length, "%s%s",
						   length ? between : "", known_roles[i].word);
	return length;
}
