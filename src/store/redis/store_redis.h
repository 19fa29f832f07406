/* store_redis.h: the public store on Redis, from a URL that is already read. */
#ifndef WEIR_STORE_REDIS_STORE_REDIS_H
#define WEIR_STORE_REDIS_STORE_REDIS_H

#include <weir/store.h>

#include "store/redis/redis_url.h"

/* weir_store_redis. The URL is copied. options may be NULL. */
int weir__store_redis_new(const struct weir__redis_url *url, const struct weir_store_options *options,
			  struct weir_store **ret_store, struct weir_message *ret_message);

#endif
