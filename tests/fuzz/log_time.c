/* log_time.c: any bytes as a time, a decimal number and an offset. */
#include "replay/log_time.h"

#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *const bytes = malloc(size ? size : 1);
	struct weir__log_time time;
	uint64_t value, larger;
	int32_t zone_s;

	if (bytes == NULL)
		abort();
	if (size > 0)
		memcpy(bytes, data, size);
	if (weir__log_time_read(bytes, size, 3600, &time))
		require(time.at < WEIR__LOG_TIME_END && (!time.is_whole_second || time.at % WEIR__LOG_SECOND == 0),
			"a time that is out of range, or not a whole second");
	if (weir__log_decimal_read(bytes, size, 1, &value) && weir__log_decimal_read(bytes, size, 1000, &larger))
		require(larger / 1000 == value, "another number in a smaller unit");
	if (weir__log_zone_read(bytes, size, &zone_s))
		require(zone_s >= -64800 && zone_s <= 64800, "an offset of more than 18 hours");
	free(bytes);
	return 0;
}
