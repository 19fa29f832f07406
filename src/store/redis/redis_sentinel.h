/* redis_sentinel.h: reads from a sentinel's replies where the primary is. Pure. */
#ifndef WEIR_STORE_REDIS_REDIS_SENTINEL_H
#define WEIR_STORE_REDIS_REDIS_SENTINEL_H

#include "store/redis/redis_url.h"
#include "wire/resp.h"

/* Reads the reply to SENTINEL GET-MASTER-ADDR-BY-NAME. Returns false if it has no address. */
bool weir__redis_sentinel_told(const struct weir__resp_token *tokens, uint32_t n, bool is_tls,
			       struct weir__redis_place *ret_place);

/* Reads an out-of-band message. Returns false if it does not announce a new address of this primary. */
bool weir__redis_sentinel_switched(const struct weir__resp_token *tokens, uint32_t n, const char *primary, bool is_tls,
				   struct weir__redis_place *ret_place);

#endif
