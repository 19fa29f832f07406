/* log_options.h: options that weir replay and weir tune share. */
#ifndef WEIR_CLI_LOG_OPTIONS_H
#define WEIR_CLI_LOG_OPTIONS_H

#include "replay/log_reader.h"
#include "replay/log_zone.h"

/* --tz: an offset, or the name of a zone, which is then in *zone. Returns NULL, or what would be right. */
const char *weir__log_options_zone(struct weir__log_options *log, struct weir__log_zone *zone, const char *value);

/* Returns false, and prints why, if two paths are the same file. `whose` is the command. */
bool weir__log_options_check_paths(const char *whose, const char *const *paths, size_t n);

#endif
