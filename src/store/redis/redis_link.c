/* redis_link.c: the bytes and commands of one connection. */
#include "store/redis/redis_link.h"

#include <stdlib.h>
#include <string.h>

enum { OUTPUT_FIRST = 1024, INPUT_FIRST = 1024, LINE_MAX_BYTES = 4096, DEPTH_MAX = 6 };

static void forget(char **bytes, size_t *size)
{
	if (*bytes != NULL)
		explicit_bzero(*bytes, *size);
	free(*bytes);
	*bytes = NULL;
	*size = 0;
}

void weir__redis_link_fini(struct weir__redis_link *link)
{
	forget(&link->output, &link->output_size); /* contains passwords */
	forget(&link->input, &link->input_size);
}

void weir__redis_link_reset(struct weir__redis_link *link)
{
	link->is_leaving = link->wants_script = false;
	link->output_at = link->output_length = link->input_length = 0;
	link->first_flight = link->n_flights = 0;
	link->protocol = 3;
	link->reply = (struct weir__resp_reply){ .tokens = link->tokens,
						 .tokens_max = WEIR__REDIS_TOKENS_MAX,
						 .depth_max = DEPTH_MAX,
						 .line_max = LINE_MAX_BYTES,
						 .bulk_max = (int64_t)link->bulk_max };
	weir__resp_reply_init(&link->reply);
}

/* Grows the buffer to hold `size` bytes in all. Returns false if that is more than `most`, or memory runs out. */
static bool reserve(char **bytes, size_t *has, size_t size, size_t first, size_t most)
{
	size_t grown = *has == 0 ? first : *has;
	char *moved;

	if (size <= *has)
		return true;
	if (size > most)
		return false;
	while (grown < size)
		grown *= 2;
	moved = realloc(*bytes, grown);
	if (moved == NULL)
		return false;
	*bytes = moved;
	*has = grown;
	return true;
}

/* --- out --------------------------------------------------------------------------------------------------------- */

bool weir__redis_link_begin(struct weir__redis_link *link, size_t size, struct weir__resp_writer *ret_writer)
{
	if (link->n_flights == WEIR__REDIS_FLIGHTS_MAX)
		return false;
	if (link->output_at > 0) {
		link->output_length -= link->output_at;
		memmove(link->output, link->output + link->output_at, link->output_length);
		link->output_at = 0;
	}
	if (!reserve(&link->output, &link->output_size, link->output_length + size, OUTPUT_FIRST,
		     WEIR__REDIS_OUTPUT_MAX))
		return false;
	*ret_writer = (struct weir__resp_writer){ .bytes = link->output + link->output_length,
						  .size = link->output_size - link->output_length,
						  .resp_version = 2 };
	return true;
}

void weir__redis_link_end(struct weir__redis_link *link, const struct weir__resp_writer *writer,
			  enum weir__redis_command command, struct weir__redis_batch *batch, weir_ns now)
{
	const uint32_t at = (link->first_flight + link->n_flights++) % WEIR__REDIS_FLIGHTS_MAX;

	link->flights[at] = (struct weir__redis_flight){ command, now, batch };
	link->output_length += writer->length;
}

bool weir__redis_link_say(struct weir__redis_link *link, enum weir__redis_command command,
			  const struct weir__resp_slice *words, size_t n, weir_ns now)
{
	enum { HEAD = 32 }; /* type, length and CR LF of an array or a bulk */
	struct weir__resp_writer writer;
	size_t size = HEAD;

	for (size_t i = 0; i < n; i++)
		size += HEAD + words[i].length;
	if (!weir__redis_link_begin(link, size, &writer))
		return false;
	weir__resp_write_array(&writer, n);
	for (size_t i = 0; i < n; i++)
		weir__resp_write_bulk(&writer, words[i].bytes, words[i].length);
	weir__redis_link_end(link, &writer, command, NULL, now);
	return true;
}

bool weir__redis_link_has(const struct weir__redis_link *link, enum weir__redis_command command)
{
	for (uint32_t i = 0; i < link->n_flights; i++)
		if (link->flights[(link->first_flight + i) % WEIR__REDIS_FLIGHTS_MAX].command == command)
			return true;
	return false;
}

bool weir__redis_link_answered(struct weir__redis_link *link, weir_ns now, struct weir__redis_flight *ret_flight)
{
	if (link->n_flights == 0)
		return false;
	*ret_flight = link->flights[link->first_flight];
	link->first_flight = (link->first_flight + 1) % WEIR__REDIS_FLIGHTS_MAX;
	link->n_flights--;
	link->answered_at = now;
	return true;
}

weir_ns weir__redis_link_stalls_at(const struct weir__redis_link *link, weir_ns patience)
{
	weir_ns since;

	if (link->n_flights == 0)
		return WEIR_NEVER;
	since = link->flights[link->first_flight].sent_at;
	return (since > link->answered_at ? since : link->answered_at) + patience;
}

/* --- in ---------------------------------------------------------------------------------------------------------- */

bool weir__redis_link_gather(struct weir__redis_link *link, struct weir__resp_slice came,
			     struct weir__resp_slice *ret_bytes)
{
	if (link->input_length == 0) {
		*ret_bytes = came;
		return true;
	}
	/* The buffer may exceed the bound by the bytes of one read, because they may complete the buffered reply. */
	if (!reserve(&link->input, &link->input_size, link->input_length + came.length, INPUT_FIRST,
		     link->input_length + came.length))
		return false;
	memcpy(link->input + link->input_length, came.bytes, came.length);
	link->input_length += came.length;
	*ret_bytes = (struct weir__resp_slice){ link->input, link->input_length };
	return true;
}

bool weir__redis_link_keep(struct weir__redis_link *link, struct weir__resp_slice rest)
{
	const size_t most = 2 * link->bulk_max;

	link->input_length = 0;
	if (rest.length == 0) {
		if (link->input_size > (size_t)2 * WEIR__REDIS_BULK_MAX)
			forget(&link->input, &link->input_size); /* long replies are rare */
		return true;
	}
	if (rest.length > most || !reserve(&link->input, &link->input_size, rest.length, INPUT_FIRST, most))
		return false;
	if (rest.bytes != link->input) /* else in place: a long reply is not moved for each of its pieces */
		memmove(link->input, rest.bytes, rest.length);
	link->input_length = rest.length;
	return true;
}
