/* ask_report.h: prints a server's reply, as a sentence for people or as JSON for programs. */
#ifndef WEIR_CLI_ASK_REPORT_H
#define WEIR_CLI_ASK_REPORT_H

#include "cli/json.h"
#include "wire/resp.h"

/* The first words of the output, by type of reply. */
struct weir__ask_words {
	const char *allowed, *denied; /* for a decision */
	const char *one, *zero;       /* for an integer reply */
};

/* Whether the reply allows the request. Replies that are not decisions count as allowed. */
bool weir__ask_report_admits(const struct weir__resp_token *answer);

/* The value of a member of a map, or NULL. */
const struct weir__resp_token *weir__ask_report_member(const struct weir__resp_token *map, const char *name);

/* Writes one element of an array as JSON. */
void weir__ask_report_element(struct weir__json *json, const struct weir__resp_token *value);

/* Prints the reply to standard output. `asked` is the requested cost, printed as "granted of asked". 0 leaves it
 * out. */
void weir__ask_report(const struct weir__resp_token *answer, const struct weir__ask_words *words, uint64_t asked,
		      bool is_json);

#endif
