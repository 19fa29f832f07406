/* context.c: init of the per-worker context. */
#include "engine/context.h"

#include "engine/request.h"

void weir__context_init(struct weir__context *context, struct weir_table *table,
			const struct weir_table_limit *counted_as)
{
	context->table = table;
	context->settings = NULL;
	context->users = NULL;
	context->keys_used = 0;
	context->holds = NULL;
	context->waiting = NULL;
	context->denial_body = NULL;
	context->loader = NULL;
	context->user_reload = NULL;
	context->certificates = NULL;
	context->guard = NULL;
	context->counters_set = NULL;
	context->counters = NULL;
	context->stats_set = NULL;
	context->stats = NULL;
	context->tracers = NULL;
	context->tracer = NULL;
	context->log = NULL;
	context->recorder = NULL;
	context->mailbox = NULL;
	context->key_count_cache = NULL;
	context->hides_keys = context->shows_values = false;
	context->n_in_flight = 0;
	context->in_flight_bytes = 0;
	context->spare_requests = NULL;
	context->n_spare_requests = 0;
	context->ready = NULL;
	context->worker = NULL;
	weir__table_store_init(&context->table_store, table);
	context->store = &context->table_store.store;
	weir__inline_limits_init(&context->limits, table, counted_as);
}

void weir__context_fini(struct weir__context *context)
{
	weir__requests_free_spare(context);
}

const struct weir_attribute *weir__context_with_peer(struct weir__context *context, const struct weir__client *client,
						     const struct weir_attribute *attributes, size_t *n)
{
	static const char name[] = "peer";
	const size_t length = sizeof(name) - 1;
	size_t kept = 0;

	if (client == NULL || client->peer == NULL || *n >= WEIR__CONTEXT_ATTRIBUTES_MAX)
		return attributes;
	for (size_t i = 0; i < *n; i++)
		if (attributes[i].name_length != length || memcmp(attributes[i].name, name, length) != 0)
			context->attributes[kept++] = attributes[i];
	context->attributes[kept++] = (struct weir_attribute){ name, length, client->peer, strlen(client->peer) };
	*n = kept;
	return context->attributes;
}
