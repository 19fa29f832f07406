/* ask_report.h: what a server has answered, for people in a sentence and for programs in JSON. */
#ifndef WEIR_CLI_ASK_REPORT_H
#define WEIR_CLI_ASK_REPORT_H

#include "wire/resp.h"

/* How an answer begins, by what was asked. */
struct weir__ask_words {
	const char *allowed, *denied; /* of a decision */
	const char *one, *zero;       /* of an answer that is a number */
};

/* Whether the answer admits: only a decision can do otherwise. */
bool weir__ask_report_admits(const struct weir__resp_token *answer);

/* Prints it to standard output. `asked` is the cost that was asked for, or 0 if that is of no matter. */
void weir__ask_report(const struct weir__resp_token *answer, const struct weir__ask_words *words, uint64_t asked,
		      bool is_json);

#endif
