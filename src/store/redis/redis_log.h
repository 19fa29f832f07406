/* redis_log.h: what people are told of a store in Redis: that it is gone, and why; that it is back, after how long, and
 * what was paid. Lines are limited: a Redis that comes and goes fills no disk. Belongs to the thread of the store. */
#ifndef WEIR_STORE_REDIS_REDIS_LOG_H
#define WEIR_STORE_REDIS_REDIS_LOG_H

#include <weir/step.h>

#include "store/redis/redis_thread.h"

enum { WEIR__REDIS_LOG_URL_SIZE = 512 };

struct weir__redis_log {
	void (*write)(void *context, const char *line); /* NULL: nobody reads it */
	void *context;
	char url[WEIR__REDIS_LOG_URL_SIZE]; /* without passwords */
	bool is_up, was_ever_up, has_entries;
	weir_ns gone_since;
	struct weir__redis_thread_info told; /* what it said then */
	struct weir_plan plan;               /* of lines */
	struct weir_state state;
	uint64_t left_out;
};

void weir__redis_log_init(struct weir__redis_log *log, const struct weir__redis_url *url,
			  void (*write)(void *context, const char *line), void *context);

/* Says what is new. */
void weir__redis_log_look(struct weir__redis_log *log, const struct weir__redis_thread_info *info, weir_ns now);

/* Says what is lost, if the store ends with something owed. */
void weir__redis_log_end(struct weir__redis_log *log, const struct weir__redis_thread_info *info, weir_ns now);

#endif
