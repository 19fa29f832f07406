/* redis_driver.h: the sockets of a Redis client: fulfils its wishes to open and close, and carries its bytes.
 *
 * Belongs to one thread, together with the loop. Name lookups and TLS handshakes do not block. */
#ifndef WEIR_STORE_REDIS_REDIS_DRIVER_H
#define WEIR_STORE_REDIS_REDIS_DRIVER_H

#include "os/loop.h"
#include "store/redis/redis_client.h"

struct weir__redis_driver;

/* The caller owns URL, client and loop, which must outlive the driver. WEIR_ERR_LIMIT: a file named in the URL cannot
 * be used; the message says which and why. WEIR_ERR_SYSTEM: no memory. */
int weir__redis_driver_new(const struct weir__redis_url *url, struct weir__redis_client *client,
			   struct weir__loop *loop, struct weir__redis_driver **ret_driver,
			   struct weir_message *ret_message);

/* Closes all connections. NULL is allowed. */
void weir__redis_driver_free(struct weir__redis_driver *driver);

/* Handles an event of the loop. All events of the loop belong to the driver. */
void weir__redis_driver_event(struct weir__redis_driver *driver, const struct weir__loop_event *event, weir_ns now);

/* Call after all events and all calls of the client: fulfils the client's wishes and sends its output. Returns false if
 * there is more to do without waiting for an event. */
bool weir__redis_driver_settle(struct weir__redis_driver *driver, weir_ns now);

#endif
