/* log_zone.c: tries the changes around a local time one after the other. */
#include "replay/log_zone.h"

enum { DAY_S = 86400 };

void weir__log_zone_add(struct weir__log_zone *zone, int64_t from_s, int32_t offset_s)
{
	if (zone->n < WEIR__LOG_ZONE_CHANGES_MAX)
		zone->changes[zone->n++] = (struct weir__log_zone_change){ from_s, offset_s };
}

/* The last change that is at least a day before the time, whatever the offset. */
static uint32_t find(const struct weir__log_zone *zone, int64_t local_s)
{
	uint32_t low = 0, high = zone->n;

	while (high - low > 1) {
		const uint32_t middle = low + (high - low) / 2;

		if (zone->changes[middle].from_s <= local_s - DAY_S)
			low = middle;
		else
			high = middle;
	}
	return low;
}

int64_t weir__log_zone_instant(const struct weir__log_zone *zone, int64_t local_s, int64_t least_s)
{
	uint32_t i = find(zone, local_s);
	int64_t at_s = local_s - zone->changes[i].offset_s;

	/* An instant after the next change means a later offset, or a local time that does not exist. */
	for (; i + 1 < zone->n && at_s >= zone->changes[i + 1].from_s; i++) {
		const int64_t next_s = local_s - zone->changes[i + 1].offset_s;

		if (next_s < zone->changes[i + 1].from_s)
			return at_s;
		at_s = next_s;
	}
	if (i + 1 < zone->n && at_s < least_s) {
		const int64_t next_s = local_s - zone->changes[i + 1].offset_s;

		if (next_s >= zone->changes[i + 1].from_s)
			return next_s;
	}
	return at_s;
}
