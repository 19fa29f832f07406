/* table_limits.c: lists the limits of a table by name, an order that does not depend on the table's secret. */
#include "cli/table_limits.h"

#include <stdlib.h>

/* Other processes may have written anything: text that is not a valid limit is cleared. */
static bool read_row(const struct weir_table *table, uint32_t index, struct weir__limit_row *row)
{
	struct weir__region_words *const words = &row->words;
	struct weir_limit limit;

	if (!weir__region_read_limit(&table->region, index, words))
		return false;
	if (weir_limit_parse(words->text, strlen(words->text), &limit, NULL) != WEIR_OK)
		words->name[0] = words->text[0] = '\0';
	weir__table_limit_stats(table, index, &row->counted);
	return true;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct weir__limit_row *)a)->words.name, ((const struct weir__limit_row *)b)->words.name);
}

bool weir__limit_rows_init(struct weir__limit_rows *limits, const struct weir_table *table)
{
	const uint32_t entries = table->region.limits_max;
	struct weir__limit_row row;
	size_t room = 0;

	for (uint32_t i = 0; i < entries; i++)
		room += weir__region_read_limit(&table->region, i, &row.words);
	*limits = (struct weir__limit_rows){ calloc(room + 1, sizeof(row)), 0 };
	if (limits->rows == NULL)
		return false;
	for (uint32_t i = 0; i < entries && limits->n < room; i++)
		limits->n += read_row(table, i, &limits->rows[limits->n]);
	qsort(limits->rows, limits->n, sizeof(row), by_name);
	return true;
}

void weir__limit_rows_fini(struct weir__limit_rows *limits)
{
	free(limits->rows);
}
