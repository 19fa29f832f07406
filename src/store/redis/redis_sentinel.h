/* redis_sentinel.h: what sentinels say of where the primary is. Pure. */
#ifndef WEIR_STORE_REDIS_REDIS_SENTINEL_H
#define WEIR_STORE_REDIS_REDIS_SENTINEL_H

#include "store/redis/redis_url.h"
#include "wire/resp.h"

/* The answer to SENTINEL GET-MASTER-ADDR-BY-NAME. False: it names no place. */
bool weir__redis_sentinel_told(const struct weir__resp_token *tokens, uint32_t n, bool is_tls,
			       struct weir__redis_place *ret_place);

/* A message out of band. False: it is not about this primary having become another one. */
bool weir__redis_sentinel_switched(const struct weir__resp_token *tokens, uint32_t n, const char *primary, bool is_tls,
				   struct weir__redis_place *ret_place);

#endif
