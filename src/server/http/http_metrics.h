/* http_metrics.h: parts of the response of /metrics. */
#ifndef WEIR_SERVER_HTTP_HTTP_METRICS_H
#define WEIR_SERVER_HTTP_HTTP_METRICS_H

#include "observe/metrics.h"

struct weir__http_call;

/* http_metrics_limits.c: writes all metrics of limits. Returns false, and writes nothing, if memory runs out. */
bool weir__http_metrics_limits(struct weir__http_call *call, struct weir__metrics *metrics);

#endif
