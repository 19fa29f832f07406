/* argument.c: checks of what callers pass to public functions. */
#include "core/argument.h"

#include "core/text.h"
#include "core/utf8.h"

int weir__argument_null(const char *function, const char *argument, struct weir_message *ret_message)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, function);
	weir__text_add(&why, ": ");
	weir__text_add(&why, argument);
	weir__text_add(&why, " is NULL");
	return WEIR_ERR_NULL;
}

int weir__argument_memory(const void *memory, size_t size, size_t needed, size_t align, const char *what,
			  struct weir_message *ret_message)
{
	const size_t off = (uintptr_t)memory % align;
	struct weir__text why;

	if (off == 0 && size >= needed)
		return WEIR_OK;
	why = weir__text_of_message(ret_message, 0);
	weir__text_add(&why, "the memory for a ");
	weir__text_add(&why, what);
	if (off != 0) {
		weir__text_add(&why, " must be aligned to ");
		weir__text_add_number(&why, align);
		weir__text_add(&why, " bytes; this pointer is off by ");
		weir__text_add_number(&why, off);
		return WEIR_ERR_ALIGNMENT;
	}
	weir__text_add(&why, " of this limit needs ");
	weir__text_add_number(&why, needed);
	weir__text_add(&why, " bytes; got ");
	weir__text_add_number(&why, size);
	return WEIR_ERR_ROOM;
}

static int refuse_name(const char *name, size_t length, size_t at, const char *where, const char *why_not,
		       uint64_t most, struct weir_message *ret_message)
{
	struct weir__text why = weir__text_of_message(ret_message, at);

	weir__text_add(&why, "a limit named ");
	weir__text_add_quoted(&why, name, length);
	weir__text_add(&why, where);
	weir__text_add_number(&why, most);
	weir__text_add(&why, why_not);
	return WEIR_ERR_LIMIT;
}

int weir__argument_name(const char *name, size_t most, struct weir_message *ret_message)
{
	const unsigned char *const bytes = (const unsigned char *)name;
	size_t length = 0;

	while (name[length] != '\0')
		length++;
	if (length == 0 || length > most)
		return refuse_name(name, length, 0, ": a name has 1 to ", " bytes", most, ret_message);
	for (size_t at = 0; at < length;) {
		const struct weir__utf8 next = weir__utf8_first(bytes + at, length - at);

		if (next.is_character && weir__utf8_is_control(next.character))
			return refuse_name(name, length, at, ": at ", ": a name must not contain control characters",
					   at, ret_message);
		at += next.length;
	}
	return WEIR_OK;
}
