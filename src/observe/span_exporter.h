/* span_exporter.h: the thread that sends the spans of all workers to a collector, by OTLP over HTTP.
 *
 * No decision waits for it. While the collector is slow, or away, spans wait in the rings of the workers; beyond those they
 * are dropped, and counted. */
#ifndef WEIR_OBSERVE_SPAN_EXPORTER_H
#define WEIR_OBSERVE_SPAN_EXPORTER_H

#include "observe/trace.h"

enum {
	WEIR__SPAN_EXPORTER_BATCH = 512,    /* spans that are sent together */
	WEIR__SPAN_EXPORTER_EVERY_MS = 200, /* those that there are by then */
	WEIR__SPAN_EXPORTER_TRIES = 4,      /* of one batch, if the collector says to come again, or is not there */
	WEIR__SPAN_EXPORTER_PAUSE_MS =
		200, /* before the second; twice as long before each other, or what the collector says, */
	WEIR__SPAN_EXPORTER_PAUSE_MOST_MS = 5000, /* but no longer than this */
	WEIR__SPAN_EXPORTER_CONNECT_MS = 2000,    /* to wait for a connection, */
	WEIR__SPAN_EXPORTER_ANSWER_MS = 5000,     /* and for an answer */
	WEIR__SPAN_EXPORTER_LAST_MS = 2000,       /* at the end */
};

struct weir__log;
struct weir__span_exporter;
struct weir_message;

/* What is wrong with a URL to send to; WEIR_OK: nothing. */
int weir__span_exporter_check(const char *url, struct weir_message *ret_message);

/* Of so many workers, for a service of this name. NULL: no memory, or no thread. */
struct weir__span_exporter *weir__span_exporter_new(const char *url, const char *service, uint32_t workers,
						    struct weir__log *log);

/* Sends what there is, for a moment at most. No worker makes spans any more. NULL is allowed. */
void weir__span_exporter_free(struct weir__span_exporter *traces);

struct weir__span_ring *weir__span_exporter_ring(struct weir__span_exporter *traces, uint32_t worker);

struct weir__span_exporter_info {
	uint64_t sent;    /* spans that the collector has taken */
	uint64_t dropped; /* that found no room, or that it has not taken */
};

void weir__span_exporter_info(const struct weir__span_exporter *traces, struct weir__span_exporter_info *ret_info);

#endif
