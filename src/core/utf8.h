/* utf8.h: decodes UTF-8. Names and keys may be any bytes, but terminals and JSON accept only valid characters. */
#ifndef WEIR_CORE_UTF8_H
#define WEIR_CORE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct weir__utf8 {
	bool is_character;
	size_t length;      /* 1 or more; for an invalid sequence, the bytes that could still have become a character */
	uint32_t character; /* only if is_character */
};

/* Decodes the first character of bytes[0..n), n >= 1. Overlong forms, surrogates and values beyond U+10FFFF are
 * invalid. */
static inline struct weir__utf8 weir__utf8_first(const unsigned char *bytes, size_t n)
{
	const unsigned char lead = bytes[0];
	const size_t more = lead < 0x80 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
	unsigned char least = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
	unsigned char most = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
	struct weir__utf8 first = { false, 1, more == 0 ? lead : lead & 0x3fu >> more };

	if ((lead >= 0x80 && lead < 0xc2) || lead > 0xf4)
		return first;
	for (; first.length <= more; first.length++) {
		if (first.length == n || bytes[first.length] < least || bytes[first.length] > most)
			return first;
		first.character = first.character << 6 | (bytes[first.length] & 0x3fu);
		least = 0x80;
		most = 0xbf;
	}
	first.is_character = true;
	return first;
}

/* Returns how many of the first bytes need no escape in any quoted text: ASCII except controls, " and \\. Most texts
 * consist only of such bytes. */
static inline size_t weir__utf8_plain(const unsigned char *bytes, size_t n)
{
	size_t plain = 0;

	while (plain < n && bytes[plain] >= ' ' && bytes[plain] < 0x7f && bytes[plain] != '"' && bytes[plain] != '\\')
		plain++;
	return plain;
}

/* Whether a terminal interprets the character instead of showing it. */
static inline bool weir__utf8_is_control(uint32_t character)
{
	return character < ' ' || (character >= 0x7f && character < 0xa0);
}

/* Whether the character is invisible but moves or joins its neighbours: line separators, directions, zero-width
 * characters. */
static inline bool weir__utf8_is_unseen(uint32_t character)
{
	return character == 0xad || character == 0x61c || (character >= 0x180b && character <= 0x180f) ||
	       (character >= 0x200b && character <= 0x200f) || (character >= 0x2028 && character <= 0x202e) ||
	       (character >= 0x2060 && character <= 0x206f) || character == 0xfeff ||
	       (character >= 0xfff9 && character <= 0xfffb) || (character >= 0xe0000 && character <= 0xe0fff);
}

/* Whether a text for people shows the character by an escape. */
static inline bool weir__utf8_is_hidden(uint32_t character)
{
	return weir__utf8_is_control(character) || weir__utf8_is_unseen(character);
}

/* The character as UTF-16, which is what escapes in JSON have. Returns 1 or 2. */
static inline unsigned weir__utf8_units(uint32_t character, uint16_t ret_units[2])
{
	if (character < 0x10000) {
		ret_units[0] = (uint16_t)character;
		return 1;
	}
	ret_units[0] = (uint16_t)(0xd800 + ((character - 0x10000) >> 10));
	ret_units[1] = (uint16_t)(0xdc00 + (character & 0x3ff));
	return 2;
}

#endif
