/* unmatched.c: requests that no limit of the policy matched. */
#include "engine/unmatched.h"

#include <stdio.h>
#include <string.h>

#include "observe/counters.h"
#include "observe/log.h"
#include "store/table/table.h"

enum {
	NAME_MOST = 64,        /* bytes of a name that are shown */
	VALUE_MOST = 64,       /* of a value */
	ATTRIBUTES_SIZE = 768, /* of all of them; a line has 2048, and escaping makes text longer */
};

/* Values may be secrets. They are shown only if the setting log_denials allows keys in the log. */
static int write_value(const struct weir__context *context, const struct weir_attribute *attribute, char *to,
		       size_t size)
{
	const size_t n = attribute->value_length;

	if (context->shows_values)
		return snprintf(to, size, "%.*s%s", (int)weir__min(n, VALUE_MOST), attribute->value,
				n > VALUE_MOST ? "..." : "");
	return snprintf(to, size, "#%016llx",
			(unsigned long long)weir__hash(&context->limits.counted_as->secret, attribute->value, n));
}

/* Writes NAME=VALUE for each, separated by spaces, as far as they fit. */
static size_t write_attributes(const struct weir__context *context, const struct weir_attribute *attributes, size_t n,
			       char *text, size_t size)
{
	size_t length = 0;

	for (size_t i = 0; i < n; i++) {
		const size_t name = weir__min(attributes[i].name_length, NAME_MOST);

		if (size - length < NAME_MOST + VALUE_MOST + 8)
			return length + (size_t)snprintf(text + length, size - length, " ...");
		if (i > 0)
			text[length++] = ' ';
		memcpy(text + length, attributes[i].name, name);
		length += name;
		text[length++] = '=';
		length += (size_t)write_value(context, &attributes[i], text + length, size - length);
	}
	return length;
}

static void log_unmatched(const struct weir__request *request, const struct weir_attribute *attributes, size_t n,
			  bool is_denied, uint64_t n_requests)
{
	const struct weir__context *const context = request->context;
	char text[ATTRIBUTES_SIZE], meant[WEIR__ATTRIBUTE_NAME_MAX + 1], hint[2 * NAME_MOST + 32];
	struct weir__log_line line;
	size_t misspelled;

	weir__log_begin(&line, weir__log_is_json(context->log), WEIR__LOG_WARNING, "unmatched");
	weir__log_number(&line, "requests", n_requests);
	weir__log_word(&line, "result", is_denied ? "denied" : "allowed");
	misspelled = context->guard ? weir__guard_find_misspelled(context->guard, attributes, n, meant) : n;
	if (misspelled < n) {
		const int length = snprintf(hint, sizeof(hint), "did you mean %s= instead of %.*s=?", meant,
					    (int)weir__min(attributes[misspelled].name_length, NAME_MOST),
					    attributes[misspelled].name);

		weir__log_text(&line, "hint", hint, (size_t)length);
	}
	if (request->client && request->client->write_peer) {
		char peer[WEIR__AUDIT_PEER];

		request->client->write_peer(request->client, peer);
		weir__log_word(&line, "peer", peer);
	}
	weir__log_text(&line, "attributes", text, write_attributes(context, attributes, n, text, sizeof(text)));
	weir__log_end(&line, context->log);
}

void weir__unmatched_note(const struct weir__request *request, const struct weir_attribute *attributes, size_t n,
			  bool is_denied)
{
	struct weir__context *const context = request->context;
	uint64_t n_requests;

	if (context->counters == NULL)
		return;
	weir__counters_add(&context->counters->unmatched, 1);
	if (is_denied)
		weir__counters_add(&context->counters->unmatched_denied, 1);
	if (context->log && weir__counters_set_log_unmatched(context->counters_set,
							     request->store_request.now / 1000000000, &n_requests))
		log_unmatched(request, attributes, n, is_denied, n_requests);
}
