/* epoch.c: the waiting side. */
#include "guard/epoch.h"

#include <time.h>

__thread uint32_t weir__epoch_reader_number_;

uint32_t weir__epoch_reader_number_new(void)
{
	static _Atomic uint32_t last;

	weir__epoch_reader_number_ = atomic_fetch_add(&last, 1) + 1;
	if (weir__epoch_reader_number_ == 0) /* the counter wrapped, after 2^32 threads */
		weir__epoch_reader_number_ = 1;
	return weir__epoch_reader_number_;
}

static bool is_anybody_in(const struct weir__epoch *epoch, uint32_t phase)
{
	for (int i = 0; i < WEIR__EPOCH_LINES; i++)
		if (atomic_load(&epoch->lines[i].n[phase]) != 0)
			return true;
	return false;
}

void weir__epoch_wait(struct weir__epoch *epoch)
{
	const struct timespec moment = { .tv_nsec = 50000 };

	for (int turn = 0; turn < 2; turn++) {
		const uint32_t before = atomic_fetch_add(&epoch->phase, 1) & 1;

		while (is_anybody_in(epoch, before))
			(void)nanosleep(&moment, NULL);
	}
}
