/* http_service.h: what http_in_process.c and http_asking.c share: a service of HTTP that answers everything with hello, if
 * its limiter lets it.
 *
 * It is as small as will do to show a limiter: one thread, a request for each connection, no bodies, 8 KiB of headers and
 * five seconds to send them. It is no server for the world: take one that is, and call the same functions from it. */
#ifndef WEIR_EXAMPLES_HTTP_SERVICE_H
#define WEIR_EXAMPLES_HTTP_SERVICE_H

#include <stdbool.h>
#include <stddef.h>

enum { SERVICE_HEAD_SIZE = 8192, SERVICE_TEXT_SIZE = 1024 };

struct service_request {
	char ip[16];
	const char *method, *path; /* as they were sent, but for the query */
	const char *api_key;       /* NULL: it has none */
};

struct service_answer {
	int status;                      /* 200: the service answers */
	char headers[SERVICE_TEXT_SIZE]; /* whole lines; 200 has them as well */
	char body[SERVICE_TEXT_SIZE];    /* of any other status, a problem */
};

/* Whether a request may pass. *answer is a 200 without headers when it comes. */
typedef void service_limiter(void *context, const struct service_request *request, struct service_answer *answer);

/* Serves at 127.0.0.1:PORT, where 0 is any that is free, and says where that is; until SIGTERM. Returns what main does. */
int service_run(const char *port, service_limiter *limiter, void *context);

/* A socket that is connected to 127.0.0.1:PORT, or to a path if it has a slash; -1: errno tells. */
int service_connect(const char *where);

bool service_send(int socket, const char *bytes, size_t n);

#endif
