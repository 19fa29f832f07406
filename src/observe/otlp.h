/* otlp.h: spans as OTLP says them over HTTP in JSON: ExportTraceServiceRequest of opentelemetry-proto 1. */
#ifndef WEIR_OBSERVE_OTLP_H
#define WEIR_OBSERVE_OTLP_H

#include "observe/trace.h"

/* Who has made them. All of it is UTF-8. */
struct weir__otlp_resource {
	const char *service, *version, *instance;
};

/* To be freed. NULL: no memory. */
char *weir__otlp_write(const struct weir__otlp_resource *resource, const struct weir__span *spans, size_t n);

/* How many of the spans an answer says were not taken, though the others were; 0 if it does not say so. */
uint64_t weir__otlp_rejected(const char *answer, size_t length);

#endif
