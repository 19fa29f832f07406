/* http_service.h: the HTTP service of http_in_process.c and http_asking.c. It responds with hello to every request that
 * its limiter allows.
 *
 * It is only large enough to show a limiter: one thread, one request per connection, no bodies, 8 KiB of headers, and five
 * seconds to send them. For production, call the same functions from a real HTTP server. */
#ifndef WEIR_EXAMPLES_HTTP_SERVICE_H
#define WEIR_EXAMPLES_HTTP_SERVICE_H

#include <stdbool.h>
#include <stddef.h>

enum { SERVICE_HEAD_SIZE = 8192, SERVICE_TEXT_SIZE = 1024 };

struct service_request {
	char ip[16];
	const char *method, *path; /* as sent, without the query */
	const char *api_key;       /* NULL: none */
};

struct service_answer {
	int status;                      /* 200: the request passes */
	char headers[SERVICE_TEXT_SIZE]; /* complete lines, also for 200 */
	char body[SERVICE_TEXT_SIZE];    /* a problem in JSON, unless 200 */
};

/* Decides whether a request may pass. *answer is a 200 without headers before the call. */
typedef void service_limiter(void *context, const struct service_request *request, struct service_answer *answer);

/* Serves at 127.0.0.1:PORT until SIGTERM, and prints the address. Port 0 picks a free one. Returns the exit status. */
int service_run(const char *port, service_limiter *limiter, void *context);

/* Returns a socket connected to 127.0.0.1:PORT, or to a path if it has a slash. -1: see errno. */
int service_connect(const char *where);

bool service_send(int socket, const char *bytes, size_t n);

#endif
