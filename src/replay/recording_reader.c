/* recording_reader.c: splits bytes into frames. */
#include "replay/recording_reader.h"

#include <errno.h>
#include <stdlib.h>

#include "core/text.h"
#include "os/byte_stream.h"

enum { ROOM = WEIR__RECORDING_FRAME_MOST + (256 << 10), WORD = WEIR__RECORDING_MAGIC_SIZE - 1 };

struct weir__recording_reader {
	struct weir__byte_stream *stream;
	const char *fault;
	uint64_t skipped;
	size_t at, n; /* room[at..n) has not been read */
	bool is_at_end;
	struct weir__recording_frame frame;
	unsigned char room[ROOM];
};

static void read_more(struct weir__recording_reader *reader)
{
	size_t n = 0;
	int error;

	memmove(reader->room, reader->room + reader->at, reader->n - reader->at);
	reader->n -= reader->at;
	reader->at = 0;
	error = weir__byte_stream_read(reader->stream, reader->room + reader->n, ROOM - reader->n, &n);
	if (error)
		reader->fault = weir__byte_stream_error(error);
	reader->is_at_end = error || n == 0;
	reader->n += n;
}

bool weir__recording_is(struct weir__slice bytes)
{
	return bytes.n >= WEIR__RECORDING_MAGIC_SIZE && memcmp(bytes.at, WEIR__RECORDING_MAGIC, WORD) == 0;
}

static int read_magic(struct weir__recording_reader *reader, const char *path, struct weir_message *ret_message)
{
	while (reader->n < WEIR__RECORDING_MAGIC_SIZE && !reader->is_at_end)
		read_more(reader);
	if (!weir__recording_is((struct weir__slice){ (const char *)reader->room, reader->n }))
		return weir__byte_stream_refuse(
			ret_message, path, reader->fault ? reader->fault : "this is not a recording of weir record",
			WEIR_ERR_SYNTAX);
	if (memcmp(reader->room, WEIR__RECORDING_MAGIC, WEIR__RECORDING_MAGIC_SIZE) != 0)
		return weir__byte_stream_refuse(ret_message, path, "a recording in a later format; use a newer weir",
						WEIR_ERR_SYNTAX);
	reader->at = WEIR__RECORDING_MAGIC_SIZE;
	return WEIR_OK;
}

int weir__recording_reader_new(const char *path, struct weir__recording_reader **ret_reader,
			       struct weir_message *ret_message)
{
	struct weir__recording_reader *const reader = malloc(sizeof(*reader));
	int error;

	if (reader == NULL) {
		errno = ENOMEM;
		return weir__byte_stream_refuse(ret_message, path, "no memory to read it", WEIR_ERR_SYSTEM);
	}
	memset(reader, 0, offsetof(struct weir__recording_reader, frame));
	error = weir__byte_stream_open(path, &reader->stream);
	if (error) {
		errno = error;
		error = weir__byte_stream_refuse(ret_message, path, weir__byte_stream_error(error), WEIR_ERR_SYSTEM);
	} else {
		error = read_magic(reader, path, ret_message);
	}
	if (error != WEIR_OK) {
		weir__recording_reader_free(reader);
		return error;
	}
	*ret_reader = reader;
	return WEIR_OK;
}

const struct weir__recording_frame *weir__recording_reader_next(struct weir__recording_reader *reader)
{
	for (;;) {
		size_t used = 0;
		const char *fault = NULL;
		const enum weir__recording_status status = weir__recording_read(
			reader->room + reader->at, reader->n - reader->at, &reader->frame, &used, &fault);

		if (status == WEIR__RECORDING_BAD) {
			reader->fault = fault;
			reader->is_at_end = true;
			reader->at = reader->n;
			return NULL;
		}
		if (status == WEIR__RECORDING_MORE) {
			if (reader->is_at_end) {
				if (reader->at < reader->n && reader->fault == NULL)
					reader->fault = "the last frame is incomplete: the recording was cut";
				reader->at = reader->n;
				return NULL;
			}
			read_more(reader);
			continue;
		}
		reader->at += used;
		if (status == WEIR__RECORDING_COMPLETE)
			return &reader->frame;
		reader->skipped++;
	}
}

const char *weir__recording_reader_fault(const struct weir__recording_reader *reader)
{
	return reader->fault;
}

uint64_t weir__recording_reader_done(const struct weir__recording_reader *reader, uint64_t *ret_all)
{
	return weir__byte_stream_done(reader->stream, ret_all);
}

uint64_t weir__recording_reader_skipped(const struct weir__recording_reader *reader)
{
	return reader->skipped;
}

void weir__recording_reader_free(struct weir__recording_reader *reader)
{
	if (reader == NULL)
		return;
	weir__byte_stream_close(reader->stream);
	free(reader);
}
