/* log_time.c: the times and durations of logs. */
#include "replay/log_time.h"

#include <string.h>

enum { MINUTE_S = 60, HOUR_S = 3600, DAY_S = 86400, ZONE_MAX_S = 18 * HOUR_S };

static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

/* What is left of a text. */
struct rest {
	const char *at, *end;
};

static bool take(struct rest *rest, char c)
{
	if (rest->at == rest->end || *rest->at != c)
		return false;
	rest->at++;
	return true;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Exactly this many digits, at most 9. */
static bool take_digits(struct rest *rest, unsigned n, uint32_t *ret_number)
{
	uint32_t number = 0;

	if (rest->end - rest->at < (ptrdiff_t)n)
		return false;
	for (unsigned i = 0; i < n; i++) {
		if (!is_digit(rest->at[i]))
			return false;
		number = number * 10 + (uint32_t)(rest->at[i] - '0');
	}
	rest->at += n;
	*ret_number = number;
	return true;
}

static bool is_leap(uint32_t year)
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* The days from 1970-01-01 to a day of 1970 or later. Returns false if the day does not exist. */
static bool days_of(uint32_t year, uint32_t month, uint32_t day, uint64_t *ret_days)
{
	static const uint16_t before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365 };
	const uint32_t last = year - 1; /* the leap days of all years up to the last one count */

	if (year < 1970 || month < 1 || month > 12 || day < 1 ||
	    day > (uint32_t)(before[month] - before[month - 1]) + (month == 2 && is_leap(year)))
		return false;
	*ret_days = (uint64_t)(year - 1970) * 365 + (last / 4 - last / 100 + last / 400) -
		    (1969 / 4 - 1969 / 100 + 1969 / 400) + before[month - 1] + (month > 2 && is_leap(year)) + day - 1;
	return true;
}

/* A fraction after its point: the first nine digits count. */
static bool take_fraction(struct rest *rest, uint32_t *ret_ns)
{
	uint32_t ns = 0, unit = 100000000;

	if (rest->at == rest->end || !is_digit(*rest->at))
		return false;
	for (; rest->at < rest->end && is_digit(*rest->at); rest->at++, unit /= 10)
		ns += unit * (uint32_t)(*rest->at - '0');
	*ret_ns = ns;
	return true;
}

static bool take_zone(struct rest *rest, int32_t *ret_zone_s)
{
	uint32_t hours, minutes = 0;
	bool is_west;

	if (take(rest, 'Z') || take(rest, 'z')) {
		*ret_zone_s = 0;
		return true;
	}
	is_west = rest->at < rest->end && *rest->at == '-';
	if ((!take(rest, '+') && !take(rest, '-')) || !take_digits(rest, 2, &hours))
		return false;
	if (take(rest, ':') ? !take_digits(rest, 2, &minutes) :
			      rest->at < rest->end && is_digit(*rest->at) && !take_digits(rest, 2, &minutes))
		return false;
	if (minutes >= 60 || hours * HOUR_S + minutes * MINUTE_S > ZONE_MAX_S)
		return false;
	*ret_zone_s = (int32_t)(hours * HOUR_S + minutes * MINUTE_S) * (is_west ? -1 : 1);
	return true;
}

bool weir__log_zone_read(const char *at, size_t n, int32_t *ret_zone_s)
{
	struct rest rest = { at, at + n };

	if (n == 3 && memcmp(at, "UTC", 3) == 0) {
		*ret_zone_s = 0;
		return true;
	}
	return take_zone(&rest, ret_zone_s) && rest.at == rest.end;
}

/* HH:MM:SS, a fraction, and an offset; the last two may be missing. A leap second is the last second of its minute. */
static bool end_time(struct rest *rest, uint64_t days, int32_t zone_s, struct weir__log_time *ret_time)
{
	uint32_t hours, minutes, seconds, ns = 0;
	bool has_fraction, has_offset;
	int64_t at_s;

	if (!take_digits(rest, 2, &hours) || !take(rest, ':') || !take_digits(rest, 2, &minutes) || !take(rest, ':') ||
	    !take_digits(rest, 2, &seconds) || hours > 23 || minutes > 59 || seconds > 60)
		return false;
	has_fraction = take(rest, '.') || take(rest, ',');
	if (has_fraction && !take_fraction(rest, &ns))
		return false;
	(void)take(rest, ' ');
	has_offset = rest->at < rest->end;
	if (has_offset && !take_zone(rest, &zone_s))
		return false;
	at_s = (int64_t)(days * DAY_S + (uint64_t)hours * HOUR_S + (uint64_t)minutes * MINUTE_S +
			 (seconds < 60 ? seconds : 59)) -
	       zone_s;
	if (rest->at != rest->end || at_s < 0 || (uint64_t)at_s >= WEIR__LOG_TIME_END / WEIR__LOG_SECOND)
		return false;
	*ret_time = (struct weir__log_time){ (uint64_t)at_s * WEIR__LOG_SECOND + ns, !has_fraction, has_offset };
	return true;
}

/* 18/Nov/2026:19:50:33 */
static bool read_common(struct rest rest, int32_t zone_s, struct weir__log_time *ret_time)
{
	uint32_t day, month, year;
	uint64_t days;

	if (!take_digits(&rest, 2, &day) || !take(&rest, '/') || rest.end - rest.at < 3)
		return false;
	for (month = 0; month < 12 && memcmp(rest.at, months + 3 * (size_t)month, 3) != 0;)
		month++;
	rest.at += 3;
	return take(&rest, '/') && take_digits(&rest, 4, &year) && take(&rest, ':') &&
	       days_of(year, month + 1, day, &days) && end_time(&rest, days, zone_s, ret_time);
}

/* 2026-11-18T19:50:33 */
static bool read_iso(struct rest rest, int32_t zone_s, struct weir__log_time *ret_time)
{
	uint32_t year, month, day;
	uint64_t days;
	char between;

	if (!take_digits(&rest, 4, &year) || rest.at == rest.end)
		return false;
	between = *rest.at == '/' ? '/' : '-';
	return take(&rest, between) && take_digits(&rest, 2, &month) && take(&rest, between) &&
	       take_digits(&rest, 2, &day) && (take(&rest, 'T') || take(&rest, 't') || take(&rest, ' ')) &&
	       days_of(year, month, day, &days) && end_time(&rest, days, zone_s, ret_time);
}

/* Most numbers of a log: few digits, no exponent, and no more decimals than the unit has zeros. Returns false for
 * others. */
static bool read_short_decimal(const char *at, size_t n, uint64_t unit, uint64_t *ret_value)
{
	uint64_t value = 0;
	bool has_point = false;

	if (n == 0 || n > 9)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (is_digit(at[i]))
			value = value * 10 + (uint64_t)(at[i] - '0');
		else if (at[i] != '.' || has_point || n == 1)
			return false;
		if (has_point) {
			if (unit % 10 != 0)
				return false;
			unit /= 10;
		}
		has_point |= at[i] == '.';
	}
	*ret_value = value * unit; /* below 10^9 * 10^9 */
	return true;
}

bool weir__log_decimal_read(const char *at, size_t n, uint64_t unit, uint64_t *ret_value)
{
	if (read_short_decimal(at, n, unit, ret_value))
		return true;
	struct rest rest = { at, at + n };
	unsigned __int128 value = 0;
	int exponent = 0; /* the value is value * 10^exponent */
	bool has_digits = false, has_point = false;

	for (; rest.at < rest.end && (is_digit(*rest.at) || (*rest.at == '.' && !has_point)); rest.at++) {
		if (*rest.at == '.') {
			has_point = true;
			continue;
		}
		has_digits = true;
		if (value > UINT64_MAX) { /* more digits change nothing, except the size */
			exponent += !has_point;
			continue;
		}
		value = value * 10 + (unsigned)(*rest.at - '0');
		exponent -= has_point;
	}
	if (!has_digits)
		return false;
	if (rest.at < rest.end && (*rest.at == 'e' || *rest.at == 'E')) {
		bool is_negative;
		int more = 0;

		rest.at++;
		is_negative = rest.at < rest.end && *rest.at == '-';
		if (!take(&rest, '+'))
			(void)take(&rest, '-');
		if (rest.at == rest.end)
			return false;
		for (; rest.at < rest.end && is_digit(*rest.at); rest.at++)
			more = more < 1000 ? more * 10 + (*rest.at - '0') : more;
		exponent += is_negative ? -more : more;
	}
	if (rest.at != rest.end)
		return false;
	for (value *= unit; exponent < 0 && value > 0; exponent++)
		value /= 10;
	for (; exponent > 0 && value > 0 && value <= UINT64_MAX; exponent--)
		value *= 10;
	*ret_value = (uint64_t)value;
	return value <= UINT64_MAX;
}

/* The unit follows from the size: seconds until the year 5138, then ms, us, ns. */
static bool read_number(struct rest rest, struct weir__log_time *ret_time)
{
	const char *const point = memchr(rest.at, '.', (size_t)(rest.end - rest.at));
	const size_t n = (size_t)(rest.end - rest.at);
	uint64_t unit = WEIR__LOG_SECOND, whole, at;

	if (!weir__log_decimal_read(rest.at, n, 1, &whole))
		return false;
	for (uint64_t most = UINT64_C(100000000000); unit > 1 && whole >= most; most *= 1000)
		unit /= 1000;
	if (!weir__log_decimal_read(rest.at, n, unit, &at) || at >= WEIR__LOG_TIME_END)
		return false;
	*ret_time = (struct weir__log_time){ at, unit == WEIR__LOG_SECOND && point == NULL && at % unit == 0, true };
	return true;
}

bool weir__log_time_read(const char *at, size_t n, int32_t zone_s, struct weir__log_time *ret_time)
{
	struct rest rest = { at, at + n };

	if (n >= 2 && at[0] == '[' && at[n - 1] == ']') {
		rest.at++;
		rest.end--;
	}
	if (rest.end - rest.at > 2 && rest.at[2] == '/')
		return read_common(rest, zone_s, ret_time);
	if (rest.end - rest.at > 4 && (rest.at[4] == '-' || rest.at[4] == '/'))
		return read_iso(rest, zone_s, ret_time);
	return read_number(rest, ret_time);
}
