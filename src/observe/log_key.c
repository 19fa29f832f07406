/* log_key.c: writes keys of a policy's limits by their attributes, and other keys as bytes. */
#include "observe/log_key.h"

#include <stdio.h>

void weir__log_key(struct weir__log_line *line, struct weir_guard *guard, const struct weir_table_limit *counted_as,
		   const struct weir_claim *claim)
{
	char text[WEIR__KEY_TEXT_SIZE];

	if (guard && claim->limit->index != counted_as->index)
		weir__log_text(line, "key", text,
			       weir__guard_key_text(guard, weir_table_limit_name(claim->limit), claim->key,
						    claim->key_length, claim->key_length, text, sizeof(text)));
	else
		weir__log_text(line, "key", claim->key, claim->key_length);
}

void weir__log_key_hash(struct weir__log_line *line, uint64_t hash)
{
	char text[17];

	(void)snprintf(text, sizeof(text), "%016llx", (unsigned long long)hash);
	weir__log_word(line, "key_hash", text);
}
