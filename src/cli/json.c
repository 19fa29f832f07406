/* json.c: writes JSON. */
#include "cli/json.h"

#include <inttypes.h>
#include <string.h>

#include "core/utf8.h"

/* Writes everything that precedes a value: the comma, the indent and the name. */
static void begin(struct weir__json *json, const char *name)
{
	if (json->has_members)
		putc(',', json->out);
	if (json->depth > 0)
		fprintf(json->out, "\n%*s", 2 * json->depth, "");
	if (name)
		fprintf(json->out, "\"%s\": ", name);
	json->has_members = true;
}

void weir__json_open(struct weir__json *json, const char *name, char bracket)
{
	begin(json, name);
	putc(bracket, json->out);
	json->depth++;
	json->has_members = false;
}

void weir__json_close(struct weir__json *json, char bracket)
{
	json->depth--;
	if (json->has_members)
		fprintf(json->out, "\n%*s", 2 * json->depth, "");
	putc(bracket, json->out);
	if (json->depth == 0)
		putc('\n', json->out);
	json->has_members = true;
}

void weir__json_word(struct weir__json *json, const char *name, const char *word)
{
	begin(json, name);
	fputs(word, json->out);
}

void weir__json_number(struct weir__json *json, const char *name, uint64_t number)
{
	begin(json, name);
	fprintf(json->out, "%" PRIu64, number);
}

/* Returns whether all bytes were UTF-8. */
static bool write_string(FILE *out, const unsigned char *at, size_t n)
{
	bool is_utf8 = true;
	uint16_t units[2];

	putc('"', out);
	while (n > 0) {
		const struct weir__utf8 first = weir__utf8_first(at, n);

		if (!first.is_character) {
			is_utf8 = false;
			fputs("\\ufffd", out);
		} else if (weir__utf8_is_hidden(first.character)) {
			const unsigned n_units = weir__utf8_units(first.character, units);

			for (unsigned i = 0; i < n_units; i++)
				fprintf(out, "\\u%04x", units[i]);
		} else {
			if (*at == '"' || *at == '\\')
				putc('\\', out);
			fwrite(at, 1, first.length, out);
		}
		at += first.length;
		n -= first.length;
	}
	putc('"', out);
	return is_utf8;
}

void weir__json_bytes(struct weir__json *json, const char *name, const void *bytes, size_t n)
{
	const unsigned char *const at = bytes;

	begin(json, name);
	if (write_string(json->out, at, n) || name == NULL) /* an element of an array has no room for a second form */
		return;
	fprintf(json->out, ",\n%*s\"%s_hex\": \"", 2 * json->depth, "", name);
	for (size_t i = 0; i < n; i++)
		fprintf(json->out, "%02x", at[i]);
	putc('"', json->out);
}

void weir__json_text(struct weir__json *json, const char *name, const char *text)
{
	weir__json_bytes(json, name, text, strlen(text));
}
