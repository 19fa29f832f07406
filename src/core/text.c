/* text.c: builds short texts without stdio, which the core must not depend on. */
#include "core/text.h"

static void add_byte(struct weir__text *text, char byte)
{
	if (text->length + 1 >= text->size)
		return;
	text->start[text->length++] = byte;
	text->start[text->length] = '\0';
}

void weir__text_add(struct weir__text *text, const char *words)
{
	while (*words != '\0')
		add_byte(text, *words++);
}

void weir__text_add_number(struct weir__text *text, uint64_t number)
{
	char digits[20]; /* enough for 2^64-1 */
	size_t n = 0;

	do {
		digits[n++] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	while (n > 0)
		add_byte(text, digits[--n]);
}

void weir__text_add_quoted(struct weir__text *text, const char *bytes, size_t length)
{
	const size_t shown = length > 40 ? 40 : length;

	add_byte(text, '"');
	for (size_t i = 0; i < shown; i++)
		add_byte(text, (unsigned char)bytes[i] < ' ' || bytes[i] == 127 ? '?' : bytes[i]);
	weir__text_add(text, shown < length ? "...\"" : "\"");
}

struct weir__text weir__text_of_message(struct weir_message *ret_message, size_t at)
{
	if (ret_message == NULL)
		return (struct weir__text){ NULL, 0, 0 };
	ret_message->at = at;
	ret_message->text[0] = '\0';
	return (struct weir__text){ ret_message->text, 0, sizeof(ret_message->text) };
}
