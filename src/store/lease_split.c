/* lease_split.c: memory for requests, part of which the store behind decides. */
#include "store/lease_internal.h"

#include <stdlib.h>
#include <string.h>

enum { SPARE_MOST = 16, ROOM_LEAST = WEIR_TABLE_CLAIMS_MAX };

void weir__lease_split_free(struct split *split)
{
	free(split->claims);
	free(split->verdicts);
	free(split->taken);
	free(split->asked);
	free(split->pushed);
	free(split->pushed_verdicts);
	free(split->pushes);
	free(split);
}

struct split *weir__lease_split_new(struct lease *lease, uint32_t n)
{
	const uint32_t room = n > ROOM_LEAST ? n : ROOM_LEAST;
	struct split *split = lease->spare;

	if (split && n <= split->room) {
		lease->spare = split->next_spare;
		lease->n_spare--;
	} else {
		split = calloc(1, sizeof(*split) + room * sizeof(split->of[0]));
		if (split == NULL)
			return NULL;
		split->lease = lease;
		split->room = room;
		split->claims = malloc(2 * (size_t)room * sizeof(*split->claims));
		split->verdicts = malloc(room * sizeof(*split->verdicts));
		split->taken = malloc(room * sizeof(*split->taken));
		split->asked = malloc(room * sizeof(*split->asked));
		split->pushed = malloc(room * sizeof(*split->pushed));
		split->pushed_verdicts = malloc(room * sizeof(*split->pushed_verdicts));
		split->pushes = malloc(room * sizeof(*split->pushes));
		if (split->claims == NULL || split->verdicts == NULL || split->taken == NULL || split->asked == NULL ||
		    split->pushed == NULL || split->pushed_verdicts == NULL || split->pushes == NULL) {
			weir__lease_split_free(split);
			return NULL;
		}
	}
	split->part.n = split->n_asked = 0;
	memset(split->taken, 0, n * sizeof(*split->taken));
	return split;
}

void weir__lease_split_recycle(struct split *split)
{
	struct lease *const lease = split->lease;

	if (lease->n_spare == SPARE_MOST || split->room > ROOM_LEAST) {
		weir__lease_split_free(split);
		return;
	}
	split->next_spare = lease->spare;
	lease->spare = split;
	lease->n_spare++;
}
