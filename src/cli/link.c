/* link.c: one request, one reply. */
#include "cli/link.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *weir__link_default(void)
{
	const char *const at = getenv("WEIR_AT");

	return at && *at ? at : WEIR__LINK_HERE;
}

__attribute__((format(printf, 3, 4))) static enum weir__link_result
fail(struct weir__link *link, enum weir__link_result result, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	(void)vsnprintf(link->why, sizeof(link->why), format, arguments);
	va_end(arguments);
	return result;
}

static enum weir__link_result not_connected(struct weir__link *link, const char *where, int error, const char *tls_why)
{
	switch (error) {
	case EPROTO:
		return fail(link, WEIR__LINK_FAILED, "%.128s: %s", where, tls_why);
	case EINVAL:
		return fail(link, WEIR__LINK_WRONG,
			    "%.128s: invalid address; use HOST:PORT, such as " WEIR__LINK_HERE
			    ", tls://HOST:PORT, or the path of a socket, "
			    "with a slash",
			    where);
	case ECONNREFUSED:
	case ENOENT:
		return fail(link, WEIR__LINK_FAILED, "no server at %.128s: start one with `weir serve`", where);
	default:
		return fail(link, WEIR__LINK_FAILED, "%.128s: %s", where, strerror(error));
	}
}

static enum weir__link_result not_answered(struct weir__link *link, ssize_t n)
{
	if (n == 0)
		return fail(link, WEIR__LINK_FAILED, "the server closed the connection without a reply");
	if (n == -EAGAIN)
		return fail(link, WEIR__LINK_FAILED, "the server does not reply; check that this is its RESP address");
	if (n == -EPROTO && link->stream.tls)
		return fail(link, WEIR__LINK_FAILED, "%s", weir__tls_why(link->stream.tls));
	return fail(link, WEIR__LINK_FAILED, "the connection was lost: %s", strerror((int)-n));
}

static bool write_request(struct weir__resp_writer *writer, const struct weir__resp_slice *words, size_t n)
{
	weir__resp_write_array(writer, n);
	for (size_t i = 0; i < n; i++)
		weir__resp_write_bulk(writer, words[i].bytes, words[i].length);
	return writer->length <= writer->size;
}

static enum weir__link_result send_all(struct weir__link *link, const char *bytes, size_t size)
{
	for (size_t sent = 0; sent < size;) {
		const ssize_t n = weir__stream_write(&link->stream, bytes + sent, size - sent);

		if (n < 0 && n != -EINTR)
			return not_answered(link, n);
		sent += n > 0 ? (size_t)n : 0;
	}
	return WEIR__LINK_OK;
}

/* Reads until a reply is complete. Out-of-band (push) messages are skipped. */
static enum weir__link_result receive(struct weir__link *link)
{
	struct weir__resp_reply reply = { .tokens = link->tokens,
					  .tokens_max = WEIR__LINK_TOKENS,
					  .depth_max = WEIR__RESP_DEPTH_MOST,
					  .line_max = WEIR__RESP_LINE_MAX,
					  .bulk_max = WEIR__LINK_BYTES };

	weir__resp_reply_init(&reply);
	for (;;) {
		const enum weir__resp_status status = weir__resp_reply_read(&reply, link->bytes, link->n, &link->used);
		ssize_t n;

		if (status == WEIR__RESP_BAD)
			return fail(link, WEIR__LINK_FAILED, "the server does not speak RESP: %s",
				    weir__resp_error_words(reply.fault));
		if (status == WEIR__RESP_COMPLETE && link->tokens[0].type != WEIR__RESP_PUSH)
			return WEIR__LINK_OK;
		if (status == WEIR__RESP_COMPLETE) {
			memmove(link->bytes, link->bytes + link->used, link->n - link->used);
			link->n -= link->used;
			weir__resp_reply_init(&reply);
			continue;
		}
		if (link->n == sizeof(link->bytes))
			return fail(link, WEIR__LINK_FAILED, "the reply is longer than %d bytes", WEIR__LINK_BYTES);
		n = weir__stream_read(&link->stream, link->bytes + link->n, sizeof(link->bytes) - link->n);
		if (n <= 0 && n != -EINTR)
			return not_answered(link, n);
		link->n += n > 0 ? (size_t)n : 0;
	}
}

enum weir__link_result weir__link_ask(struct weir__link *link, const struct weir__resp_slice *words, size_t n)
{
	struct weir__resp_writer writer = { .resp_version = 3 };
	enum weir__link_result result;

	(void)write_request(&writer, words, n);
	writer = (struct weir__resp_writer){ .bytes = malloc(writer.length), .size = writer.length, .resp_version = 3 };
	if (writer.bytes == NULL)
		return fail(link, WEIR__LINK_FAILED, "no memory for the request");
	(void)write_request(&writer, words, n);
	memmove(link->bytes, link->bytes + link->used, link->n - link->used);
	link->n -= link->used;
	link->used = 0;
	result = send_all(link, writer.bytes, writer.size);
	free(writer.bytes);
	return result == WEIR__LINK_OK ? receive(link) : result;
}

static struct weir__resp_slice word(const char *text)
{
	return (struct weir__resp_slice){ text, strlen(text) };
}

static enum weir__link_result say_hello(struct weir__link *link, const char *user, const char *password)
{
	const struct weir__resp_slice words[] = { word("HELLO"), word("3"), word("AUTH"), word(user ? user : "default"),
						  word(password ? password : "") };
	const enum weir__link_result result = weir__link_ask(link, words, password ? 5 : 2);
	const struct weir__resp_token *const answer = &link->tokens[0];

	if (result != WEIR__LINK_OK || answer->type != WEIR__RESP_ERROR)
		return result;
	if (password == NULL && answer->text.length >= 6 && memcmp(answer->text.bytes, "NOAUTH", 6) == 0)
		return fail(link, WEIR__LINK_FAILED,
			    "authentication required: use --user USER, and give the password with --password-file "
			    "FILE or WEIR_PASSWORD in the environment");
	return fail(link, WEIR__LINK_FAILED, "the server replied: %.*s", (int)answer->text.length, answer->text.bytes);
}

/* An older server, which does not know the command, always replies with maps. */
static enum weir__link_result ask_for_maps(struct weir__link *link)
{
	const struct weir__resp_slice words[] = { word("WEIR.REPLIES"), word("MAP") };

	return weir__link_ask(link, words, sizeof(words) / sizeof(words[0]));
}

enum weir__link_result weir__link_open(struct weir__link *link, const char *where, const char *user,
				       const char *password, const struct weir__tls_files *files, uint32_t timeout_ms)
{
	char why[WEIR__TLS_WHY_SIZE] = "";
	enum weir__link_result result;
	int error;

	if (weir__stream_context(where, files, &link->tls, why) != 0)
		return fail(link, WEIR__LINK_WRONG, "%s", why);
	error = weir__stream_open(&link->stream, where, link->tls, timeout_ms, why);
	if (error != 0) {
		weir__tls_context_free(link->tls);
		return not_connected(link, where, error, why);
	}
	link->used = link->n = 0;
	result = say_hello(link, user, password);
	if (result == WEIR__LINK_OK)
		result = ask_for_maps(link);
	if (result != WEIR__LINK_OK)
		weir__link_close(link);
	return result;
}

void weir__link_close(struct weir__link *link)
{
	weir__stream_close(&link->stream);
	weir__tls_context_free(link->tls);
}
