/* http_page.c: the live page at /, built from page/ (scripts/bundle_page.py).
 *
 * It contains no secrets: it fetches what it shows like any client, with a token if the server has users. */
#include <string.h>
#include <strings.h>

#include "server/http/http_call.h"

extern const char weir__page[], weir__page_gzip[], weir__page_policy[], weir__page_tag[];
extern const unsigned long weir__page_length, weir__page_gzip_length, weir__page_policy_length, weir__page_tag_length;

static struct weir__http_slice trim(struct weir__http_slice text)
{
	while (text.length > 0 && (*text.bytes == ' ' || *text.bytes == '\t')) {
		text.bytes++;
		text.length--;
	}
	while (text.length > 0 && (text.bytes[text.length - 1] == ' ' || text.bytes[text.length - 1] == '\t'))
		text.length--;
	return text;
}

/* Removes from the list what comes before the separator, and returns it. */
static struct weir__http_slice next_of(struct weir__http_slice *list, char separator)
{
	char *const end = memchr(list->bytes, separator, list->length);
	const struct weir__http_slice first = { list->bytes, end ? (size_t)(end - list->bytes) : list->length };

	list->bytes += first.length + (end != NULL);
	list->length -= first.length + (end != NULL);
	return trim(first);
}

/* q=0 with any number of digits: the encoding is not wanted. */
static bool is_nought(struct weir__http_slice parameter)
{
	if (parameter.length < 3 || strncasecmp(parameter.bytes, "q=0", 3) != 0)
		return false;
	for (size_t i = 3; i < parameter.length; i++)
		if (parameter.bytes[i] != '.' && parameter.bytes[i] != '0')
			return false;
	return true;
}

/* A client that does not name gzip, or only accepts *, gets the page uncompressed. With TLS nothing is compressed: the
 * page has no secrets, but scanners report any compression (BREACH). */
static bool takes_gzip(const struct weir__http_call *call)
{
	struct weir__http_slice list;

	if (call->is_encrypted || !weir__http_find(call->request, "accept-encoding", &list))
		return false;
	while (list.length > 0) {
		struct weir__http_slice item = next_of(&list, ',');
		const struct weir__http_slice name = next_of(&item, ';');

		bool is_wanted = name.length == 4 && strncasecmp(name.bytes, "gzip", 4) == 0;

		while (item.length > 0)
			is_wanted = !is_nought(next_of(&item, ';')) && is_wanted;
		if (is_wanted)
			return true;
	}
	return false;
}

/* The weak comparison of RFC 9110: W/ makes no difference. */
static bool has_it_already(const struct weir__http_call *call, const char *tag, size_t length)
{
	struct weir__http_slice list;

	if (!weir__http_find(call->request, "if-none-match", &list))
		return false;
	while (list.length > 0) {
		struct weir__http_slice item = next_of(&list, ',');

		if (item.length == 1 && *item.bytes == '*')
			return true;
		if (item.length > 2 && memcmp(item.bytes, "W/", 2) == 0)
			item = (struct weir__http_slice){ item.bytes + 2, item.length - 2 };
		if (item.length == length && memcmp(item.bytes, tag, length) == 0)
			return true;
	}
	return false;
}

/* Writes the tag in quotes. The gzip variant is a different representation, so it has a different tag. */
static size_t write_tag(char *to, bool is_gzip)
{
	char *at = WEIR__PUT(to, "\"");

	at = weir__put(at, weir__page_tag, weir__page_tag_length);
	at = is_gzip ? WEIR__PUT(at, "-gzip\"") : WEIR__PUT(at, "\"");
	return (size_t)(at - to);
}

void weir__http_page(struct weir__http_call *call)
{
	struct weir__http_reply *const reply = call->reply;
	const bool is_gzip = takes_gzip(call);
	char tag[64]; /* 32 digits, the quotes and -gzip */
	const size_t tag_length = write_tag(tag, is_gzip);

	WEIR__REPLY_HEAD(reply, "ETag: ");
	weir__reply_head(reply, tag, tag_length);
	WEIR__REPLY_HEAD(reply, "\r\nCache-Control: no-cache\r\nVary: Accept-Encoding\r\nContent-Security-Policy: ");
	weir__reply_head(reply, weir__page_policy, weir__page_policy_length);
	WEIR__REPLY_HEAD(reply, "\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n"
				"Cross-Origin-Resource-Policy: same-origin\r\n");
	if (has_it_already(call, tag, tag_length)) {
		weir__reply_end(reply, 304, WEIR__TYPE_HTML);
		return;
	}
	if (is_gzip) {
		WEIR__REPLY_HEAD(reply, "Content-Encoding: gzip\r\n");
		weir__reply_add(reply, weir__page_gzip, weir__page_gzip_length);
	} else {
		weir__reply_add(reply, weir__page, weir__page_length);
	}
	weir__reply_end(reply, 200, WEIR__TYPE_HTML);
}
