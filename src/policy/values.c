/* values.c: maps names to numbers, and normalises values. */
#include "policy/values.h"

/* There are few names, and the policy chooses them: their first and last bytes and their length distinguish most. */
static unsigned place_of(struct weir__slice name)
{
	const unsigned first = name.n ? (unsigned char)name.at[0] : 0,
		       last = name.n ? (unsigned char)name.at[name.n - 1] : 0;

	return (first * 7 + last * 3 + (unsigned)name.n) % WEIR__NAMES_SIZE;
}

/* Returns the place of the name in the hash table, or the free place for it. */
static unsigned char *find_place(struct weir__attributes *attributes, struct weir__slice name)
{
	unsigned place = place_of(name);

	while (attributes->places[place] != 0 &&
	       !weir__slice_equal(attributes->of[attributes->places[place] - 1].name, name))
		place = (place + 1) % WEIR__NAMES_SIZE;
	return &attributes->places[place];
}

int weir__attributes_find(const struct weir__attributes *attributes, struct weir__slice name)
{
	return *find_place((struct weir__attributes *)attributes, name) - 1; /* find_place changes nothing */
}

int weir__attributes_add(struct weir__attributes *attributes, struct weir__slice name)
{
	unsigned char *const place = find_place(attributes, name);

	if (*place != 0)
		return *place - 1;
	if (attributes->n == WEIR__ATTRIBUTES_MAX)
		return -1;
	attributes->of[attributes->n] = (struct weir__attribute){ .name = name };
	*place = (unsigned char)++attributes->n;
	return *place - 1;
}

bool weir__attribute_is_name(struct weir__slice name)
{
	for (size_t i = 0; i < name.n; i++)
		if ((unsigned char)name.at[i] < ' ' || name.at[i] == 0x7f)
			return false;
	return name.n > 0 && name.n <= WEIR__ATTRIBUTE_NAME_MAX;
}

struct weir__slice weir__attribute_normalise(const struct weir__attribute *attribute, struct weir__slice text,
					     char *room)
{
	if (attribute->type == WEIR__PATH_ATTRIBUTE)
		text = weir__path_normalise(text, room);
	if (!attribute->is_lowered)
		return text;
	for (size_t i = 0; i < text.n; i++) {
		const char c = text.at[i];

		room[i] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
	}
	return (struct weir__slice){ room, text.n };
}

void weir__values_begin(const struct weir__attributes *attributes, const struct weir_attribute *given, size_t n,
			struct weir__values *ret_values)
{
	for (unsigned i = 0; i < attributes->n; i++)
		ret_values->of[i].text.at = NULL;
	for (size_t i = 0; i < n; i++) {
		const int number = weir__attributes_find(attributes,
							 (struct weir__slice){ given[i].name, given[i].name_length });

		if (number >= 0 && ret_values->of[number].text.at == NULL)
			ret_values->of[number].text = (struct weir__slice){ given[i].value ? given[i].value : "",
									    given[i].value_length };
	}
	for (unsigned i = 0; i < attributes->n; i++)
		if (ret_values->of[i].text.at == NULL)
			ret_values->of[i].text = attributes->of[i].fallback;
}

/* Normalises a value. Returns false if it does not fit. */
static bool end_value(const struct weir__attribute *attribute, struct weir__values *values, struct weir__value *value)
{
	const bool is_written = attribute->type == WEIR__PATH_ATTRIBUTE || attribute->is_lowered;
	const size_t size = value->text.n + 1;

	if (is_written) {
		if (size > WEIR__VALUES_ROOM - values->used)
			return false;
		value->text = weir__attribute_normalise(attribute, value->text, values->room + values->used);
		values->used += size;
	}
	value->is_address = attribute->type == WEIR__ADDRESS_ATTRIBUTE &&
			    weir__address_read(value->text, &value->address);
	return true;
}

bool weir__values_end(const struct weir__attributes *attributes, struct weir__values *values,
		      struct weir__slice *ret_name)
{
	values->used = 0;
	for (unsigned i = 0; i < attributes->n; i++)
		if (values->of[i].text.at && !end_value(&attributes->of[i], values, &values->of[i])) {
			*ret_name = attributes->of[i].name;
			return false;
		}
	return true;
}
