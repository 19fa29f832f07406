/* values.c: names to numbers, and values to their one spelling. */
#include "policy/values.h"

/* Names are few, and a policy's own: their ends and their length tell most of them apart. */
static unsigned place_of(struct weir__slice name)
{
	const unsigned first = name.n ? (unsigned char)name.at[0] : 0,
		       last = name.n ? (unsigned char)name.at[name.n - 1] : 0;

	return (first * 7 + last * 3 + (unsigned)name.n) % WEIR__NAMES_SIZE;
}

/* Where the name is, or would be. */
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
	return *find_place((struct weir__attributes *)attributes, name) - 1; /* it changes nothing */
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

static bool set_value(const struct weir__attribute *attribute, struct weir__slice text, struct weir__values *values,
		      struct weir__value *value)
{
	const bool is_written = attribute->type == WEIR__PATH_ATTRIBUTE || attribute->is_lowered;

	if (is_written && text.n + 1 > WEIR__VALUES_ROOM - values->used)
		return false;
	value->text = weir__attribute_normalise(attribute, text, values->room + values->used);
	if (value->text.at == NULL) /* given, and empty */
		value->text.at = "";
	values->used += is_written ? text.n + 1 : 0;
	value->is_address = attribute->type == WEIR__ADDRESS_ATTRIBUTE &&
			    weir__address_read(value->text, &value->address);
	if (attribute->type == WEIR__PATH_ATTRIBUTE)
		weir__path_split(value->text, &value->path);
	return true;
}

bool weir__values_read(const struct weir__attributes *attributes, const struct weir_attribute *given, size_t n,
		       struct weir__values *ret_values, struct weir__slice *ret_name)
{
	ret_values->used = 0;
	for (unsigned i = 0; i < attributes->n; i++)
		ret_values->of[i].text.at = NULL;
	for (size_t i = 0; i < n; i++) {
		const struct weir__slice name = { given[i].name, given[i].name_length };
		const int number = weir__attributes_find(attributes, name);

		if (number < 0 || ret_values->of[number].text.at)
			continue;
		*ret_name = name;
		if (!set_value(&attributes->of[number], (struct weir__slice){ given[i].value, given[i].value_length },
			       ret_values, &ret_values->of[number]))
			return false;
	}
	for (unsigned i = 0; i < attributes->n; i++) {
		const struct weir__attribute *const attribute = &attributes->of[i];

		*ret_name = attribute->name;
		if (ret_values->of[i].text.at == NULL && attribute->fallback.at &&
		    !set_value(attribute, attribute->fallback, ret_values, &ret_values->of[i]))
			return false;
	}
	return true;
}
