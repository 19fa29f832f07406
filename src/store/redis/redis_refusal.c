/* redis_refusal.c: the table of Redis errors. */
#include "store/redis/redis_refusal.h"

#include <string.h>

/* Redis returns none of these after it has done something. The script does first the writes that may be rejected (save
 * in state.lua), and Redis checks memory, role and replicas only before a script's first write. */
static const struct weir__redis_refusal refusals[] = {
	{ "READONLY", true, true, true, "this server is a replica now, not the primary" },
	{ "LOADING", true, true, false, "it is still loading its data" },
	{ "MASTERDOWN", true, true, true, "this is a replica that has lost its primary" },
	{ "OOM", true, true, false, "it is out of memory (maxmemory)" },
	{ "MISCONF", true, true, false, "it cannot save to disk, and denies writes" },
	{ "NOREPLICAS", true, true, false, "it has too few connected replicas, and denies writes" },
	{ "BUSY", true, true, false, "it is busy with a script" },
	{ "NOAUTH", true, true, true, "authentication required: it needs a password" },
	{ "WRONGPASS", true, true, true, "wrong user or password" },
	{ "NOPERM", true, true, true, "the user has no permission for that command" },
	{ "CLUSTERDOWN", true, true, false, "its cluster is down" },
	{ "MOVED", true, true, false, "it is part of a cluster, and the key is on another node" },
	{ "CROSSSLOT", true, true, false, "it is part of a cluster, and the keys are on several nodes" },
	{ "TRYAGAIN", true, true, false, "its cluster is moving keys" },
};

static const struct weir__redis_refusal unknown = { "", false, false, false, "the script failed with an error" };

const struct weir__redis_refusal *weir__redis_refusal_of(struct weir__resp_slice error)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		const size_t length = strlen(refusals[i].code);

		if (error.length > length && error.bytes[length] == ' ' &&
		    memcmp(error.bytes, refusals[i].code, length) == 0)
			return &refusals[i];
	}
	return &unknown;
}
