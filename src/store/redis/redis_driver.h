/* redis_driver.h: the sockets of a client of Redis: opens and closes what it wishes, and carries its bytes.
 *
 * Belongs to one thread, with the loop. Names are looked up, and TLS is shaken hands for, without waiting. */
#ifndef WEIR_STORE_REDIS_REDIS_DRIVER_H
#define WEIR_STORE_REDIS_REDIS_DRIVER_H

#include "os/loop.h"
#include "store/redis/redis_client.h"

struct weir__redis_driver;

/* URL, client and loop are the caller's, and outlive it. WEIR_ERR_LIMIT: a file of the URL cannot be used, and the message
 * says which and why. WEIR_ERR_SYSTEM: no memory. */
int weir__redis_driver_new(const struct weir__redis_url *url, struct weir__redis_client *client,
			   struct weir__loop *loop, struct weir__redis_driver **ret_driver,
			   struct weir_message *ret_message);

/* Closes all connections. NULL is allowed. */
void weir__redis_driver_free(struct weir__redis_driver *driver);

/* Of the loop's, all are the driver's. */
void weir__redis_driver_event(struct weir__redis_driver *driver, const struct weir__loop_event *event, weir_ns now);

/* Behind all events, and whatever the client was told: fulfils its wishes and sends what it has to say. False: there is more
 * to do, without an event. */
bool weir__redis_driver_settle(struct weir__redis_driver *driver, weir_ns now);

#endif
