/* settings_file.c: reads settings from a YAML file, and reports errors with line and column.
 *
 * The file may hold passwords. So no message repeats text where a password might be, and the bytes are wiped after
 * use. */
#include "server/settings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "os/memory.h"
#include "os/text_file.h"
#include "policy/document.h"
#include "policy/envoy.h"
#include "policy/read.h"

/* Bound for the parsed tree: a key and its value take some hundred bytes. */
static const size_t document_most = (size_t)1 << 30;

static struct weir__setting_place place_of(const struct weir__node *node)
{
	return (struct weir__setting_place){ WEIR__FROM_FILE, node->at.line, node->at.column };
}

static bool is_word(const struct weir__node *node, const char *word)
{
	return node->kind == WEIR__NODE_TEXT && weir__slice_is(node->text, word);
}

/* Whether YAML takes this for null. An unquoted # begins a comment, which leaves an empty value. */
static bool is_nothing(const struct weir__node *node)
{
	return node->kind == WEIR__NODE_TEXT && !node->is_quoted &&
	       (node->text.n == 0 || is_word(node, "~") || is_word(node, "null"));
}

static const char *kind_of(const struct weir__node *node)
{
	if (is_nothing(node))
		return "nothing";
	return node->kind == WEIR__NODE_TEXT ? "a value" : weir__node_kind_words(node);
}

/* Stops reading a file with too many errors. */
static bool is_enough(const struct weir__settings *settings)
{
	return settings->n_errors > WEIR__SETTING_ERRORS_MAX;
}

/* Bytes of a key to show in messages. */
enum { SHOWN = 40 };

/* --- users ------------------------------------------------------------------------------------------------------ */

enum user_key { PASSWORD, PASSWORD_FILE, SHA256, TOKEN, TOKEN_SHA256, ROLES, ROLE, KEY_PREFIX, CERTIFICATE, USER_KEYS };

static const char *const user_keys[USER_KEYS] = { "password", "password_file", "sha256",
						  "token",    "token_sha256",  "roles",
						  "role",     "key_prefix",    "certificate" };

/* How many of these keys a user has so far. */
struct secrets {
	unsigned passwords, tokens, roles, certificates;
};

#define USER_KEYS_RIGHT "password, password_file or sha256, token or token_sha256, certificate, roles and key_prefix"
#define ROLES_RIGHT "use decide, operate, read or admin"

static bool put_password(struct weir__user *user, const char *text, size_t length)
{
	return length >= 1 && length <= WEIR__PASSWORD_MAX && weir__users_digest(text, length, user->digest);
}

/* Takes the first line of the file: secrets are mounted as such files. */
static const char *read_password_file(struct weir__user *user, const char *path)
{
	enum { FILE_MAX = 4096 }; /* other lines are ignored */
	const char *fault = NULL, *end;
	char *text;
	size_t n;
	const int error = weir__text_file_read(path, FILE_MAX, &text, &n);

	if (error != 0)
		return weir__text_file_error(error);
	end = memchr(text, '\n', n);
	if (!put_password(user, text, end ? (size_t)(end - text) : n))
		fault = "found no password; use a file of one line of 1 to 512 bytes";
	weir__memory_wipe(text, n);
	free(text);
	return fault;
}

/* One role, or a list of them. */
static const char *read_roles(struct weir__user *user, const struct weir__node *node)
{
	const bool is_list = node->kind == WEIR__NODE_LIST;
	const struct weir__node *one = is_list ? node->members : node;

	user->roles = 0;
	if (one == NULL)
		return ROLES_RIGHT ", at least one";
	for (; one; one = is_list ? one->next : NULL) {
		const unsigned role = one->kind == WEIR__NODE_TEXT ? weir__role_of(one->text.at, one->text.n) : 0;

		if (role == 0)
			return is_list ? ROLES_RIGHT ", each in the list" : ROLES_RIGHT ", or a list of them";
		user->roles |= role;
	}
	return NULL;
}

static const char *read_user_value(struct weir__user *user, enum user_key key, const struct weir__node *node)
{
	if (key == ROLES || key == ROLE)
		return read_roles(user, node);
	if (node->kind != WEIR__NODE_TEXT || is_nothing(node))
		return "use text, in quotes if it has a # or a colon";
	switch (key) {
	case PASSWORD:
		return put_password(user, node->text.at, node->text.n) ? NULL : "use 1 to 512 bytes";
	case PASSWORD_FILE:
		return read_password_file(user, node->text.at);
	case SHA256:
		return weir__users_read_digest(node->text.at, node->text.n, user->digest) ?
			       NULL :
			       "use the 64 hexadecimal digits that sha256sum prints for the password";
	case KEY_PREFIX:
		if (!weir__guard_is_prefix(node->text.at, node->text.n))
			return "use 1 to 31 letters, digits and . _ @ -, then a slash, as in acme/";
		memcpy(user->key_prefix, node->text.at, node->text.n);
		user->prefix_length = (uint8_t)node->text.n;
		return NULL;
	case CERTIFICATE:
		if (!weir__users_is_certificate(node->text.at, node->text.n))
			return "use a name in the client's certificate (subjectAltName), without URI: or DNS:, such as "
			       "spiffe://example.org/web or web.example.org";
		memcpy(user->certificate, node->text.at, node->text.n);
		return NULL;
	case TOKEN:
		return weir__users_is_token(node->text.at, node->text.n) &&
				       weir__users_digest(node->text.at, node->text.n, user->token_digest) ?
			       NULL :
			       "use 1 to 512 letters, digits and - . _ ~ + / =";
	default:
		return weir__users_read_digest(node->text.at, node->text.n, user->token_digest) ?
			       NULL :
			       "use the 64 hexadecimal digits that sha256sum prints for the token";
	}
}

/* Whether the text differs from the word by one letter added, missing or changed, or by two letters swapped. */
static bool is_nearly(struct weir__slice text, const char *word)
{
	const size_t n = strlen(word);
	size_t same = 0, skip_text = 1, skip_word = 1;

	while (same < n && same < text.n && text.at[same] == word[same])
		same++;
	if (text.n == n && same + 1 < n && text.at[same] == word[same + 1] && text.at[same + 1] == word[same])
		skip_text = skip_word = 2;
	else if (text.n == n + 1)
		skip_word = 0;
	else if (text.n + 1 == n)
		skip_text = 0;
	else if (text.n != n)
		return false;
	return same + skip_word <= n && same + skip_text <= text.n &&
	       memcmp(text.at + same + skip_text, word + same + skip_word, n - same - skip_word) == 0;
}

static void read_user_member(struct weir__settings *settings, struct weir__user *user, const struct weir__node *value,
			     struct secrets *secrets)
{
	const char *fault;

	for (enum user_key i = 0; i < USER_KEYS; i++)
		if (is_word(value->key, user_keys[i])) {
			secrets->passwords += i <= SHA256;
			secrets->tokens += i == TOKEN || i == TOKEN_SHA256;
			secrets->roles += i == ROLES || i == ROLE;
			secrets->certificates += i == CERTIFICATE;
			fault = read_user_value(user, i, value);
			if (fault)
				weir__settings_error(settings, place_of(value), NULL, "users.%s.%s: %s", user->name,
						     user_keys[i], fault);
			return;
		}
	/* A key close to one of these is a typo. Any other key is not repeated: it may be a password in the wrong
	 * place. */
	for (enum user_key i = 0; i < USER_KEYS; i++)
		if (is_nearly(value->key->text, user_keys[i])) {
			weir__settings_error(settings, place_of(value->key), NULL,
					     "users.%s.%s: found an unknown key; did you mean %s?", user->name,
					     value->key->text.at, user_keys[i]);
			return;
		}
	weir__settings_error(settings, place_of(value->key), NULL,
			     "users.%s: found an unknown key; use " USER_KEYS_RIGHT, user->name);
}

static void check_secrets(struct weir__settings *settings, const struct weir__user *user, const struct secrets *secrets,
			  const struct weir__node *name)
{
	const struct weir__user *const other =
		secrets->tokens > 0 ? weir__users_by_token_digest(&settings->users, user->token_digest) : NULL;
	const struct weir__user *const twin = secrets->certificates > 0 ?
						      weir__users_by_certificate(&settings->users, user->certificate,
										 strlen(user->certificate)) :
						      NULL;

	if (user->prefix_length > 0 && (user->roles & WEIR__ROLE_ADMIN))
		weir__settings_error(
			settings, place_of(name), NULL,
			"users.%s: found key_prefix and the role admin, which sees all keys; use one of the two",
			user->name);
	if (secrets->roles > 1)
		weir__settings_error(settings, place_of(name), NULL, "users.%s: found both roles and role; use roles",
				     user->name);
	if (secrets->passwords > 1)
		weir__settings_error(
			settings, place_of(name), NULL,
			"users.%s: found more than one password; use one of password, password_file and sha256",
			user->name);
	if (secrets->tokens > 1)
		weir__settings_error(settings, place_of(name), NULL,
				     "users.%s: found more than one token; use one of token and token_sha256",
				     user->name);
	if (secrets->passwords + secrets->tokens + secrets->certificates == 0)
		weir__settings_error(
			settings, place_of(name), NULL,
			"users.%s: found neither password, token nor certificate; use one of password, password_file and "
			"sha256, or one of token and token_sha256, or certificate, or several of these",
			user->name);
	if (other)
		weir__settings_error(settings, place_of(name), NULL,
				     "users.%s: found the same token as users.%s; use another", user->name,
				     other->name);
	if (twin)
		weir__settings_error(settings, place_of(name), NULL,
				     "users.%s: found the same certificate as users.%s; use another", user->name,
				     twin->name);
}

static void read_user(struct weir__settings *settings, const struct weir__node *node)
{
	const struct weir__node *const name = node->key;
	struct weir__users *const users = &settings->users;
	struct weir__user user = { .roles = WEIR__ROLE_DECIDE };
	struct secrets secrets = { 0, 0, 0, 0 };

	if (!weir__users_is_name(name->text.at, name->text.n)) {
		weir__settings_error(settings, place_of(name), NULL,
				     "users: found an invalid name; use 1 to %d letters, digits and . _ @ -",
				     WEIR__USER_NAME_MAX);
		return;
	}
	memcpy(user.name, name->text.at, name->text.n);
	if (node->kind != WEIR__NODE_MAP) {
		weir__settings_error(settings, place_of(node), NULL,
				     "users.%s: found %s; use a map with " USER_KEYS_RIGHT, user.name, kind_of(node));
		return;
	}
	for (const struct weir__node *member = node->members; member && !is_enough(settings); member = member->next)
		read_user_member(settings, &user, member, &secrets);
	check_secrets(settings, &user, &secrets, name);
	user.has_password = secrets.passwords > 0;
	user.has_token = secrets.tokens > 0;
	if (users->n == WEIR__USERS_MAX)
		weir__settings_error(settings, place_of(name), NULL, "users.%s: too many; use at most %d", user.name,
				     WEIR__USERS_MAX);
	else if (!weir__users_add(users, &user))
		weir__settings_error(settings, place_of(name), NULL, "users.%s: no memory for it", user.name);
	weir__memory_wipe(&user, sizeof(user));
}

static void read_users(struct weir__settings *settings, const struct weir__node *node)
{
	if (node->kind != WEIR__NODE_MAP || node->n == 0) {
		weir__settings_error(settings, place_of(node), "users",
				     "found %s; use a map of names, each with a password or token, and roles",
				     node->kind == WEIR__NODE_MAP ? "an empty map" : kind_of(node));
		return;
	}
	for (const struct weir__node *member = node->members; member && !is_enough(settings); member = member->next)
		read_user(settings, member);
}

/* --- settings --------------------------------------------------------------------------------------------------- */

static void read_value(struct weir__settings *settings, const struct weir__setting *setting,
		       const struct weir__node *node)
{
	char right[256];

	if (node->kind == WEIR__NODE_TEXT && !is_nothing(node)) {
		weir__settings_put(settings, setting, place_of(node), node->text.at, node->text.n);
		return;
	}
	weir__settings_write_right(setting, right, sizeof(right));
	weir__settings_error(settings, place_of(node), setting->name, "found %s; %s", kind_of(node), right);
}

static void read_list(struct weir__settings *settings, const struct weir__setting *setting,
		      const struct weir__node *node)
{
	if (node->kind != WEIR__NODE_LIST || node->n == 0) {
		read_value(settings, setting, node);
		return;
	}
	for (const struct weir__node *item = node->members; item; item = item->next)
		read_value(settings, setting, item);
}

static void refuse_unknown(struct weir__settings *settings, const struct weir__node *key)
{
	enum { NAME_MOST = 32 }; /* a name and the comma after it */
	char names[WEIR__SETTINGS * NAME_MOST] = "";
	size_t length = 0;

	for (size_t i = 0; i < WEIR__SETTINGS && length < sizeof(names); i++)
		length += (size_t)snprintf(names + length, sizeof(names) - length, "%s, ", weir__setting_rows[i].name);
	weir__settings_error(settings, place_of(key), NULL,
			     "%.*s: found an unknown setting; use %slimits, attributes or unmatched", SHOWN,
			     key->text.at, names);
}

/* The policy loader reads the keys of a policy. Here only their presence is noted. */
static void read_setting(struct weir__settings *settings, const struct weir__node *node)
{
	const struct weir__setting *const setting = weir__settings_find(node->key->text.at, node->key->text.n);

	weir__settings_note_name(settings, place_of(node->key), node->key->text.at, node->key->text.n);
	if (weir__policy_is_top_key(node->key->text))
		settings->has_policy = true;
	else if (setting == NULL)
		refuse_unknown(settings, node->key);
	else if (setting->kind == WEIR__SETTING_USERS)
		read_users(settings, node);
	else if (weir__settings_is_list(setting))
		read_list(settings, setting, node);
	else
		read_value(settings, setting, node);
}

/* --- the file --------------------------------------------------------------------------------------------------- */

static void wipe(const struct weir__node *node)
{
	for (; node; node = node->next) {
		if (node->key)
			weir__memory_wipe((void *)(uintptr_t)node->key->text.at, node->key->text.n);
		if (node->kind == WEIR__NODE_TEXT)
			weir__memory_wipe((void *)(uintptr_t)node->text.at, node->text.n);
		wipe(node->members);
	}
}

/* The line already says where. */
static void pass_on(void *settings_, const char *line)
{
	struct weir__settings *const settings = settings_;

	if (settings->n_errors++ < WEIR__SETTING_ERRORS_MAX)
		fprintf(settings->errors, "%s\n", line);
}

bool weir__settings_read_text(struct weir__settings *settings, const char *text, size_t length)
{
	struct weir__pool pool = weir__pool_of(document_most);
	struct weir__diagnostics diagnostics = { settings->config, pass_on, settings, 0 };
	const struct weir__node *const root = weir__document_read(&pool, (struct weir__slice){ text, length },
								  &diagnostics);

	if (root && root->kind != WEIR__NODE_MAP && !is_nothing(root))
		weir__settings_error(settings, place_of(root), NULL,
				     "found %s; use a map of settings, such as keys: 5m", kind_of(root));
	if (root && weir__envoy_is(root))
		settings->has_policy = true; /* an Envoy policy has no settings */
	for (const struct weir__node *member = root && !weir__envoy_is(root) ? root->members : NULL;
	     member && !is_enough(settings); member = member->next)
		if (root->kind == WEIR__NODE_MAP)
			read_setting(settings, member);
	settings->lacks_policy = root && root->members && !settings->has_policy;
	wipe(root);
	weir__pool_free(&pool);
	return root != NULL;
}

void weir__settings_read_file(struct weir__settings *settings)
{
	size_t length;
	char *text;
	const int error = weir__text_file_read(settings->config, WEIR__SETTINGS_FILE_MAX, &text, &length);

	if (error == EFBIG)
		weir__settings_error(settings, settings->config_place, "config",
				     "%s: found more than %d bytes; use a smaller file", settings->config,
				     WEIR__SETTINGS_FILE_MAX);
	else if (error != 0)
		weir__settings_error(settings, settings->config_place, "config", "%s: %s", settings->config,
				     weir__text_file_error(error));
	if (error != 0)
		return;
	(void)weir__settings_read_text(settings, text, length);
	weir__memory_wipe(text, length);
	free(text);
}
