/* log_key.h: the key of a decision in a log line, as people read it or as a hash. */
#ifndef WEIR_OBSERVE_LOG_KEY_H
#define WEIR_OBSERVE_LOG_KEY_H

#include "guard/guard.h"
#include "observe/log.h"

/* `guard` has the attributes that keys of its limits are made of; NULL: without a policy. `counted_as` is the limit
 * that counts inline limits. */
void weir__log_key(struct weir__log_line *line, struct weir_guard *guard, const struct weir_table_limit *counted_as,
		   const struct weir_claim *claim);
void weir__log_key_hash(struct weir__log_line *line, uint64_t hash);

#endif
