/* json.h: writes JSON, one member per line. The output is valid JSON whatever the bytes: bytes that are not UTF-8
 * become U+FFFD, and the value follows once more in hexadecimal. */
#ifndef WEIR_CLI_JSON_H
#define WEIR_CLI_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct weir__json {
	FILE *out;
	int depth;
	bool has_members; /* of the object or array that is open */
};

/* '{' or '[', and the bracket that closes it. `name` is NULL within an array and for the top level. A newline follows
 * the end of the top level. */
void weir__json_open(struct weir__json *json, const char *name, char bracket);
void weir__json_close(struct weir__json *json, char bracket);

/* Members of an object. */
void weir__json_number(struct weir__json *json, const char *name, uint64_t number);
void weir__json_text(struct weir__json *json, const char *name, const char *text);

/* Writes a word that is already JSON, such as true or null. */
void weir__json_word(struct weir__json *json, const char *name, const char *word);

/* Writes a string. If the bytes are not UTF-8, also writes a member NAME_hex. */
void weir__json_bytes(struct weir__json *json, const char *name, const void *bytes, size_t n);

#endif
