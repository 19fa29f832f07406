/* settings_file.c: settings from a file of YAML, read by libyaml, with the line and column of whatever is wrong.
 *
 * The file may hold passwords: no message repeats what stands where one might be, and its bytes are wiped. */
#include "serve/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>

struct reading {
	struct weir__settings *settings;
	yaml_document_t *document;
};

static struct weir__setting_place place_of(const yaml_node_t *node)
{
	return (struct weir__setting_place){ WEIR__FROM_FILE, node->start_mark.line + 1, node->start_mark.column + 1 };
}

static const char *scalar_text(const yaml_node_t *node)
{
	return (const char *)node->data.scalar.value;
}

static size_t scalar_length(const yaml_node_t *node)
{
	return node->data.scalar.length;
}

static bool is_word(const yaml_node_t *node, const char *word)
{
	return node->type == YAML_SCALAR_NODE && scalar_length(node) == strlen(word) &&
	       memcmp(scalar_text(node), word, scalar_length(node)) == 0;
}

/* What YAML takes for null. A # that is not quoted begins a comment, which leaves that. */
static bool is_nothing(const yaml_node_t *node)
{
	return node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	       (scalar_length(node) == 0 || is_word(node, "~") || is_word(node, "null"));
}

static const char *kind_of(const yaml_node_t *node)
{
	if (is_nothing(node))
		return "nothing";
	if (node->type == YAML_SEQUENCE_NODE)
		return "a list";
	return node->type == YAML_MAPPING_NODE ? "a map" : "a value";
}

/* A file of nothing but faults is not read to its end: each key is compared with those before it. */
static bool is_enough(const struct reading *reading)
{
	return reading->settings->faults > WEIR__SETTING_FAULTS_MAX;
}

/* --- keys of a map ---------------------------------------------------------------------------------------------- */

/* At most so many bytes of a key, for messages. */
enum { SHOWN = 40 };

/* Whether the key of this pair is text, and the first of its name in the map. */
static bool check_key(const struct reading *reading, const yaml_node_t *map, const yaml_node_pair_t *pair)
{
	const yaml_node_t *const key = yaml_document_get_node(reading->document, pair->key);

	if (key->type != YAML_SCALAR_NODE) {
		weir__settings_fault(reading->settings, place_of(key), NULL, "found %s as a key; use a name",
				     kind_of(key));
		return false;
	}
	for (const yaml_node_pair_t *other = map->data.mapping.pairs.start; other < pair; other++) {
		const yaml_node_t *const before = yaml_document_get_node(reading->document, other->key);

		if (before->type == YAML_SCALAR_NODE && scalar_length(before) == scalar_length(key) &&
		    memcmp(scalar_text(before), scalar_text(key), scalar_length(key)) == 0) {
			weir__settings_fault(reading->settings, place_of(key), NULL,
					     "%.*s: found a second time; keep this one or that in line %zu", SHOWN,
					     scalar_text(key), before->start_mark.line + 1);
			return false;
		}
	}
	return true;
}

/* --- users ------------------------------------------------------------------------------------------------------ */

enum user_key { PASSWORD, PASSWORD_FILE, SHA256, ROLE, USER_KEYS };

static const char *const user_keys[USER_KEYS] = { "password", "password_file", "sha256", "role" };

static bool put_password(struct weir__user *user, const char *text, size_t length)
{
	return length >= 1 && length <= WEIR__PASSWORD_MAX && weir__users_digest(text, length, user->digest);
}

/* The first line of a file, which is what secrets are mounted as. */
static const char *read_password_file(struct weir__user *user, const char *path)
{
	char text[WEIR__PASSWORD_MAX + 2];
	const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t n = descriptor < 0 ? -1 : read(descriptor, text, sizeof(text));
	const int error = errno;
	const char *fault = NULL;

	if (descriptor >= 0)
		close(descriptor);
	if (n < 0)
		return strerror(error);
	if (!put_password(user, text,
			  memchr(text, '\n', (size_t)n) ? (size_t)((char *)memchr(text, '\n', (size_t)n) - text) :
							  (size_t)n))
		fault = "found no password; use a file of one line of 1 to 512 bytes";
	weir__users_wipe(text, sizeof(text));
	return fault;
}

static const char *read_user_value(struct weir__user *user, enum user_key key, const yaml_node_t *node)
{
	if (node->type != YAML_SCALAR_NODE || is_nothing(node))
		return key == ROLE ? "use decide or admin" : "use text, in quotes if it has a # or a colon";
	switch (key) {
	case PASSWORD:
		return put_password(user, scalar_text(node), scalar_length(node)) ? NULL : "use 1 to 512 bytes";
	case PASSWORD_FILE:
		return strlen(scalar_text(node)) == scalar_length(node) ? read_password_file(user, scalar_text(node)) :
									  "use a path";
	case SHA256:
		return weir__users_read_digest(scalar_text(node), scalar_length(node), user->digest) ?
			       NULL :
			       "use the 64 hexadecimal digits that sha256sum prints for the password";
	default:
		user->role = is_word(node, "admin") ? WEIR__ROLE_ADMIN : WEIR__ROLE_DECIDE;
		return is_word(node, "admin") || is_word(node, "decide") ? NULL : "use decide or admin";
	}
}

static void read_user_pair(const struct reading *reading, struct weir__user *user, const yaml_node_pair_t *pair,
			   unsigned *secrets)
{
	const yaml_node_t *const key = yaml_document_get_node(reading->document, pair->key);
	const yaml_node_t *const value = yaml_document_get_node(reading->document, pair->value);
	const char *fault;

	for (enum user_key i = 0; i < USER_KEYS; i++)
		if (is_word(key, user_keys[i])) {
			*secrets += i != ROLE;
			fault = read_user_value(user, i, value);
			if (fault)
				weir__settings_fault(reading->settings, place_of(value), NULL, "users.%s.%s: %s",
						     user->name, user_keys[i], fault);
			return;
		}
	/* The key itself is not repeated: it may be a password in the wrong place. */
	weir__settings_fault(reading->settings, place_of(key), NULL,
			     "users.%s: found an unknown key; use password, password_file or sha256, and role",
			     user->name);
}

static void read_user(const struct reading *reading, const yaml_node_t *name, const yaml_node_t *node)
{
	struct weir__users *const users = &reading->settings->users;
	struct weir__user user = { .role = WEIR__ROLE_DECIDE };
	unsigned secrets = 0;

	if (!weir__users_is_name(scalar_text(name), scalar_length(name))) {
		weir__settings_fault(reading->settings, place_of(name), NULL,
				     "users: found a name that cannot be; use 1 to %d letters, digits and . _ @ -",
				     WEIR__USER_NAME_MAX);
		return;
	}
	memcpy(user.name, scalar_text(name), scalar_length(name));
	if (node->type != YAML_MAPPING_NODE) {
		weir__settings_fault(reading->settings, place_of(node), NULL,
				     "users.%s: found %s; use a map with password, password_file or sha256, and role",
				     user.name, kind_of(node));
		return;
	}
	for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
	     pair < node->data.mapping.pairs.top && !is_enough(reading); pair++)
		if (check_key(reading, node, pair))
			read_user_pair(reading, &user, pair, &secrets);
	if (secrets != 1)
		weir__settings_fault(reading->settings, place_of(name), NULL,
				     "users.%s: found %s; use one of password, password_file and sha256", user.name,
				     secrets == 0 ? "no password" : "more than one password");
	if (users->n == WEIR__USERS_MAX)
		weir__settings_fault(reading->settings, place_of(name), NULL,
				     "users.%s: too many; there are at most %d", user.name, WEIR__USERS_MAX);
	else
		users->at[users->n++] = user;
	weir__users_wipe(user.digest, sizeof(user.digest));
}

static void read_users(const struct reading *reading, const yaml_node_t *node)
{
	if (node->type != YAML_MAPPING_NODE || node->data.mapping.pairs.start == node->data.mapping.pairs.top) {
		weir__settings_fault(reading->settings, place_of(node), "users",
				     "found %s; use a map of names, each with a password and a role",
				     node->type == YAML_MAPPING_NODE ? "an empty map" : kind_of(node));
		return;
	}
	for (const yaml_node_pair_t *pair = node->data.mapping.pairs.start;
	     pair < node->data.mapping.pairs.top && !is_enough(reading); pair++)
		if (check_key(reading, node, pair))
			read_user(reading, yaml_document_get_node(reading->document, pair->key),
				  yaml_document_get_node(reading->document, pair->value));
}

/* --- settings --------------------------------------------------------------------------------------------------- */

static void read_value(const struct reading *reading, const struct weir__setting *setting, const yaml_node_t *node)
{
	char right[256];

	if (node->type == YAML_SCALAR_NODE && !is_nothing(node)) {
		weir__settings_put(reading->settings, setting, place_of(node), scalar_text(node), scalar_length(node));
		return;
	}
	weir__settings_write_right(setting, right, sizeof(right));
	weir__settings_fault(reading->settings, place_of(node), setting->name, "found %s; %s", kind_of(node), right);
}

static void read_list(const struct reading *reading, const struct weir__setting *setting, const yaml_node_t *node)
{
	if (node->type != YAML_SEQUENCE_NODE || node->data.sequence.items.start == node->data.sequence.items.top) {
		read_value(reading, setting, node);
		return;
	}
	for (const yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top;
	     item++)
		read_value(reading, setting, yaml_document_get_node(reading->document, *item));
}

static void refuse_unknown(const struct reading *reading, const yaml_node_t *key)
{
	char names[256];
	size_t length = 0;

	if (is_word(key, "limits")) {
		weir__settings_fault(
			reading->settings, place_of(key), "limits",
			"named limits are not served by this version; say the limit with each request, as in "
			"WEIR.TAKE user:42 '100/min burst 20'");
		return;
	}
	for (size_t i = 0; i < WEIR__SETTINGS; i++)
		length += (size_t)snprintf(names + length, sizeof(names) - length, "%s%s",
					   i == 0                  ? "" :
					   i + 1 == WEIR__SETTINGS ? " or " :
								     ", ",
					   weir__setting_rows[i].name);
	weir__settings_fault(reading->settings, place_of(key), NULL, "%.*s: found an unknown setting; use %s", SHOWN,
			     scalar_text(key), names);
}

static void read_settings(const struct reading *reading, const yaml_node_t *root)
{
	if (root->type != YAML_MAPPING_NODE) {
		weir__settings_fault(reading->settings, place_of(root), NULL,
				     "found %s; use a map of settings, such as keys: 5m", kind_of(root));
		return;
	}
	for (const yaml_node_pair_t *pair = root->data.mapping.pairs.start; pair < root->data.mapping.pairs.top;
	     pair++) {
		const yaml_node_t *const key = yaml_document_get_node(reading->document, pair->key);
		const yaml_node_t *const value = yaml_document_get_node(reading->document, pair->value);
		const struct weir__setting *setting;

		if (!check_key(reading, root, pair))
			continue;
		setting = weir__settings_find(scalar_text(key), scalar_length(key));
		if (setting == NULL)
			refuse_unknown(reading, key);
		else if (setting->kind == WEIR__SETTING_USERS)
			read_users(reading, value);
		else if (setting->kind == WEIR__SETTING_WHERE)
			read_list(reading, setting, value);
		else
			read_value(reading, setting, value);
	}
}

/* --- the file --------------------------------------------------------------------------------------------------- */

static void wipe(yaml_document_t *document)
{
	for (yaml_node_t *node = document->nodes.start; node < document->nodes.top; node++)
		if (node->type == YAML_SCALAR_NODE)
			weir__users_wipe(node->data.scalar.value, node->data.scalar.length);
}

/* Bytes that are no characters have an offset alone, of which the line is made here. */
static void refuse_syntax(struct weir__settings *settings, const yaml_parser_t *parser, const char *bytes)
{
	struct weir__setting_place place = { WEIR__FROM_FILE, parser->problem_mark.line + 1,
					     parser->problem_mark.column + 1 };

	if (parser->error == YAML_READER_ERROR) {
		place.line = place.column = 1;
		for (size_t i = 0; i < parser->problem_offset; i++) {
			place.column = bytes[i] == '\n' ? 1 : place.column + 1;
			place.line += bytes[i] == '\n';
		}
	}
	weir__settings_fault(settings, place, NULL, "this is no YAML: %s%s%s",
			     parser->problem ? parser->problem : "no memory", parser->context ? " " : "",
			     parser->context ? parser->context : "");
}

/* False: there is no further document. */
static bool read_document(struct weir__settings *settings, yaml_parser_t *parser, const char *bytes, bool is_first)
{
	yaml_document_t document;
	const struct reading reading = { settings, &document };
	const yaml_node_t *root;

	if (!yaml_parser_load(parser, &document)) {
		refuse_syntax(settings, parser, bytes);
		return false;
	}
	root = yaml_document_get_root_node(&document);
	if (root && is_first && !is_nothing(root))
		read_settings(&reading, root);
	else if (root && !is_first)
		weir__settings_fault(settings, place_of(root), NULL, "found a second document; use one");
	wipe(&document);
	yaml_document_delete(&document);
	return root && is_first;
}

static void parse(struct weir__settings *settings, const char *bytes, size_t n)
{
	yaml_parser_t parser;

	if (!yaml_parser_initialize(&parser)) {
		weir__settings_fault(settings, (struct weir__setting_place){ WEIR__FROM_FILE, 1, 1 }, NULL,
				     "no memory");
		return;
	}
	yaml_parser_set_input_string(&parser, (const unsigned char *)bytes, n);
	if (read_document(settings, &parser, bytes, true))
		(void)read_document(settings, &parser, bytes, false);
	yaml_parser_delete(&parser);
}

/* Reads up to size bytes; -1 and errno if that fails. */
static ssize_t read_whole(int descriptor, char *bytes, size_t size)
{
	size_t length = 0;

	while (length < size) {
		const ssize_t n = read(descriptor, bytes + length, size - length);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		length += (size_t)n;
	}
	return (ssize_t)length;
}

void weir__settings_read_file(struct weir__settings *settings)
{
	const int descriptor = open(settings->config, O_RDONLY | O_CLOEXEC);
	char *const bytes = descriptor < 0 ? NULL : malloc(WEIR__SETTINGS_FILE_MAX + 1);
	ssize_t n = -1;

	if (bytes)
		n = read_whole(descriptor, bytes, WEIR__SETTINGS_FILE_MAX + 1);
	if (n < 0)
		weir__settings_fault(settings, settings->config_place, "config", "%s: %s", settings->config,
				     strerror(errno));
	else if (n > WEIR__SETTINGS_FILE_MAX)
		weir__settings_fault(settings, settings->config_place, "config",
				     "%s: found more than %d bytes; use fewer", settings->config,
				     WEIR__SETTINGS_FILE_MAX);
	else
		parse(settings, bytes, (size_t)n);
	if (bytes)
		weir__users_wipe(bytes, n < 0 ? 0 : (size_t)n);
	free(bytes);
	if (descriptor >= 0)
		close(descriptor);
}
