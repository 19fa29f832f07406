/* log_zone.h: converts local times of a zone to instants. Pure.
 *
 * When clocks go forward, some local times do not exist. They are converted with the offset before the change. When
 * clocks go back, some local times exist twice. They are the first of the two instants, unless that is too long ago. */
#ifndef WEIR_REPLAY_LOG_ZONE_H
#define WEIR_REPLAY_LOG_ZONE_H

#include <stdbool.h>
#include <stdint.h>

enum { WEIR__LOG_ZONE_CHANGES_MAX = 2048 };

struct weir__log_zone {
	uint32_t n; /* 0: not a zone, but a fixed offset */
	struct weir__log_zone_change {
		int64_t from_s; /* Unix time */
		int32_t offset_s;
	} changes[WEIR__LOG_ZONE_CHANGES_MAX];
};

/* Adds the next change. The first is at 1970. Changes that do not fit are dropped. */
void weir__log_zone_add(struct weir__log_zone *zone, int64_t from_s, int32_t offset_s);

/* `local_s` is a local time as if it were UTC. Of two instants, returns the first if it is not before `least_s`. */
int64_t weir__log_zone_instant(const struct weir__log_zone *zone, int64_t local_s, int64_t least_s);

#endif
