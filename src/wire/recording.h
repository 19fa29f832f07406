/* recording.h: the format of recordings: decisions of a server in a file, as docs/reference/recordings.md describes it.
 *
 * A recording is a magic word and frames. Each frame has its length, so that a file that was cut anywhere is readable
 * up to its last complete frame. Numbers are unsigned LEB128. Pure: bytes to frames and back, without files. */
#ifndef WEIR_WIRE_RECORDING_H
#define WEIR_WIRE_RECORDING_H

#include <weir/verdict.h>

#include "core/log.h"

#define WEIR__RECORDING_MAGIC "weirrec1"

enum {
	WEIR__RECORDING_MAGIC_SIZE = 8,
	WEIR__RECORDING_FRAME_MOST = 4 << 20, /* bytes, with the length */
	WEIR__RECORDING_CLAIMS_MAX = 32,
	WEIR__RECORDING_ATTRIBUTES_MAX = 64,
	WEIR__RECORDING_LIMITS_MAX = 4096, /* ids of limits are below this */
};

enum weir__recording_type {
	WEIR__RECORDING_BEGIN = 1,
	WEIR__RECORDING_POLICY,
	WEIR__RECORDING_LIMIT,
	WEIR__RECORDING_DECISION,
	WEIR__RECORDING_UNMATCHED,
	WEIR__RECORDING_GAP,
	WEIR__RECORDING_END,
};

struct weir__recording_text {
	const char *at;
	size_t n;
};

/* Which operation of a store. The numbers are those of the file. */
enum weir__recording_operation {
	WEIR__RECORDING_TAKE,
	WEIR__RECORDING_UPTO,
	WEIR__RECORDING_PEEK,
	WEIR__RECORDING_REFUND,
	WEIR__RECORDING_UNDO,
	WEIR__RECORDING_DEPART,
	WEIR__RECORDING_CANCEL,
	WEIR__RECORDING_RESET,
	WEIR__RECORDING_INSPECT,
	WEIR__RECORDING_OPERATIONS,
};

/* What decided. */
enum weir__recording_source {
	WEIR__RECORDING_BY_TABLE,
	WEIR__RECORDING_BY_STORE,    /* Redis, or the table and Redis together */
	WEIR__RECORDING_BY_FALLBACK, /* a table, because Redis could not be reached */
	WEIR__RECORDING_BY_NONE,     /* Redis failed, and the limit has no fallback */
	WEIR__RECORDING_SOURCES,
};

/* The state of a key before the decision. The first kinds are those of enum weir__key_state_kind. */
enum weir__recording_state {
	WEIR__RECORDING_ABSENT,
	WEIR__RECORDING_SLOT,
	WEIR__RECORDING_EVENTS,
	WEIR__RECORDING_FOLDED,
	WEIR__RECORDING_UNKNOWN,
	WEIR__RECORDING_FOLLOWS,  /* from the decisions before, and was not written again */
	WEIR__RECORDING_REPEATED, /* the same key as an earlier claim of the decision */
	WEIR__RECORDING_UNSAMPLED,
	WEIR__RECORDING_STATES,
};

struct weir__recording_attribute {
	struct weir__recording_text name, value;
};

struct weir__recording_claim {
	uint32_t limit; /* id: see struct weir__recording_limit */
	uint64_t cost;
	struct weir__recording_text key; /* hashed or plain, as BEGIN says */
	enum weir__recording_state state;
	struct weir_state slot;           /* SLOT */
	uint64_t units;                   /* FOLDED */
	weir_ns full_at;                  /* FOLDED */
	uint32_t n_events;                /* EVENTS */
	const struct weir__event *events; /* EVENTS, for the writer */
	struct weir__recording_text raw;  /* EVENTS, from the reader: see weir__recording_events */
	struct weir_verdict verdict;
};

/* BEGIN. */
struct weir__recording_begin {
	weir_ns at;
	uint64_t sample;                     /* one in this many keys */
	bool is_plain;                       /* keys and attributes as they were. False: hashed */
	struct weir__recording_text version; /* of the server */
};

/* POLICY: in force from here on. */
struct weir__recording_policy {
	weir_ns at;
	uint64_t identity;
	bool is_hidden; /* the text is the reason why the policy is not here */
	struct weir__recording_text text;
};

/* LIMIT: what claims with this id refer to from here on. */
struct weir__recording_limit {
	uint32_t id;
	bool is_inline;
	bool is_shared;     /* inline: other limits charge the same keys */
	uint64_t number;    /* how often the limit was changed before */
	weir_ns changed_at; /* 0: not changed */
	uint64_t space;     /* inline: limits of the same space have the same keys */
	struct weir__recording_text name, text;
};

/* DECISION. UNMATCHED has only at, cost, is_denied and attributes. */
struct weir__recording_decision {
	enum weir__recording_operation operation;
	enum weir__recording_source source;
	bool is_each;       /* each claim by itself. False: all or nothing */
	bool is_uncertain;  /* the fallback decided, and the store may have done the same */
	bool is_closed;     /* denied, because the store failed and the limit says `closed` */
	bool is_partial;    /* a claim of the request has a key that is not sampled */
	bool is_changing;   /* a limit was changed during the decision */
	bool is_shadow;     /* limits in shadow: the client got a different verdict */
	bool is_denied;     /* UNMATCHED */
	weir_ns at;         /* now, as the store was told */
	weir_ns max_delay;  /* DEPART */
	weir_ns charged_at; /* UNDO, CANCEL: the charge */
	uint64_t charged_cost;
	weir_ns charged_full_at;
	uint32_t decided_by; /* index of the claim, if they were decided together */
	uint64_t cost;       /* of the request, if it has attributes */
	uint32_t n_attributes, n;
	struct weir__recording_attribute attributes[WEIR__RECORDING_ATTRIBUTES_MAX];
	struct weir__recording_claim claims[WEIR__RECORDING_CLAIMS_MAX];
};

/* GAP: decisions that are missing, because they were made faster than the recording was read. */
struct weir__recording_gap {
	uint64_t lost;
	weir_ns from, until;
};

/* END: the recording was ended, not cut. */
struct weir__recording_end {
	weir_ns at;
	uint64_t decisions, lost;
};

struct weir__recording_frame {
	enum weir__recording_type type;
	union {
		struct weir__recording_begin begin;
		struct weir__recording_policy policy;
		struct weir__recording_limit limit;
		struct weir__recording_decision decision;
		struct weir__recording_gap gap;
		struct weir__recording_end end;
	};
};

/* --- writing ----------------------------------------------------------------------------------------------------- */

/* Writes one frame. Returns its length, or 0 if it does not fit into `size` bytes or has more than the maxima. */
size_t weir__recording_write(const struct weir__recording_frame *frame, void *bytes, size_t size);

/* --- reading ----------------------------------------------------------------------------------------------------- */

enum weir__recording_status {
	WEIR__RECORDING_COMPLETE,
	WEIR__RECORDING_MORE, /* the frame is not complete yet, or was cut */
	WEIR__RECORDING_SKIP, /* complete, but of a type that this version does not know */
	WEIR__RECORDING_BAD,
};

/* Reads the frame at the beginning of `bytes`. Texts point into it. *ret_used is the length of the frame, unless the
 * result is MORE or BAD. On BAD, *ret_fault says what is wrong. */
enum weir__recording_status weir__recording_read(const void *bytes, size_t size, struct weir__recording_frame *frame,
						 size_t *ret_used, const char **ret_fault);

/* Reads the events of a claim that was read with state EVENTS. `events` has room for n_events. */
void weir__recording_events(const struct weir__recording_claim *claim, struct weir__event *events);

#endif
