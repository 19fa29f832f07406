/* recording.h: checks a recording by repeating its decisions. */
#ifndef WEIR_CLI_RECORDING_H
#define WEIR_CLI_RECORDING_H

#include <stdbool.h>

/* Prints the result for `command`. Returns its exit code: 0 if all decisions that can be compared are the same, 1 if
 * not, 3 if the file cannot be read. */
int weir__recording_check(const char *command, const char *path, bool is_json);

#endif
