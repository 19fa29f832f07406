/* http_metrics.h: the parts of the page at /metrics. */
#ifndef WEIR_SERVER_HTTP_HTTP_METRICS_H
#define WEIR_SERVER_HTTP_HTTP_METRICS_H

#include "observe/metrics.h"

struct weir__http_call;

/* http_metrics_limits.c: all metrics of limits. False: no memory, and nothing was written. */
bool weir__http_metrics_limits(struct weir__http_call *call, struct weir__metrics *metrics);

#endif
