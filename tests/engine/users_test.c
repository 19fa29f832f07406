/* users_test.c: users found by name and by token, and what their roles allow. */
/* Covers: src/engine/permissions.c */
#include "engine/users.h"

#include <stdio.h>
#include <string.h>

#include "check.h"
#include "engine/operations.h"

static struct weir__user user_of(unsigned number, unsigned roles)
{
	struct weir__user user = { .roles = roles, .has_password = true, .has_token = number % 2 == 0 };
	char secret[32];

	(void)snprintf(user.name, sizeof(user.name), "user%u", number);
	CHECK(weir__users_digest(secret, (size_t)snprintf(secret, sizeof(secret), "password%u", number), user.digest));
	CHECK(weir__users_digest(secret, (size_t)snprintf(secret, sizeof(secret), "token%u", number),
				 user.token_digest));
	return user;
}

static const struct weir__user *by_token(const struct weir__users *users, unsigned number)
{
	char token[32];

	return weir__users_by_token(users, token, (size_t)snprintf(token, sizeof(token), "token%u", number));
}

/* Each user is found by name, by password and by token, in a copy, too. */
static void as_many_as_there_may_be(void)
{
	struct weir__users users = { .at = NULL }, copy;
	struct weir__user user = user_of(0, WEIR__ROLE_DECIDE);

	CHECK(weir__users_find(&users, "user0", 5) == NULL && by_token(&users, 0) == NULL);
	for (unsigned i = 0; i < WEIR__USERS_MAX; i++) {
		user = user_of(i, WEIR__ROLE_DECIDE);
		CHECK(weir__users_add(&users, &user));
	}
	user = user_of(WEIR__USERS_MAX, WEIR__ROLE_DECIDE);
	CHECK(!weir__users_add(&users, &user));
	CHECK(weir__users_copy(&users, &copy));
	weir__users_fini(&users);
	CHECK_EQ(users.n, 0);
	CHECK_EQ(copy.n, WEIR__USERS_MAX);
	for (unsigned i = 0; i < WEIR__USERS_MAX + 10; i++) {
		const struct weir__user *const wanted = i < WEIR__USERS_MAX ? &copy.at[i] : NULL;
		char name[32], password[32];
		const size_t n = (size_t)snprintf(name, sizeof(name), "user%u", i);
		const size_t length = (size_t)snprintf(password, sizeof(password), "password%u", i);

		CHECK(weir__users_find(&copy, name, n) == wanted);
		CHECK(weir__users_check(&copy, name, n, password, length) == wanted);
		CHECK(weir__users_check(&copy, name, n, password, length - 1) == NULL);
		CHECK(by_token(&copy, i) == (i % 2 == 0 ? wanted : NULL)); /* the others have no token */
	}
	CHECK(weir__users_find(&copy, "user", 4) == NULL && weir__users_find(&copy, "", 0) == NULL);
	weir__users_fini(&copy);
}

/* Each row lists what a user with these roles may do beyond what every user may. */
static void roles_allow_operations(void)
{
	enum { D = WEIR__ROLE_DECIDE, O = WEIR__ROLE_OPERATE, R = WEIR__ROLE_READ, A = WEIR__ROLE_ADMIN };
	static const struct {
		enum weir__operation operation;
		unsigned roles; /* 0: any user */
	} rows[] = {
		{ WEIR__OP_CONNECTION, 0 },  { WEIR__OP_CHECK, D | A },   { WEIR__OP_TAKE, D | A },
		{ WEIR__OP_PEEK, D | A },    { WEIR__OP_REFUND, O | A },  { WEIR__OP_RESET, O | A },
		{ WEIR__OP_INSPECT, R | A }, { WEIR__OP_HOLD, D | A },    { WEIR__OP_SETTLE, D | O | A },
		{ WEIR__OP_LIMITS, 0 },      { WEIR__OP_CHANGE, O | A },  { WEIR__OP_EXPLAIN, R | A },
		{ WEIR__OP_LIVE, R | A },    { WEIR__OP_METRICS, R | A }, { WEIR__OP_CONFIG, R | A },
		{ WEIR__OP_POLICY, A },      { WEIR__OP_POLICY_PUT, A },  { WEIR__OP_POLICY_VALIDATE, 0 },
		{ WEIR__OP_RECORD, A },
	};

	CHECK_EQ(sizeof(rows) / sizeof(rows[0]), WEIR__OPERATIONS);
	for (size_t i = 0; i < WEIR__OPERATIONS; i++)
		for (unsigned roles = 1; roles < 16; roles++) {
			const struct weir__user user = { .roles = roles };

			CHECK_EQ(rows[i].operation, i);
			CHECK_EQ(weir__user_may(&user, rows[i].operation),
				 rows[i].roles == 0 || (rows[i].roles & roles) != 0);
		}
}

/* All roles, without what tenants share. */
static void tenants_have_operations_of_their_own(void)
{
	const struct weir__user user = { .name = "acme", .roles = 7, .key_prefix = "acme/", .prefix_length = 5 };
	char fault[WEIR__ROLE_FAULT];

	for (enum weir__operation i = 0; i < WEIR__OPERATIONS; i++)
		CHECK_EQ(weir__user_may(&user, i),
			 i != WEIR__OP_CHANGE && i != WEIR__OP_LIVE && i != WEIR__OP_METRICS && i != WEIR__OP_CONFIG &&
				 i != WEIR__OP_POLICY && i != WEIR__OP_POLICY_PUT && i != WEIR__OP_RECORD);
	weir__operation_explain_role(&user, WEIR__OP_LIVE, fault);
	CHECK_TEXT(fault, "not for users with a key_prefix, and acme has acme/");
}

static void roles_are_words(void)
{
	const struct weir__user user = { .name = "web", .roles = WEIR__ROLE_DECIDE | WEIR__ROLE_READ };
	char text[WEIR__ROLES_TEXT], fault[WEIR__ROLE_FAULT];

	CHECK_EQ(weir__role_of("operate", 7), WEIR__ROLE_OPERATE);
	CHECK_EQ(weir__role_of("operat", 6), 0);
	CHECK_EQ(weir__role_of("", 0), 0);
	CHECK_EQ(weir__roles_write(15, " and ", text), strlen("decide and operate and read and admin"));
	CHECK_TEXT(text, "decide and operate and read and admin");
	CHECK_EQ(weir__roles_write(0, "+", text), 0);
	CHECK_TEXT(text, "");
	weir__operation_explain_role(&user, WEIR__OP_RESET, fault);
	CHECK_TEXT(fault, "it needs the role operate, and web has decide and read");
	weir__operation_explain_role(&user, WEIR__OP_POLICY, fault);
	CHECK_TEXT(fault, "it needs the role admin, and web has decide and read");
}

TESTS(TEST(as_many_as_there_may_be), TEST(roles_allow_operations), TEST(tenants_have_operations_of_their_own),
      TEST(roles_are_words))
