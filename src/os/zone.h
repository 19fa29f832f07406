/* zone.h: the offsets of a time zone, from the system's zone data. Changes the zone of the process for a moment, so call
 * it before other threads start. */
#ifndef WEIR_OS_ZONE_H
#define WEIR_OS_ZONE_H

#include <stdbool.h>
#include <stdint.h>

/* Tells the offset in seconds east of UTC at 1970, and each later one with the second of Unix time from which it applies,
 * until 2262. Returns false if the system does not know the zone: names are such as Europe/Berlin. */
bool weir__zone_offsets(const char *name, void (*tell)(void *context, int64_t from_s, int32_t offset_s), void *context);

#endif
