/* log_options.c: options that weir replay and weir tune share. */
#include "cli/log_options.h"

#include <stdio.h>

#include "cli/output.h"
#include "cli/words.h"
#include "os/zone.h"
#include "replay/log_time.h"

static void add_change(void *zone, int64_t from_s, int32_t offset_s)
{
	weir__log_zone_add(zone, from_s, offset_s);
}

const char *weir__log_options_zone(struct weir__log_options *log, struct weir__log_zone *zone, const char *value)
{
	log->zone = NULL;
	if (weir__log_zone_read(value, strlen(value), &log->zone_s))
		return NULL;
	zone->n = 0;
	if (!weir__zone_offsets(value, add_change, zone))
		return "use an offset from UTC such as +02:00 or -0530, or a zone that this system knows, such as Europe/Berlin";
	log->zone = zone;
	return NULL;
}

bool weir__log_options_check_paths(const char *whose, const char *const *paths, size_t n)
{
	for (size_t i = 1; i < n && n <= WEIR__LOG_INPUTS_MAX; i++)
		for (size_t j = 0; j < i; j++) {
			if (!weir__output_is_same(paths[i], paths[j]))
				continue;
			fprintf(stderr, "%s: ", whose);
			weir__words_safe(stderr, paths[i]);
			fputs(" and ", stderr);
			weir__words_safe(stderr, paths[j]);
			fputs(" are the same file; name each log once, or its requests count twice\n", stderr);
			return false;
		}
	return true;
}
