/* zone.c: libc gives the offset at an instant, but no list of changes. So this compares the offsets of each day and the
 * next, and finds the second of a change by halving. No zone changes and changes back within a day. */
#include "os/zone.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DAY_S INT64_C(86400)
#define END_S INT64_C(9223372036) /* 2262-04-11 */

enum { NAME_MAX_BYTES = 64, PATH_SIZE = 1024 };

/* Checked here, because libc treats an unknown zone as UTC. */
static bool is_known(const char *name)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/";
	const char *const given = getenv("TZDIR");
	const char *const folder = given && given[0] ? given : "/usr/share/zoneinfo";
	char path[PATH_SIZE], mark[4];
	int file, length;
	bool is = false;

	if (name[0] == '\0' || name[0] == '/' || strlen(name) > NAME_MAX_BYTES || strspn(name, letters) != strlen(name))
		return false;
	length = snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = length > 0 && (size_t)length < sizeof(path) ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1;
	if (file >= 0) {
		is = read(file, mark, sizeof(mark)) == sizeof(mark) && memcmp(mark, "TZif", sizeof(mark)) == 0;
		(void)close(file);
	}
	return is;
}

static int32_t offset_at(int64_t at_s)
{
	const time_t at = (time_t)at_s;
	struct tm local = { 0 };

	return localtime_r(&at, &local) ? (int32_t)local.tm_gmtoff : 0;
}

static void tell_all(void (*tell)(void *context, int64_t from_s, int32_t offset_s), void *context)
{
	int32_t offset = offset_at(0);

	tell(context, 0, offset);
	for (int64_t day = 0; day < END_S; day += DAY_S) {
		int64_t before = day, after = day + DAY_S;

		if (offset_at(after) == offset)
			continue;
		while (after - before > 1) {
			const int64_t middle = before + (after - before) / 2;

			*(offset_at(middle) == offset ? &before : &after) = middle;
		}
		offset = offset_at(after);
		tell(context, after, offset);
	}
}

bool weir__zone_offsets(const char *name, void (*tell)(void *context, int64_t from_s, int32_t offset_s), void *context)
{
	const char *const before = getenv("TZ");
	char *const kept = before ? strdup(before) : NULL;

	if (!is_known(name) || (before && kept == NULL) || setenv("TZ", name, 1) != 0) {
		free(kept);
		return false;
	}
	tzset();
	tell_all(tell, context);
	if (kept)
		(void)setenv("TZ", kept, 1);
	else
		(void)unsetenv("TZ");
	tzset();
	free(kept);
	return true;
}
