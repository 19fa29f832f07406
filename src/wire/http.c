/* http.c: parses requests with llhttp, and is stricter than llhttp.
 *
 * llhttp accepts LF without CR in some places, headers continued on the next line, and other things that proxies and
 * servers in a chain may parse differently. So all line ends are checked again here. */
#include "wire/http.h"

#include <string.h>
#include <strings.h>

#include "core/hex.h"

enum { IN_HEAD, IN_LENGTH, IN_CHUNKS };

static const struct {
	unsigned status;
	const char *words;
} faults[] = {
#define FAULT_ROW(name, status, text) { (status), (text) },
	WEIR__HTTP_ERRORS(FAULT_ROW)
#undef FAULT_ROW
};

unsigned weir__http_error_status(enum weir__http_error fault)
{
	return faults[fault].status;
}

const char *weir__http_error_words(enum weir__http_error fault)
{
	return faults[fault].words;
}

const char *weir__http_error_words_of(unsigned status)
{
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (faults[i].status == status)
			return faults[i].words;
	return "";
}

const char *weir__http_error_reason(const struct weir__http_reader *reader)
{
	return reader->fault == WEIR__HTTP_ERROR_SYNTAX ? llhttp_get_error_reason(&reader->parser) : NULL;
}

/* --- llhttp callbacks ------------------------------------------------------------------------------------------- */

static struct weir__http_reader *reader_of(llhttp_t *parser)
{
	return (struct weir__http_reader *)parser; /* the parser is the first member */
}

/* HPE_USER ends llhttp's parsing. */
static int fail(struct weir__http_reader *reader, enum weir__http_error fault, size_t at)
{
	if (reader->fault == WEIR__HTTP_ERROR_NONE) {
		reader->fault = (uint8_t)fault;
		reader->fault_at = reader->phase == IN_CHUNKS ? reader->head_length : (uint32_t)at;
	}
	return HPE_USER;
}

static uint32_t offset_of(const struct weir__http_reader *reader, const char *at)
{
	return reader->base + (uint32_t)(at - reader->piece);
}

/* If a span was read in pieces, the pieces are adjacent. */
static void extend(const struct weir__http_reader *reader, struct weir__http_span *span, const char *at, size_t length)
{
	if (span->length == 0)
		span->at = offset_of(reader, at);
	span->length += (uint32_t)length;
}

static int on_target(llhttp_t *parser, const char *at, size_t length)
{
	struct weir__http_reader *const reader = reader_of(parser);

	extend(reader, &reader->target, at, length);
	return 0;
}

/* Checks that each line ends with CR LF, and none is continued on the next. */
static bool check_lines(struct weir__http_reader *reader, const char *end)
{
	const char *from = reader->framing;

	if (from == end)
		return true;
	if (reader->before == '\n' && (*from == ' ' || *from == '\t')) {
		(void)fail(reader, WEIR__HTTP_ERROR_FOLDED, offset_of(reader, from));
		return false;
	}
	for (const char *at = from; (at = memchr(at, '\n', (size_t)(end - at))) != NULL; at++) {
		if ((at == from ? reader->before : at[-1]) != '\r') {
			(void)fail(reader, WEIR__HTTP_ERROR_BARE_LF, offset_of(reader, at));
			return false;
		}
		if (at + 1 < end && (at[1] == ' ' || at[1] == '\t')) {
			(void)fail(reader, WEIR__HTTP_ERROR_FOLDED, offset_of(reader, at + 1));
			return false;
		}
	}
	reader->before = end[-1];
	reader->framing = end;
	return true;
}

/* Reports the first error in the request, so that the result does not depend on the pieces in which it came. */
static int fail_behind(struct weir__http_reader *reader, enum weir__http_error fault, const char *at)
{
	return check_lines(reader, at) ? fail(reader, fault, offset_of(reader, at)) : HPE_USER;
}

/* Bounds the bytes that are skipped. */
static int pass_over(struct weir__http_reader *reader, const char *at, size_t length)
{
	reader->extra += (uint32_t)length;
	if (reader->extra > WEIR__HTTP_EXTRA_MAX)
		return fail_behind(reader, WEIR__HTTP_ERROR_EXTRA_SIZE, at);
	return 0;
}

static int on_name(llhttp_t *parser, const char *at, size_t length)
{
	struct weir__http_reader *const reader = reader_of(parser);

	if (reader->phase == IN_CHUNKS)
		return pass_over(reader, at, length);
	reader->name = at;
	if (reader->is_value || reader->n == 0) {
		if (reader->n == WEIR__HTTP_HEADERS_MAX)
			return 0;
		reader->headers[reader->n++] = (struct weir__http_header){ { 0, 0 }, { 0, 0 } };
		reader->is_value = false;
	}
	extend(reader, &reader->headers[reader->n - 1].name, at, length);
	return 0;
}

/* Checks only once a name is complete. Otherwise an invalid byte in that name would be reported if it came at once, but
 * the number of headers if it came in pieces. */
static int on_whole_name(llhttp_t *parser)
{
	struct weir__http_reader *const reader = reader_of(parser);
	const struct weir__http_span *const last = &reader->headers[WEIR__HTTP_HEADERS_MAX - 1].value;

	if (reader->phase == IN_CHUNKS || reader->n < WEIR__HTTP_HEADERS_MAX || !reader->is_value)
		return 0;
	if (!check_lines(reader, reader->name))
		return HPE_USER;
	return fail(reader, WEIR__HTTP_ERROR_HEADERS, last->at + last->length);
}

static int on_value(llhttp_t *parser, const char *at, size_t length)
{
	struct weir__http_reader *const reader = reader_of(parser);

	if (reader->phase == IN_CHUNKS)
		return pass_over(reader, at, length);
	reader->is_value = true;
	extend(reader, &reader->headers[reader->n - 1].value, at, length);
	return 0;
}

static int on_extension(llhttp_t *parser, const char *at, size_t length)
{
	return pass_over(reader_of(parser), at, length);
}

static int pause(llhttp_t *parser)
{
	(void)parser;
	return HPE_PAUSED;
}

static int on_chunk(llhttp_t *parser)
{
	struct weir__http_reader *const reader = reader_of(parser);

	if (parser->content_length > WEIR__HTTP_BODY_MAX - reader->body_length)
		return fail(reader, WEIR__HTTP_ERROR_BODY_SIZE, reader->head_length);
	return 0;
}

/* Joins the chunks where the first of them begins. */
static int on_body(llhttp_t *parser, const char *at, size_t length)
{
	struct weir__http_reader *const reader = reader_of(parser);

	if (!check_lines(reader, at))
		return HPE_USER;
	memmove(reader->bytes + reader->head_length + reader->body_length, at, length);
	reader->body_length += (uint32_t)length;
	reader->framing = at + length;
	reader->before = '\0';
	return 0;
}

static const llhttp_settings_t settings = {
	.on_url = on_target,
	.on_header_field = on_name,
	.on_header_field_complete = on_whole_name,
	.on_header_value = on_value,
	.on_headers_complete = pause,
	.on_chunk_extension_name = on_extension,
	.on_chunk_extension_value = on_extension,
	.on_chunk_header = on_chunk,
	.on_body = on_body,
	.on_message_complete = pause,
};

void weir__http_init(struct weir__http_reader *reader)
{
	llhttp_init(&reader->parser, HTTP_REQUEST, &settings);
	reader->length = 0;
	reader->head_length = reader->body_length = reader->body_wanted = 0;
	reader->extra = 0;
	reader->before = '\0';
	reader->phase = IN_HEAD;
	reader->is_value = reader->expects_continue = false;
	reader->fault = WEIR__HTTP_ERROR_NONE;
	reader->fault_at = 0;
	reader->target = (struct weir__http_span){ 0, 0 };
	reader->n = 0;
}

/* --- the head --------------------------------------------------------------------------------------------------- */

static bool is_named(const char *bytes, const struct weir__http_header *header, const char *name, size_t length)
{
	return header->name.length == length && strncasecmp(bytes + header->name.at, name, length) == 0;
}

static void trim(const char *bytes, struct weir__http_span *span)
{
	while (span->length > 0 &&
	       (bytes[span->at + span->length - 1] == ' ' || bytes[span->at + span->length - 1] == '\t'))
		span->length--;
}

static bool is_value(const char *bytes, const struct weir__http_header *header, const char *word)
{
	return header->value.length == strlen(word) &&
	       strncasecmp(bytes + header->value.at, word, header->value.length) == 0;
}

static enum weir__http_error check_headers(struct weir__http_reader *reader, const char *bytes)
{
	uint32_t hosts = 0, codings = 0;

	for (uint32_t i = 0; i < reader->n; i++) {
		struct weir__http_header *const header = &reader->headers[i];

		trim(bytes, &header->value);
		if (header->name.length == 0) {
			reader->fault_at = header->value.at;
			return WEIR__HTTP_ERROR_NAMELESS;
		}
		reader->fault_at = header->name.at;
		if (is_named(bytes, header, "host", 4) && ++hosts > 1)
			return WEIR__HTTP_ERROR_HOSTS;
		if (is_named(bytes, header, "transfer-encoding", 17) &&
		    (++codings > 1 || !is_value(bytes, header, "chunked") || reader->parser.http_minor == 0))
			return WEIR__HTTP_ERROR_CODING;
		if (is_named(bytes, header, "expect", 6) && reader->parser.http_minor > 0) {
			if (!is_value(bytes, header, "100-continue"))
				return WEIR__HTTP_ERROR_EXPECTATION;
			reader->expects_continue = true;
		}
	}
	reader->fault_at = 0;
	return hosts == 0 && reader->parser.http_minor > 0 ? WEIR__HTTP_ERROR_NO_HOST : WEIR__HTTP_ERROR_NONE;
}

/* llhttp also accepts other protocols of this form, and a request line without a version. */
static bool has_version(const struct weir__http_reader *reader, const char *bytes)
{
	const char *const behind = bytes + reader->target.at + reader->target.length;

	return memcmp(behind, " HTTP/1.1\r", 10) == 0 || memcmp(behind, " HTTP/1.0\r", 10) == 0;
}

static enum weir__http_error check_head(struct weir__http_reader *reader, const char *bytes)
{
	const llhttp_t *const parser = &reader->parser;
	enum weir__http_error fault;

	reader->fault_at = reader->target.at;
	if (parser->method == HTTP_CONNECT || parser->method == HTTP_PRI)
		return WEIR__HTTP_ERROR_METHOD;
	/* The head may end less than 10 bytes after the target. */
	if (reader->target.at + reader->target.length + 10 > reader->head_length || !has_version(reader, bytes))
		return WEIR__HTTP_ERROR_VERSION;
	if (memchr(bytes + reader->target.at, '#', reader->target.length))
		return WEIR__HTTP_ERROR_TARGET;
	fault = check_headers(reader, bytes);
	if (fault == WEIR__HTTP_ERROR_NONE && parser->content_length > WEIR__HTTP_BODY_MAX)
		fault = WEIR__HTTP_ERROR_BODY_SIZE;
	return fault;
}

/* --- reading ---------------------------------------------------------------------------------------------------- */

/* Parses the bytes from `at` on. Where llhttp reports an error, the line ends up to there are checked, too, so that the
 * result does not depend on the pieces in which a request came. */
static llhttp_errno_t execute(struct weir__http_reader *reader, char *bytes, size_t at, size_t n)
{
	const char *end = bytes + n;
	llhttp_errno_t error;

	reader->bytes = bytes;
	reader->piece = reader->framing = reader->name = bytes + at;
	reader->base = (uint32_t)at;
	error = llhttp_execute(&reader->parser, bytes + at, n - at);
	if (error != HPE_OK)
		end = llhttp_get_error_pos(&reader->parser);
	if (reader->fault == WEIR__HTTP_ERROR_NONE && end > reader->framing)
		(void)check_lines(reader, end);
	if (reader->fault != WEIR__HTTP_ERROR_NONE)
		return HPE_USER;
	if (error != HPE_OK && error != HPE_PAUSED)
		(void)fail(reader,
			   error == HPE_PAUSED_H2_UPGRADE ? WEIR__HTTP_ERROR_METHOD :
			   error == HPE_INVALID_VERSION   ? WEIR__HTTP_ERROR_VERSION :
							    WEIR__HTTP_ERROR_SYNTAX,
			   offset_of(reader, end));
	return error;
}

static enum weir__http_status refuse(struct weir__http_reader *reader, enum weir__http_error fault)
{
	reader->fault = (uint8_t)fault;
	return WEIR__HTTP_BAD;
}

static enum weir__http_status read_head(struct weir__http_reader *reader, char *bytes, size_t n)
{
	const size_t most = n < WEIR__HTTP_HEAD_MAX ? n : WEIR__HTTP_HEAD_MAX;
	enum weir__http_error fault;
	llhttp_errno_t error;

	error = execute(reader, bytes, reader->length, most);
	reader->length = most;
	if (error == HPE_OK) {
		reader->fault_at = (uint32_t)most;
		if (most < WEIR__HTTP_HEAD_MAX)
			return WEIR__HTTP_MORE;
		return refuse(reader, reader->n == 0 && reader->target.at + reader->target.length == most ?
					      WEIR__HTTP_ERROR_URI_SIZE :
					      WEIR__HTTP_ERROR_HEAD_SIZE);
	}
	if (error != HPE_PAUSED)
		return WEIR__HTTP_BAD;
	reader->head_length = (uint32_t)(llhttp_get_error_pos(&reader->parser) - bytes);
	reader->length = reader->head_length;
	fault = check_head(reader, bytes);
	if (fault != WEIR__HTTP_ERROR_NONE)
		return refuse(reader, fault);
	reader->is_kept_alive = llhttp_should_keep_alive(&reader->parser) != 0;
	reader->phase = reader->parser.flags & F_CHUNKED ? IN_CHUNKS : IN_LENGTH;
	if (reader->phase == IN_LENGTH)
		reader->body_wanted = (uint32_t)reader->parser.content_length;
	reader->parser.upgrade = 0; /* upgrades are not supported, so the header is ignored */
	return WEIR__HTTP_COMPLETE;
}

static enum weir__http_status read_length(struct weir__http_reader *reader, size_t n, size_t *ret_used)
{
	const size_t there = n - reader->head_length;

	reader->body_length = there < reader->body_wanted ? (uint32_t)there : reader->body_wanted;
	*ret_used = reader->length = reader->head_length + reader->body_length;
	return reader->body_length == reader->body_wanted ? WEIR__HTTP_COMPLETE : WEIR__HTTP_MORE;
}

static enum weir__http_status read_chunks(struct weir__http_reader *reader, char *bytes, size_t n, size_t *ret_used)
{
	llhttp_errno_t error;

	if (reader->parser.error == HPE_PAUSED)
		llhttp_resume(&reader->parser);
	error = execute(reader, bytes, reader->length, n);
	reader->length = reader->head_length + reader->body_length;
	if (error == HPE_OK)
		return WEIR__HTTP_MORE;
	if (error != HPE_PAUSED)
		return WEIR__HTTP_BAD;
	*ret_used = (size_t)(llhttp_get_error_pos(&reader->parser) - bytes);
	return WEIR__HTTP_COMPLETE;
}

/* A target is a path, or begins with a scheme and an authority as in requests to a proxy. */
static void split_target(char *bytes, const struct weir__http_span *target, struct weir__http_request *ret_request)
{
	char *path = bytes + target->at, *const end = path + target->length;
	char *query;

	if (path < end && *path != '/' && *path != '*') {
		path = memmem(path, (size_t)(end - path), "://", 3);
		path = path ? memchr(path + 3, '/', (size_t)(end - path - 3)) : NULL;
		path = path ? path : end;
	}
	query = memchr(path, '?', (size_t)(end - path));
	ret_request->path = (struct weir__http_slice){ path, (size_t)((query ? query : end) - path) };
	query = query ? query + 1 : end;
	ret_request->query = (struct weir__http_slice){ query, (size_t)(end - query) };
}

void weir__http_request_of(const struct weir__http_reader *reader, char *bytes, struct weir__http_request *ret_request)
{
	ret_request->method = (llhttp_method_t)reader->parser.method;
	split_target(bytes, &reader->target, ret_request);
	ret_request->body = (struct weir__http_slice){ bytes + reader->head_length, reader->body_length };
	ret_request->is_kept_alive = reader->is_kept_alive;
	ret_request->reader = reader;
	ret_request->bytes = bytes;
}

enum weir__http_status weir__http_read(struct weir__http_reader *reader, char *bytes, size_t n, size_t *ret_used,
				       struct weir__http_request *ret_request)
{
	enum weir__http_status status = WEIR__HTTP_COMPLETE;

	if (reader->phase == IN_HEAD)
		status = read_head(reader, bytes, n);
	if (status == WEIR__HTTP_COMPLETE)
		status = reader->phase == IN_LENGTH ? read_length(reader, n, ret_used) :
						      read_chunks(reader, bytes, n, ret_used);
	if (status == WEIR__HTTP_COMPLETE)
		weir__http_request_of(reader, bytes, ret_request);
	return status;
}

bool weir__http_find(const struct weir__http_request *request, const char *name, struct weir__http_slice *ret_value)
{
	const struct weir__http_reader *const reader = request->reader;
	const size_t length = strlen(name);

	for (uint32_t i = 0; i < reader->n; i++)
		if (is_named(request->bytes, &reader->headers[i], name, length)) {
			*ret_value = (struct weir__http_slice){ request->bytes + reader->headers[i].value.at,
								reader->headers[i].value.length };
			return true;
		}
	return false;
}

bool weir__http_is_disputed(const struct weir__http_request *request, const char *name)
{
	const struct weir__http_reader *const reader = request->reader;
	const size_t length = strlen(name);
	struct weir__http_slice first;

	if (!weir__http_find(request, name, &first))
		return false;
	for (uint32_t i = 0; i < reader->n; i++) {
		const struct weir__http_header *const header = &reader->headers[i];

		if (is_named(request->bytes, header, name, length) &&
		    (header->value.length != first.length ||
		     memcmp(request->bytes + header->value.at, first.bytes, first.length) != 0))
			return true;
	}
	return false;
}

/* --- queries ---------------------------------------------------------------------------------------------------- */

static bool decode(struct weir__http_slice *slice, char plus)
{
	char *to = slice->bytes;
	const char *const end = slice->bytes + slice->length;

	for (const char *from = slice->bytes; from < end; from++) {
		if (*from == '%') {
			const int high = end - from > 2 ? weir__hex_digit(from[1]) : -1;
			const int low = high >= 0 ? weir__hex_digit(from[2]) : -1;

			if (low < 0)
				return false;
			*to++ = (char)(high << 4 | low);
			from += 2;
		} else {
			*to++ = *from == '+' ? plus : *from;
		}
	}
	slice->length = (size_t)(to - slice->bytes);
	return true;
}

bool weir__http_decode(struct weir__http_slice *slice)
{
	return decode(slice, ' ');
}

bool weir__http_decode_path(struct weir__http_slice *slice)
{
	return decode(slice, '+');
}
