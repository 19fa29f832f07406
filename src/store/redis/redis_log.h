/* redis_log.h: log lines about a store in Redis: that it is gone, and why; that it is back, after how long, and what
 * was charged; that it is slow; that charges are lost. Lines are rate limited, so that a flapping Redis does not fill
 * the disk. Belongs to the Redis thread. */
#ifndef WEIR_STORE_REDIS_REDIS_LOG_H
#define WEIR_STORE_REDIS_REDIS_LOG_H

#include <weir/step.h>

#include "store/redis/redis_thread.h"

enum { WEIR__REDIS_LOG_URL_SIZE = 512 };

struct weir__redis_log {
	void (*write)(void *context, const char *line); /* NULL: no log */
	void *context;
	char url[WEIR__REDIS_LOG_URL_SIZE]; /* without passwords */
	bool is_up, was_ever_up, has_entries;
	weir_ns gone_since;
	weir_ns slow_from, dropped_from; /* the line is not repeated before then */
	uint64_t slow_told, dropped_told;
	struct weir__redis_thread_info told; /* what was last reported */
	struct weir_plan plan;               /* limit of lines */
	struct weir_state state;
	uint64_t left_out;
};

void weir__redis_log_init(struct weir__redis_log *log, const struct weir__redis_url *url,
			  void (*write)(void *context, const char *line), void *context);

/* Writes lines about what has changed. */
void weir__redis_log_look(struct weir__redis_log *log, const struct weir__redis_thread_info *info, weir_ns now);

/* Writes a line if the store ends with deferred charges that were not made. */
void weir__redis_log_end(struct weir__redis_log *log, const struct weir__redis_thread_info *info, weir_ns now);

#endif
