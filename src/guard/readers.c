/* readers.c: the side that waits. */
#include "guard/readers.h"

#include <time.h>

__thread uint32_t weir__reader_number_;

uint32_t weir__reader_number_new(void)
{
	static _Atomic uint32_t last;

	weir__reader_number_ = atomic_fetch_add(&last, 1) + 1;
	if (weir__reader_number_ == 0) /* after 2^32 threads */
		weir__reader_number_ = 1;
	return weir__reader_number_;
}

static bool is_anybody_in(const struct weir__readers *readers, uint32_t phase)
{
	for (int i = 0; i < WEIR__READER_LINES; i++)
		if (atomic_load(&readers->lines[i].n[phase]) != 0)
			return true;
	return false;
}

void weir__readers_wait(struct weir__readers *readers)
{
	const struct timespec moment = { .tv_nsec = 50000 };

	for (int turn = 0; turn < 2; turn++) {
		const uint32_t before = atomic_fetch_add(&readers->phase, 1) & 1;

		while (is_anybody_in(readers, before))
			(void)nanosleep(&moment, NULL);
	}
}
