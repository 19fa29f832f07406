/* commands_live.c: WEIR.LIVE, which answers what GET /v1/live does. */
#include "serve/asked.h"
#include "serve/command.h"

#include <ctype.h>
#include <stdlib.h>

#include "serve/live.h"

/* Seconds, then options by name. False: that was answered. */
static bool read_query(struct weir__call *call, struct weir__live_query *query)
{
	const uint32_t first = call->n % 2 == 0 ? 2 : 1;
	const char *fault = NULL;

	weir__live_query_init(query);
	if (first == 2)
		fault = weir__live_query_set(query, "seconds", 7, call->arguments[1].bytes, call->arguments[1].length);
	for (uint32_t i = first; fault == NULL && i < call->n; i += 2) {
		const struct weir__resp_slice *const name = &call->arguments[i], *const value = name + 1;
		char letters[8] = "";

		for (size_t j = 0; j < name->length && j + 1 < sizeof(letters); j++)
			letters[j] = (char)tolower((unsigned char)name->bytes[j]);
		fault = weir__live_query_set(query, letters, name->length, value->bytes, value->length);
	}
	if (fault)
		weir__refuse_with(call, WEIR__SAY_LIVE, fault);
	return fault == NULL;
}

void weir__live_command(struct weir__call *call)
{
	char *const room = malloc(WEIR__ANSWER_LONG);
	struct weir__refusal refusal = { .error = WEIR__SAY_LIVE };
	struct weir__http_reply reply;
	struct weir__live_query query;

	if (room == NULL) {
		weir__refuse_with(call, WEIR__SAY_LIVE, "no memory for it");
		return;
	}
	/* As much as is left for an answer, when the line before it is written. */
	weir__reply_init(&reply, room, WEIR__ANSWER_LONG - 32, NULL);
	if (read_query(call, &query)) {
		if (!weir__live_write(call->commands, &query, &reply)) {
			refusal.why.text[0] = '\0';
			(void)weir__asked_find_named(call->commands, query.limit, query.limit_length, &refusal);
			(void)weir__refuse_as(call, &refusal);
		} else if (reply.is_full) {
			weir__refuse_with(call, WEIR__SAY_LIVE,
					  "it is longer than an answer may be: ask for fewer keys");
		} else {
			weir__resp_write_bulk(call->writer, room + WEIR__REPLY_HEAD_ROOM, reply.body_length);
		}
	}
	free(room);
}
