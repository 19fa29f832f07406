/* http_asking.c: an HTTP service that calls weir serve before it serves a request. Several processes can share the
 * limits of one server. The connection stays open between requests. http_in_process.c is the same without a server.
 *
 *     http_asking HOST:PORT|PATH PORT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "http_service.h"

struct limiter {
	const char *where;
	int socket; /* -1: not connected */
};

/* Appends NAME=VALUE to the query. Bytes that a query cannot have are written as %XX. */
static void add_attribute(char text[SERVICE_HEAD_SIZE], const char *name, const char *value)
{
	size_t n = strlen(text);

	n += (size_t)snprintf(text + n, SERVICE_HEAD_SIZE - n, "%s=", name);
	for (; *value && n + 4 < SERVICE_HEAD_SIZE; value++) {
		const unsigned char byte = (unsigned char)*value;
		const int is_plain = strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._/",
					    byte) != NULL;

		n += (size_t)snprintf(text + n, SERVICE_HEAD_SIZE - n, is_plain ? "%c" : "%%%02X", byte);
	}
}

/* Returns the response: its headers, a NUL, and its body. NULL: no response in time, or it does not fit. */
static const char *read_answer(int socket, char text[SERVICE_HEAD_SIZE])
{
	size_t n = 0, wanted = 0;
	char *body = NULL;

	while (body == NULL || n < wanted) {
		const ssize_t got = recv(socket, text + n, SERVICE_HEAD_SIZE - 1 - n, 0);
		const char *length;

		if (got <= 0)
			return NULL;
		n += (size_t)got;
		text[n] = '\0';
		if (body)
			continue;
		body = strstr(text, "\r\n\r\n");
		length = body ? strstr(text, "\r\nContent-Length: ") : NULL;
		if (body == NULL)
			continue;
		if (length == NULL || length > body)
			return NULL;
		body[2] = '\0'; /* the last header keeps its end of line */
		body += 4;
		wanted = (size_t)(body - text) + strtoul(length + 18, NULL, 10);
	}
	return body;
}

/* Tries twice, because the server may have closed an idle connection. If only the response was lost, the client is
 * charged twice. */
static const char *ask(struct limiter *limiter, const char *question, char answer[SERVICE_HEAD_SIZE])
{
	for (int i = 0; i < 2; i++) {
		const char *body;

		if (limiter->socket < 0)
			limiter->socket = service_connect(limiter->where);
		if (limiter->socket < 0)
			return NULL;
		if (service_send(limiter->socket, question, strlen(question))) {
			body = read_answer(limiter->socket, answer);
			if (body)
				return body;
		}
		close(limiter->socket);
		limiter->socket = -1;
	}
	return NULL;
}

/* Passes the headers about limits on to the client. */
static void pass_on(const char *head, struct service_answer *ret_answer)
{
	static const char *const names[] = { "RateLimit: ", "RateLimit-Policy: ", "Retry-After: " };
	size_t n = 0;

	for (const char *line = strstr(head, "\r\n"); line && line[2]; line = strstr(line + 2, "\r\n"))
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			if (strncasecmp(line + 2, names[i], strlen(names[i])) == 0 && n < sizeof(ret_answer->headers))
				n += (size_t)snprintf(ret_answer->headers + n, sizeof(ret_answer->headers) - n,
						      "%.*s\r\n", (int)strcspn(line + 2, "\r"), line + 2);
}

static void limit(void *context, const struct service_request *request, struct service_answer *ret_answer)
{
	char question[SERVICE_HEAD_SIZE] = "GET /v1/check?", answer[SERVICE_HEAD_SIZE];
	const char *body, *others, *rest;
	size_t n;

	add_attribute(question, "ip", request->ip);
	add_attribute(question, "&method", request->method);
	add_attribute(question, "&path", request->path);
	if (request->api_key)
		add_attribute(question, "&api_key", request->api_key);
	n = strlen(question);
	if (snprintf(question + n, sizeof(question) - n, " HTTP/1.1\r\nHost: weir\r\n\r\n") >=
	    (int)(sizeof(question) - n)) {
		ret_answer->status = 400;
		return;
	}
	body = ask(context, question, answer);
	if (body == NULL)
		return; /* fail open: without a server, all requests pass */
	pass_on(answer, ret_answer);
	/* A limit that fails closed responds 503 with "allowed":false. That is a decision, not an outage. */
	if (strncmp(answer, "HTTP/1.1 4", 10) != 0 && strstr(body, "\"allowed\":false") == NULL)
		return;
	ret_answer->status = atoi(answer + 9); /* denied, or a malformed request */
	/* Visitors must not learn about other limits and about limits in shadow. */
	others = strstr(body, ",\"limits\":");
	rest = others ? strstr(others, ",\"decided_by\":") : NULL;
	if (rest)
		(void)snprintf(ret_answer->body, sizeof(ret_answer->body), "%.*s%s", (int)(others - body), body, rest);
	else
		(void)snprintf(ret_answer->body, sizeof(ret_answer->body), "%s", body);
}

int main(int argc, char **argv)
{
	struct limiter limiter = { .where = argv[1], .socket = -1 };
	int result;

	if (argc != 3) {
		fprintf(stderr, "usage: http_asking HOST:PORT|PATH PORT\n");
		return 2;
	}
	result = service_run(argv[2], limit, &limiter);
	if (limiter.socket >= 0)
		close(limiter.socket);
	return result;
}
