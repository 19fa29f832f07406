/* resp_record.c: WEIR.RECORD begins a recording of decisions, reads it piece by piece, and ends it. */
#include "server/resp/resp_command.h"

#include "engine/request_audit.h"
#include "observe/log.h"
#include "observe/recorder.h"

enum { PIECE_MOST = 192 * 1024 /* bytes of one reply */ };

_Static_assert((int)PIECE_MOST + 64 <= (int)WEIR__ANSWER_LONG, "a piece fits a reply");

static void audit(struct weir__call *call, const char *what, const struct weir__recorder_request *request)
{
	struct weir__audit_who who;
	struct weir__log_line line;

	if (call->context->log == NULL)
		return;
	weir__audit_who_of(call->client, WEIR__PROTOCOL_RESP, &who);
	weir__audit_begin(&line, call->context->log, &who, what);
	if (request) {
		weir__log_number(&line, "sample", request->sample);
		weir__log_word(&line, "keys", request->is_plain ? "plain" : "hashed");
	}
	weir__audit_end(&line, call->context->log, NULL);
}

static void refuse(struct weir__call *call, enum weir__recorder_result result)
{
	static const enum weir__error_number errors[] = { [WEIR__RECORDER_BUSY] = WEIR__ERROR_RECORD_BUSY,
							  [WEIR__RECORDER_NONE] = WEIR__ERROR_RECORD_NONE,
							  [WEIR__RECORDER_NO_ROOM] = WEIR__ERROR_RECORD_ROOM };

	weir__refuse(call, errors[result]);
}

/* Returns false after writing the error reply. */
static bool read_option(struct weir__call *call, uint32_t at, struct weir__recorder_request *request)
{
	const struct weir__resp_slice *const name = &call->arguments[at], *const value = name + 1;

	if (weir__is_word(name, "SAMPLE")) {
		if (!weir__read_number(call, at + 1, WEIR__RECORDER_SAMPLE_MAX, WEIR__ERROR_RECORD_OPTION,
				       &request->sample))
			return false;
		if (request->sample > 0)
			return true;
	} else if (weir__is_word(name, "KEYS") && (weir__is_word(value, "PLAIN") || weir__is_word(value, "HASHED"))) {
		request->is_plain = weir__is_word(value, "PLAIN");
		return true;
	} else if (weir__is_word(name, "KEEP") && request->n_kept < WEIR__RECORDER_KEPT_MAX &&
		   value->length <= WEIR__ATTRIBUTE_NAME_MAX) {
		request->kept[request->n_kept++] = (struct weir__recorder_name){ value->bytes, value->length };
		return true;
	}
	weir__refuse(call, WEIR__ERROR_RECORD_OPTION);
	return false;
}

static void record_start(struct weir__call *call)
{
	struct weir__recorder_request request = { .sample = 1 };
	enum weir__recorder_result result;
	uint64_t number;

	if (call->n % 2 != 0) {
		weir__refuse(call, WEIR__ERROR_RECORD_OPTION);
		return;
	}
	for (uint32_t at = 2; at < call->n; at += 2)
		if (!read_option(call, at, &request))
			return;
	result = weir__recorder_begin(call->context->recorder, &request, weir_table_now(call->context->table), &number);
	if (result != WEIR__RECORDER_OK) {
		refuse(call, result);
		return;
	}
	audit(call, "recording_started", &request);
	weir__resp_write_integer(call->writer, weir__signed_of(number));
}

static bool read_recording(struct weir__call *call, uint64_t *ret_number)
{
	return weir__read_number(call, 2, INT64_MAX, WEIR__ERROR_RECORD_NUMBER, ret_number);
}

static void record_read(struct weir__call *call)
{
	static _Thread_local char piece[PIECE_MOST];
	enum weir__recorder_result result;
	uint64_t number;
	bool is_over;
	size_t n;

	if (!read_recording(call, &number))
		return;
	result = weir__recorder_read(call->context->recorder, number, piece, sizeof(piece),
				     weir_table_now(call->context->table), &n, &is_over);
	if (result != WEIR__RECORDER_OK)
		refuse(call, result);
	else if (is_over)
		weir__resp_write_null(call->writer);
	else
		weir__resp_write_bulk(call->writer, piece, n);
}

static void record_stop(struct weir__call *call)
{
	enum weir__recorder_result result;
	uint64_t number;

	if (!read_recording(call, &number))
		return;
	result = weir__recorder_end(call->context->recorder, number, weir_table_now(call->context->table));
	if (result != WEIR__RECORDER_OK) {
		refuse(call, result);
		return;
	}
	audit(call, "recording_stopped", NULL);
	weir__say_ok(call);
}

void weir__record_command(struct weir__call *call)
{
	static const struct weir__subcommand rows[] = {
		{ "start",
		  "[SAMPLE n] [KEYS HASHED|PLAIN] [KEEP attribute]...: begins a recording, and replies its number",
		  record_start, 2, UINT32_MAX },
		{ "read", "NUMBER: the next bytes of the recording, perhaps none; null after the last", record_read, 3,
		  3 },
		{ "stop", "NUMBER: ends the recording; what is left can still be read", record_stop, 3, 3 },
	};

	if (call->context->recorder == NULL) {
		weir__refuse(call, WEIR__ERROR_RECORD_ROOM);
		return;
	}
	weir__run_subcommand(call, "weir.record", rows, sizeof(rows) / sizeof(rows[0]));
}
