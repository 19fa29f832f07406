/* span_exporter.h: the thread that sends the spans of all workers to a collector, by OTLP over HTTP.
 *
 * No decision waits for it. While the collector is slow or unreachable, spans wait in the rings of the workers. When a
 * ring is full, spans are dropped and counted. */
#ifndef WEIR_OBSERVE_SPAN_EXPORTER_H
#define WEIR_OBSERVE_SPAN_EXPORTER_H

#include "observe/trace.h"

enum {
	WEIR__SPAN_EXPORTER_BATCH = 512,    /* spans sent together */
	WEIR__SPAN_EXPORTER_EVERY_MS = 200, /* the longest that spans wait for a full batch */
	WEIR__SPAN_EXPORTER_TRIES = 4, /* for one batch, if the collector is unreachable or its status says to retry */
	/* Before the first retry, doubled before each next one. A Retry-After of the collector replaces it. */
	WEIR__SPAN_EXPORTER_PAUSE_MS = 200,
	WEIR__SPAN_EXPORTER_PAUSE_MOST_MS = 5000, /* the upper bound of Retry-After */
	WEIR__SPAN_EXPORTER_CONNECT_MS = 2000,    /* timeout for connecting */
	WEIR__SPAN_EXPORTER_ANSWER_MS = 5000,     /* timeout for a request, connecting included */
	WEIR__SPAN_EXPORTER_LAST_MS = 2000,       /* at shutdown, for all that is left */
};

struct weir__log;
struct weir__span_exporter;
struct weir_message;

/* Checks a URL to send to. Returns WEIR_OK, or an error and the message. */
int weir__span_exporter_check(const char *url, struct weir_message *ret_message);

/* `service` is the name of the service. NULL: no memory, or no thread. */
struct weir__span_exporter *weir__span_exporter_new(const char *url, const char *service, uint32_t workers,
						    struct weir__log *log);

/* Sends the remaining spans, for at most WEIR__SPAN_EXPORTER_LAST_MS. Workers must make no more spans. NULL is
 * allowed. */
void weir__span_exporter_free(struct weir__span_exporter *traces);

struct weir__span_ring *weir__span_exporter_ring(struct weir__span_exporter *traces, uint32_t worker);

struct weir__span_exporter_info {
	uint64_t sent;    /* spans that the collector accepted */
	uint64_t dropped; /* found no room, or not accepted */
};

void weir__span_exporter_info(const struct weir__span_exporter *traces, struct weir__span_exporter_info *ret_info);

#endif
