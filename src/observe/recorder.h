/* recorder.h: writes the decisions of all workers into a ring, in the order in which the table made them, for a client
 * that reads the ring and keeps it in a file.
 *
 * Order. Two workers may decide for the same key at the same moment, and nothing in their verdicts says who was first.
 * So while a recording runs, the decisions on recorded keys are made under a lock. They wait for each other, as long as
 * a decision and a copy of about 100 bytes take. They never wait for the client that reads. What does not fit into the
 * ring is counted, and the recording has a gap there.
 *
 * State. A decision is written with the state that its keys had before it, so a replay can begin anywhere, and notices
 * evictions. The events of a history are written only when the recorder has not seen the key lately.
 *
 * Privacy. Keys, and all attributes but method and path, are replaced by a hash keyed with a secret that is made for the
 * recording and forgotten with it, unless the client requests them as they are. Queries are left out in any case.
 *
 * One recording at a time. It ends when its client ends it or has not read for WEIR__RECORDER_PATIENCE.
 * The format is in wire/recording.h. The reasons are in docs/internals/recordings.md. */
#ifndef WEIR_OBSERVE_RECORDER_H
#define WEIR_OBSERVE_RECORDER_H

#include <weir/guard.h>

#include <stdatomic.h>

#include "store/store.h"

enum {
	WEIR__RECORDER_RING = 8 << 20, /* bytes, while a recording runs */
	WEIR__RECORDER_KEPT_MAX = 8,   /* names of attributes to keep as they are */
	WEIR__RECORDER_SAMPLE_MAX = 1000000,
};

#define WEIR__RECORDER_PATIENCE UINT64_C(10000000000)

struct weir__recorder;

/* The policy in force. */
struct weir__recorder_policy {
	uint64_t identity;  /* of the text; 0: no policy is loaded */
	const char *hidden; /* why the text is not here; NULL: it is */
	const char *text;
	size_t n;
};

struct weir__recorder_options {
	struct weir_table *table;
	struct weir_guard *guard; /* NULL: no policy */
	/* Calls `tell` once with the policy in force. */
	void (*policy)(void *source, void (*tell)(void *context, const struct weir__recorder_policy *policy),
		       void *context);
	void *source;
};

/* NULL: no memory. */
struct weir__recorder *weir__recorder_new(const struct weir__recorder_options *options);
void weir__recorder_free(struct weir__recorder *recorder); /* NULL is allowed */

/* --- the client's side ------------------------------------------------------------------------------------------- */

struct weir__recorder_request {
	uint64_t sample; /* records one in this many keys: 1 to WEIR__RECORDER_SAMPLE_MAX */
	bool is_plain;   /* keys and attributes as they are. False: hashed */
	/* Attributes that are not hashed, besides method and path. */
	struct weir__recorder_name {
		const char *at;
		size_t n;
	} kept[WEIR__RECORDER_KEPT_MAX];
	size_t n_kept;
};

enum weir__recorder_result {
	WEIR__RECORDER_OK,
	WEIR__RECORDER_BUSY,    /* another recording runs */
	WEIR__RECORDER_NONE,    /* no recording has this number: it ended, or was never begun */
	WEIR__RECORDER_NO_ROOM, /* no memory */
};

/* Begins a recording. *ret_number identifies it to the functions below. */
enum weir__recorder_result weir__recorder_begin(struct weir__recorder *recorder,
						const struct weir__recorder_request *request, weir_ns now,
						uint64_t *ret_number);

/* Moves up to `size` bytes of the recording into `bytes`: whole frames, or parts of frames. Sets *ret_is_over if there
 * are none, because the recording was ended and all of it was read. It is then forgotten. */
enum weir__recorder_result weir__recorder_read(struct weir__recorder *recorder, uint64_t number, void *bytes,
					       size_t size, weir_ns now, size_t *ret_n, bool *ret_is_over);

/* Ends the recording. What is in the ring can still be read. */
enum weir__recorder_result weir__recorder_end(struct weir__recorder *recorder, uint64_t number, weir_ns now);

/* --- the workers' side ------------------------------------------------------------------------------------------- */

/* The first member of struct weir__recorder. */
struct weir__recorder_switch {
	_Atomic bool is_on;
};

/* Whether decisions must go through the functions below. `recorder` may be NULL. */
static inline bool weir__recorder_is_on(const struct weir__recorder *recorder)
{
	return recorder && atomic_load_explicit(&((const struct weir__recorder_switch *)(const void *)recorder)->is_on,
						memory_order_relaxed);
}

/* The attributes of the request that a decision belongs to. */
struct weir__recorder_attributes {
	const struct weir_attribute *at;
	size_t n;
	uint64_t cost;  /* of the request */
	bool is_shadow; /* the decision is one of limits in shadow */
};

/* weir__store_submit, and records the decision if the store has decided. */
bool weir__recorder_submit(struct weir__recorder *recorder, struct weir__store *store,
			   struct weir__store_request *request, struct weir__recorder_attributes attributes);

/* Records a decision that a store has completed later. */
void weir__recorder_completed(struct weir__recorder *recorder, const struct weir__store_request *request);

/* Records a request that no limit applied to. */
void weir__recorder_unmatched(struct weir__recorder *recorder, struct weir__recorder_attributes attributes,
			      bool is_denied, weir_ns now);

#endif
