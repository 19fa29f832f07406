/* log_time.h: the times and durations of logs. Pure. Names of months are those of the C locale. */
#ifndef WEIR_REPLAY_LOG_TIME_H
#define WEIR_REPLAY_LOG_TIME_H

#include <weir/types.h>

#include <stdbool.h>
#include <stddef.h>

#define WEIR__LOG_SECOND UINT64_C(1000000000)

/* Times are less than this, 2262-04-11T23:47:16Z: the clock of a table ends there. */
#define WEIR__LOG_TIME_END (UINT64_C(9223372036) * WEIR__LOG_SECOND)

struct weir__log_time {
	weir_ns at;
	bool is_whole_second; /* it was written without a fraction of a second */
	bool has_offset;      /* it was written with an offset, or as Unix time */
};

/* Reads one of these. Digits behind the ninth of a fraction are ignored.
 *
 *     18/Nov/2026:19:50:33 +0100        with or without brackets, fraction and offset
 *     2026-11-18T19:50:33.123456+01:00  also with a blank instead of T, / instead of -, a comma for the point,
 *                                       and Z or no offset
 *     1795031433.123                    since 1970; seconds, or, if the number is that large, ms, us or ns
 *
 * zone_s is the offset of times without one, in seconds east of UTC. Returns false if the text is none of these, names a
 * day or time that does not exist, or is before 1970 or after the end. */
bool weir__log_time_read(const char *at, size_t n, int32_t zone_s, struct weir__log_time *ret_time);

/* Reads a decimal number, such as 12, 0.250, 9.3e-05, and multiplies it by a unit of 1 to 10^9. Rounds down. Returns
 * false if it is not a number, negative, or above UINT64_MAX. */
bool weir__log_decimal_read(const char *at, size_t n, uint64_t unit, uint64_t *ret_value);

/* Reads an offset, such as Z, UTC, +01, +0100 or -05:30, in seconds east of UTC. Returns false if it is none. */
bool weir__log_zone_read(const char *at, size_t n, int32_t *ret_zone_s);

#endif
