/* zone.h: the offsets of a time zone, from the system's zone data. Changes the zone of the process for a moment, so
 * call it before other threads start. */
#ifndef WEIR_OS_ZONE_H
#define WEIR_OS_ZONE_H

#include <stdbool.h>
#include <stdint.h>

/* Calls `tell` with the offset at 1970, and with each change until 2262: from_s is the Unix time from which offset_s
 * applies, in seconds east of UTC. Returns false if the system does not know the zone. A name is such as
 * Europe/Berlin. */
bool weir__zone_offsets(const char *name, void (*tell)(void *context, int64_t from_s, int32_t offset_s), void *context);

#endif
