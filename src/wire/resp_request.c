/* resp_request.c: reads requests: multibulks, which programs send, and inline commands, which people type.
 *
 * The fast path is a multibulk that has arrived completely, with lengths of one to three digits. */
#include "wire/resp_line.h"

#include "core/hex.h"

void weir__resp_request_init(struct weir__resp_request *request)
{
	request->n = 0;
	request->fault = WEIR__RESP_ERROR_NONE;
	request->got = 0;
	request->wanted = 0;
	request->place.buffer = NULL;
	weir__resp_place_next(&request->place, 0);
}

static enum weir__resp_status refuse(struct weir__resp_request *request, enum weir__resp_error fault)
{
	request->fault = fault;
	return WEIR__RESP_BAD;
}

/* --- inline commands -------------------------------------------------------------------------------------------- */

static bool is_space(char byte)
{
	return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* Only these end a word within a line. \v and \f do not, although they are skipped before a word. */
static bool ends_word(char byte)
{
	return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

static char escaped(char letter)
{
	switch (letter) {
	case 'n':
		return '\n';
	case 'r':
		return '\r';
	case 't':
		return '\t';
	case 'b':
		return '\b';
	case 'a':
		return '\a';
	default:
		return letter;
	}
}

/* Reads a quoted string, from after the opening quote, and returns the position after the closing one. The unescaped
 * bytes go to *to. NULL: the quote is not closed, or something other than a space follows it. */
static const char *unquote(char quote, const char *from, const char *end, char **to)
{
	while (from < end && *from != quote) {
		const bool is_escape = *from == '\\' && end - from >= 2;

		if (quote == '"' && is_escape && end - from >= 4 && from[1] == 'x' && weir__hex_digit(from[2]) >= 0 &&
		    weir__hex_digit(from[3]) >= 0) {
			*(*to)++ = (char)(weir__hex_digit(from[2]) << 4 | weir__hex_digit(from[3]));
			from += 4;
		} else if (quote == '"' && is_escape) {
			*(*to)++ = escaped(from[1]);
			from += 2;
		} else {
			from += is_escape && from[1] == quote;
			*(*to)++ = *from++;
		}
	}
	if (from == end || (from + 1 < end && !is_space(from[1])))
		return NULL;
	return from + 1;
}

/* Reads one word, and returns the position after it. A quote may open anywhere in a word, but where it closes the word
 * ends. NULL: unbalanced quotes. */
static char *read_word(char *word, const char *end, struct weir__resp_slice *ret_word)
{
	const char *from = word;
	char *to = word;

	while (from < end && !ends_word(*from)) {
		if (*from == '"' || *from == '\'') {
			from = unquote(*from, from + 1, end, &to);
			break;
		}
		to++;
		from++;
	}
	if (from == NULL)
		return NULL;
	*ret_word = (struct weir__resp_slice){ word, (size_t)(to - word) };
	return word + (from - word);
}

static enum weir__resp_status split_line(struct weir__resp_request *request, char *line, const char *end)
{
	request->n = 0;
	for (;;) {
		while (line < end && is_space(*line))
			line++;
		if (line == end)
			return WEIR__RESP_COMPLETE;
		if (request->n == request->arguments_max)
			return refuse(request, WEIR__RESP_ERROR_INLINE_SIZE);
		line = read_word(line, end, &request->arguments[request->n]);
		if (line == NULL)
			return refuse(request, WEIR__RESP_ERROR_QUOTES);
		request->n++;
	}
}

static enum weir__resp_status read_inline(struct weir__resp_request *request, char *buffer, size_t size)
{
	struct weir__resp_place *place = &request->place;
	char *line = buffer + place->at;
	const enum weir__resp_status found = weir__resp_line(place, buffer, size, '\n', request->line_max);
	const size_t length = place->scanned;
	size_t text;

	if (found == WEIR__RESP_MORE)
		return found;
	if (found == WEIR__RESP_BAD)
		return refuse(request, WEIR__RESP_ERROR_INLINE_SIZE);
	text = length > 0 && line[length - 1] == '\r' ? length - 1 : length;
	weir__resp_place_next(place, place->at + length + 1);
	return split_line(request, line, line + text);
}

/* --- multibulks ------------------------------------------------------------------------------------------------- */

static inline unsigned digit_of(char byte)
{
	return (unsigned char)byte - (unsigned)'0';
}

/* Reads the length on a line if it has one to three digits and the line is complete. Returns the bytes of the line; 0:
 * use read_long. */
static inline size_t read_short(const char *line, size_t left, int64_t *ret_number)
{
	unsigned number, digit;

	if (left < 6) /* $123\r\n */
		return 0;
	number = digit_of(line[1]);
	if (number > 9)
		return 0;
	for (size_t n = 2; n <= 4; n++) {
		if (line[n] == '\r') {
			*ret_number = number;
			return n + 2;
		}
		digit = digit_of(line[n]);
		if (digit > 9 || number == 0)
			return 0;
		number = number * 10 + digit;
	}
	return 0;
}

/* The same for any line. Like Redis, looks at a line once its CR and one more byte have arrived. */
static enum weir__resp_status read_long(struct weir__resp_request *request, const char *buffer, size_t size,
					enum weir__resp_error too_long, enum weir__resp_error no_number,
					int64_t *ret_number)
{
	struct weir__resp_place *place = &request->place;
	const char *line = buffer + place->at;
	const enum weir__resp_status found = weir__resp_line(place, buffer, size, '\r', request->line_max);
	const size_t length = place->scanned;

	if (found == WEIR__RESP_BAD)
		return refuse(request, too_long);
	if (found == WEIR__RESP_MORE || size - place->at < length + 2)
		return WEIR__RESP_MORE;
	if (no_number == WEIR__RESP_ERROR_BULK_LENGTH && line[0] != '$') {
		request->got = line[0];
		return refuse(request, WEIR__RESP_ERROR_NO_BULK);
	}
	/* The first byte can be a CR only where a '$' was expected. */
	if (!weir__resp_number(line + 1, length - 1, ret_number))
		return refuse(request, no_number);
	weir__resp_place_next(place, place->at + length + 2);
	return WEIR__RESP_COMPLETE;
}

/* `wanted` stays 0 for a multibulk without arguments. */
static enum weir__resp_status read_head(struct weir__resp_request *request, const char *buffer, size_t size)
{
	struct weir__resp_place *place = &request->place;
	int64_t number;
	const size_t bytes = read_short(buffer + place->at, size - place->at, &number);

	if (bytes > 0) {
		weir__resp_place_next(place, place->at + bytes);
	} else {
		const enum weir__resp_status status = read_long(request, buffer, size, WEIR__RESP_ERROR_MULTIBULK_LINE,
								WEIR__RESP_ERROR_MULTIBULK_LENGTH, &number);

		if (status != WEIR__RESP_COMPLETE)
			return status;
	}
	if (number > (int64_t)request->arguments_max)
		return refuse(request, WEIR__RESP_ERROR_MULTIBULK_LENGTH);
	if (number > WEIR__RESP_UNAUTHENTICATED_ARGUMENTS && request->is_unauthenticated)
		return refuse(request, WEIR__RESP_ERROR_UNAUTHENTICATED_MULTIBULK);
	request->n = 0;
	request->wanted = number > 0 ? (uint32_t)number : 0;
	return WEIR__RESP_COMPLETE;
}

/* Reads the length of the bulk at `at`, and moves `at` after the line. */
static enum weir__resp_status read_length(struct weir__resp_request *request, const char *buffer, size_t size)
{
	int64_t number;
	const enum weir__resp_status status = read_long(request, buffer, size, WEIR__RESP_ERROR_BULK_LINE,
							WEIR__RESP_ERROR_BULK_LENGTH, &number);

	if (status != WEIR__RESP_COMPLETE)
		return status;
	if (number < 0 || number > request->bulk_max)
		return refuse(request, WEIR__RESP_ERROR_BULK_LENGTH);
	if (number > WEIR__RESP_UNAUTHENTICATED_BULK && request->is_unauthenticated)
		return refuse(request, WEIR__RESP_ERROR_UNAUTHENTICATED_BULK);
	request->place.bulk = number;
	return WEIR__RESP_COMPLETE;
}

/* What read_short can read is below what unauthenticated clients may send. Only bulk_max may be lower. */
_Static_assert(WEIR__RESP_UNAUTHENTICATED_BULK > 999, "three digits need no look at is_stranger");

static enum weir__resp_status read_bulks(struct weir__resp_request *request, const char *buffer, size_t size)
{
	struct weir__resp_place *place = &request->place;
	struct weir__resp_slice *arguments = request->arguments;
	const uint32_t wanted = request->wanted;
	const int64_t bulk_max = request->bulk_max;
	size_t at = place->at;
	int64_t bulk = place->bulk;
	uint32_t n = request->n;

	while (n < wanted) {
		if (bulk < 0) {
			const size_t bytes = at < size && buffer[at] == '$' ?
						     read_short(buffer + at, size - at, &bulk) :
						     0;

			if (bytes > 0 && bulk <= bulk_max) {
				at += bytes;
			} else {
				enum weir__resp_status status;

				if (at != place->at)
					weir__resp_place_next(place, at);
				request->n = n;
				status = read_length(request, buffer, size);
				if (status != WEIR__RESP_COMPLETE)
					return status;
				at = place->at;
				bulk = place->bulk;
			}
		}
		if (size - at < (uint64_t)bulk + 2)
			break;
		arguments[n++] = (struct weir__resp_slice){ buffer + at, (size_t)bulk };
		at += (size_t)bulk + 2;
		bulk = -1;
	}
	request->n = n;
	weir__resp_place_next(place, at);
	place->bulk = bulk;
	return n < wanted ? WEIR__RESP_MORE : WEIR__RESP_COMPLETE;
}

/* --- both ------------------------------------------------------------------------------------------------------- */

static void follow(struct weir__resp_request *request, const char *buffer)
{
	const uintptr_t from = (uintptr_t)request->place.buffer;

	for (uint32_t i = 0; i < request->n; i++)
		request->arguments[i].bytes = weir__resp_moved(request->arguments[i].bytes, from, buffer);
}

enum weir__resp_status weir__resp_request_read(struct weir__resp_request *request, char *buffer, size_t size,
					       size_t *ret_used)
{
	struct weir__resp_place *place = &request->place;
	enum weir__resp_status status = WEIR__RESP_MORE;

	*ret_used = 0;
	if (request->wanted > 0 && place->buffer != buffer)
		follow(request, buffer);
	while (size > 0) {
		size_t used;

		status = WEIR__RESP_COMPLETE;
		if (request->wanted == 0)
			status = buffer[0] == '*' ? read_head(request, buffer, size) :
						    read_inline(request, buffer, size);
		if (status == WEIR__RESP_COMPLETE && request->wanted > 0)
			status = read_bulks(request, buffer, size);
		if (status != WEIR__RESP_COMPLETE)
			break;
		used = place->at;
		*ret_used += used;
		place->at = 0;
		request->wanted = 0;
		if (request->n > 0)
			return WEIR__RESP_COMPLETE;
		buffer += used;
		size -= used;
		status = WEIR__RESP_MORE;
	}
	place->buffer = buffer;
	return status;
}
