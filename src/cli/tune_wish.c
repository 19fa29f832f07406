/* tune_wish.c: wishes as text: NAME <= VALUE. */
#include <string.h>

#include "cli/tune.h"
#include "core/duration.h"
#include "replay/log_time.h"

#define DAY (UINT64_C(86400) * 1000000000)

/* Checking a wish keeps each request that passed within the period, so the count is bounded. */
enum { PASSED_MOST = 16000000, PERCENT = WEIR__TUNING_PPM / 100 };

static const char right[] = "use denied_clients <= 0.1%, denied <= 0.1%, passed <= 500/s or p99_wait <= 200ms";

static const char *read_share(const char *value, bool *ret_has, uint32_t *ret_ppm)
{
	const size_t n = strlen(value);
	uint64_t ppm;

	if (n < 2 || value[n - 1] != '%' || !weir__log_decimal_read(value, n - 1, PERCENT, &ppm) ||
	    ppm >= WEIR__TUNING_PPM)
		return "use a share below 100%, such as denied_clients <= 0.1%";
	*ret_has = true;
	*ret_ppm = (uint32_t)ppm;
	return NULL;
}

static const char *read_passed(const char *value, struct weir__tuning_wish *wish)
{
	struct weir_limit limit;
	struct weir_message why;

	if (strchr(value, ' ') || weir_limit_parse(value, strlen(value), &limit, &why) != WEIR_OK || limit.count == 0 ||
	    limit.count > PASSED_MOST || limit.period == 0 || limit.period > DAY)
		return "use a rate of at most 16000000 in at most a day, such as passed <= 500/s";
	wish->passed = (struct weir__rate){ limit.count, limit.period };
	return NULL;
}

/* p99_wait: the name has the share. */
static const char *read_wait(const char *name, size_t n, const char *value, struct weir__tuning_wish *wish)
{
	uint64_t ppm;

	if (!weir__log_decimal_read(name + 1, n - strlen("p_wait"), PERCENT, &ppm) || ppm == 0 ||
	    ppm > WEIR__TUNING_PPM)
		return right;
	if (!weir__duration_read(value, strlen(value), DAY, &wish->wait) || wish->wait == 0)
		return "use a duration of at most a day, such as p99_wait <= 200ms";
	wish->has_wait = true;
	wish->wait_ppm = (uint32_t)ppm;
	return NULL;
}

const char *weir__tune_wish_read(const char *text, struct weir__tuning_wish *wish)
{
	const char *const sign = strstr(text, "<="), *value;
	size_t n;

	if (sign == NULL)
		return right;
	for (n = (size_t)(sign - text); n > 0 && text[n - 1] == ' ';)
		n--;
	value = sign + 2 + strspn(sign + 2, " ");
	if (n == strlen("denied_clients") && memcmp(text, "denied_clients", n) == 0)
		return wish->has_denied_keys ? "denied_clients is given twice" :
					       read_share(value, &wish->has_denied_keys, &wish->denied_keys_ppm);
	if (n == strlen("denied") && memcmp(text, "denied", n) == 0)
		return wish->has_denied ? "denied is given twice" :
					  read_share(value, &wish->has_denied, &wish->denied_ppm);
	if (n == strlen("passed") && memcmp(text, "passed", n) == 0)
		return wish->passed.count > 0 ? "passed is given twice" : read_passed(value, wish);
	if (n > strlen("p_wait") && text[0] == 'p' && memcmp(text + n - 5, "_wait", 5) == 0)
		return wish->has_wait ? "a wait is given twice" : read_wait(text, n, value, wish);
	return right;
}

const char *weir__tune_wish_check(const struct weir__tuning_wish *wish)
{
	if (weir__tuning_is_of_shares(wish) && (wish->passed.count > 0 || wish->has_wait))
		return "denied_clients and denied are for a limit on each client, the other wishes for a limit on all requests "
		       "together; tune two limits, one after the other";
	if (!weir__tuning_is_of_shares(wish) && wish->bad.until > wish->bad.from)
		return "--bad needs the wish denied_clients or denied, for all other requests";
	return NULL;
}
