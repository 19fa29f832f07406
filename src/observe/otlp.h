/* otlp.h: spans as OTLP/HTTP in JSON (ExportTraceServiceRequest of opentelemetry-proto 1). */
#ifndef WEIR_OBSERVE_OTLP_H
#define WEIR_OBSERVE_OTLP_H

#include "observe/trace.h"

/* The service that made the spans. All strings are UTF-8. */
struct weir__otlp_resource {
	const char *service, *version, *instance;
};

/* The caller frees it. NULL: no memory. */
char *weir__otlp_write(const struct weir__otlp_resource *resource, const struct weir__span *spans, size_t n);

/* How many spans the collector rejected, according to its response to a partial success; 0 if it does not say. */
uint64_t weir__otlp_rejected(const char *answer, size_t length);

#endif
