/* http_service.c: sockets, and the part of HTTP/1.1 that the two services need. */
#include "http_service.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

static const struct timeval patience = { .tv_sec = 5 };

static volatile sig_atomic_t is_told_to_end;

static void end(int number)
{
	(void)number;
	is_told_to_end = 1;
}

bool service_send(int socket, const char *bytes, size_t n)
{
	while (n > 0) {
		const ssize_t sent = send(socket, bytes, n, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0)
			return false;
		bytes += sent;
		n -= (size_t)sent;
	}
	return true;
}

static struct sockaddr_in at_port(const char *port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons((uint16_t)strtoul(port, NULL, 10)),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

int service_connect(const char *where)
{
	const bool is_path = strchr(where, '/') != NULL;
	const char *const colon = strrchr(where, ':');
	const struct sockaddr_in address = at_port(colon ? colon + 1 : where);
	struct sockaddr_un path = { .sun_family = AF_UNIX };
	const int found = socket(is_path ? AF_UNIX : AF_INET, SOCK_STREAM, 0);

	(void)snprintf(path.sun_path, sizeof(path.sun_path), "%s", where);
	(void)setsockopt(found, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (found >= 0 && (is_path ? connect(found, (struct sockaddr *)&path, sizeof(path)) :
				     connect(found, (const struct sockaddr *)&address, sizeof(address))) == 0)
		return found;
	if (found >= 0)
		close(found);
	return -1;
}

/* Reads the headers as one string. False: they did not arrive in time, or do not fit. */
static bool read_head(int socket, char head[SERVICE_HEAD_SIZE])
{
	size_t n = 0;

	while (n + 1 < SERVICE_HEAD_SIZE) {
		const ssize_t got = recv(socket, head + n, SERVICE_HEAD_SIZE - 1 - n, 0);

		if (got <= 0)
			return false;
		n += (size_t)got;
		head[n] = '\0';
		if (strstr(head, "\r\n\r\n"))
			return strlen(head) == n;
	}
	return false;
}

/* Splits the text into its parts. False: malformed request. */
static bool parse(char *head, struct service_request *request)
{
	char *line_end = strstr(head, "\r\n"), *const space = strchr(head, ' ');
	char *const second = space && space < line_end ? strchr(space + 1, ' ') : NULL;

	if (second == NULL || second > line_end || space[1] != '/')
		return false;
	*space = *second = '\0';
	space[1 + strcspn(space + 1, "?#")] = '\0';
	request->method = head;
	request->path = space + 1;
	for (char *line = line_end + 2; (line_end = strstr(line, "\r\n")) != NULL; line = line_end + 2) {
		*line_end = '\0';
		if (strncasecmp(line, "x-api-key:", 10) == 0)
			request->api_key = line + 10 + strspn(line + 10, " \t");
	}
	return true;
}

static void answer(int socket, const struct sockaddr_in *from, service_limiter *limiter, void *context)
{
	static const char hello[] = "hello\n";
	char head[SERVICE_HEAD_SIZE], text[2 * SERVICE_TEXT_SIZE + 256];
	struct service_request request = { .method = NULL };
	struct service_answer answer = { .status = 400 };
	const char *body;
	int n;

	(void)setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	(void)inet_ntop(AF_INET, &from->sin_addr, request.ip, sizeof(request.ip));
	if (read_head(socket, head) && parse(head, &request)) {
		answer.status = 200;
		limiter(context, &request, &answer);
	}
	body = answer.status == 200 ? hello : answer.body;
	n = snprintf(text, sizeof(text),
		     "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n%s\r\n%s",
		     answer.status,
		     answer.status == 200 ? "OK" :
		     answer.status == 429 ? "Too Many Requests" :
					    "Error",
		     answer.status == 200 ? "text/plain" : "application/problem+json", strlen(body), answer.headers,
		     body);
	(void)service_send(socket, text, (size_t)n);
}

static int listen_at(const char *port)
{
	struct sockaddr_in address = at_port(port);
	socklen_t length = sizeof(address);
	const int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	/* accept has a timeout, because a signal may arrive just before it. */
	if (listener < 0 || setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
	    setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0 ||
	    bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(listener, 64) != 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
		perror("cannot listen");
		if (listener >= 0)
			close(listener);
		return -1;
	}
	printf("listening at 127.0.0.1:%u\n", ntohs(address.sin_port));
	fflush(stdout);
	return listener;
}

int service_run(const char *port, service_limiter *limiter, void *context)
{
	const struct sigaction action = { .sa_handler = end };
	const int listener = listen_at(port);

	if (listener < 0 || sigaction(SIGTERM, &action, NULL) != 0)
		return 1;
	while (!is_told_to_end) {
		struct sockaddr_in from = { .sin_family = AF_INET };
		socklen_t length = sizeof(from);
		const int accepted = accept(listener, (struct sockaddr *)&from, &length);

		if (accepted < 0)
			continue; /* timeout, or the client has left */
		answer(accepted, &from, limiter, context);
		close(accepted);
	}
	close(listener);
	return 0;
}
