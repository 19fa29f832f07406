/* sliding.h: the one formula of sliding counters, both plain (counter.h) and with sub-windows (segments.h).
 *
 * The count of the window that is leaving weighs floor(leaving * (width - elapsed) / width), where elapsed runs from 0
 * to width. */
#ifndef WEIR_CORE_SLIDING_H
#define WEIR_CORE_SLIDING_H

#include "core/wide.h"

static inline uint64_t weir__sliding_weight(uint64_t leaving, weir_ns width, weir_ns elapsed)
{
	return (uint64_t)weir__div(weir__mul(leaving, width - elapsed), width);
}

/* Returns whether weight <= room, without dividing: floor(a / width) <= room exactly when a < (room + 1) * width. room
 * + 1 cannot wrap, because room is less than leaving there. */
static inline bool weir__sliding_fits(uint64_t leaving, weir_ns width, weir_ns elapsed, uint64_t room)
{
	return leaving <= room || weir__mul(leaving, width - elapsed) < weir__mul(room + 1, width);
}

/* Returns the first elapsed time at which the weight is at most room. room must be less than leaving. */
static inline weir_ns weir__sliding_when(uint64_t leaving, weir_ns width, uint64_t room)
{
	WEIR__HOLDS(leaving > room);
	/* solves leaving * (width - elapsed) < (room + 1) * width */
	return width - (weir_ns)(weir__div_up(weir__mul(room, width) + width, leaving) - 1);
}

#endif
