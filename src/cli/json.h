/* json.h: writes JSON, a member a line. What comes out is valid whatever the bytes are: what is no UTF-8 becomes
 * U+FFFD, and the bytes themselves follow in hexadecimal. */
#ifndef WEIR_CLI_JSON_H
#define WEIR_CLI_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct weir__json {
	FILE *out;
	int depth;
	bool has_members; /* the object or array that is open */
};

/* '{' or '[', and what closes it. name is NULL within an array, and for the whole, after which comes a newline. */
void weir__json_open(struct weir__json *json, const char *name, char bracket);
void weir__json_close(struct weir__json *json, char bracket);

/* Members of an object. */
void weir__json_number(struct weir__json *json, const char *name, uint64_t number);
void weir__json_text(struct weir__json *json, const char *name, const char *text);

/* true, null, or what else is JSON already. */
void weir__json_word(struct weir__json *json, const char *name, const char *word);

/* A string; if the bytes are no UTF-8, also a member NAME_hex. */
void weir__json_bytes(struct weir__json *json, const char *name, const void *bytes, size_t n);

#endif
