/* permissions.c: which roles an operation needs. */
#include <stdio.h>

#include "engine/operations.h"

unsigned weir__operation_roles(enum weir__operation operation)
{
	enum {
		ADMIN = WEIR__ROLE_ADMIN,
		DECIDE = WEIR__ROLE_DECIDE | ADMIN,
		OPERATE = WEIR__ROLE_OPERATE | ADMIN,
		READ = WEIR__ROLE_READ | ADMIN,
	};
	static const uint8_t roles[WEIR__OPERATIONS] = {
		[WEIR__OP_CONNECTION] = 0,
		[WEIR__OP_CHECK] = DECIDE,
		[WEIR__OP_TAKE] = DECIDE,
		[WEIR__OP_PEEK] = DECIDE,
		[WEIR__OP_REFUND] = OPERATE,
		[WEIR__OP_RESET] = OPERATE,
		[WEIR__OP_INSPECT] = READ,
		[WEIR__OP_HOLD] = DECIDE,
		[WEIR__OP_SETTLE] = DECIDE | OPERATE, /* decide: only holds of the same user */
		[WEIR__OP_LIMITS] = 0,
		[WEIR__OP_CHANGE] = OPERATE,
		[WEIR__OP_EXPLAIN] = READ,
		[WEIR__OP_LIVE] = READ,
		[WEIR__OP_METRICS] = READ,
		[WEIR__OP_CONFIG] = READ,
		[WEIR__OP_POLICY] = ADMIN,
		[WEIR__OP_POLICY_PUT] = ADMIN,
		[WEIR__OP_POLICY_VALIDATE] = 0,
		[WEIR__OP_RECORD] = ADMIN,
	};

	return roles[operation];
}

static bool is_of_all_tenants(enum weir__operation operation)
{
	return operation == WEIR__OP_CHANGE || operation == WEIR__OP_LIVE || operation == WEIR__OP_METRICS ||
	       operation == WEIR__OP_CONFIG || operation == WEIR__OP_RECORD;
}

bool weir__user_may(const struct weir__user *user, enum weir__operation operation)
{
	const unsigned roles = weir__operation_roles(operation);

	return (roles == 0 || (user->roles & roles) != 0) && !(user->prefix_length > 0 && is_of_all_tenants(operation));
}

size_t weir__operation_write_roles(enum weir__operation operation, const char *between, char ret_text[WEIR__ROLES_TEXT])
{
	const unsigned roles = weir__operation_roles(operation);

	return weir__roles_write(roles == WEIR__ROLE_ADMIN ? roles : roles & ~(unsigned)WEIR__ROLE_ADMIN, between,
				 ret_text);
}

void weir__operation_explain_role(const struct weir__user *user, enum weir__operation operation,
				  char ret_text[WEIR__ROLE_FAULT])
{
	char needed[WEIR__ROLES_TEXT], has[WEIR__ROLES_TEXT];

	if (user->prefix_length > 0 && is_of_all_tenants(operation)) {
		(void)snprintf(ret_text, WEIR__ROLE_FAULT, "not for users with a key_prefix, and %s has %s", user->name,
			       user->key_prefix);
		return;
	}
	(void)weir__operation_write_roles(operation, " or ", needed);
	(void)weir__roles_write(user->roles, " and ", has);
	(void)snprintf(ret_text, WEIR__ROLE_FAULT, "it needs the role %s, and %s has %s", needed, user->name, has);
}
