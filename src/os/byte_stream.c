/* byte_stream.c: reads files, decompressed. */
#include "os/byte_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "core/text.h"

enum {
	RAW_BYTES = 128 * 1024,
	GZIP_WINDOW = 15 + 16, /* zlib's largest window, and a gzip header */
	ZSTD_WINDOW = 27,      /* 128 MiB: what zstd --long writes, and zstd reads without being told */
};

static const unsigned char gzip_mark[] = { 0x1f, 0x8b }, zstd_mark[] = { 0x28, 0xb5, 0x2f, 0xfd };

enum kind { PLAIN, GZIP, ZSTD };

struct weir__byte_stream {
	int file;
	enum kind kind;
	bool is_within; /* a compressed part has begun and not ended */
	bool is_at_end; /* of the file */
	size_t at, n;   /* raw[at..n) has not been used */
	uint64_t done, all;
	z_stream gzip;
	ZSTD_DStream *zstd;
	unsigned char raw[RAW_BYTES];
};

static int read_some(int file, void *buffer, size_t size, size_t *ret_n)
{
	ssize_t n;

	do
		n = read(file, buffer, size);
	while (n < 0 && errno == EINTR);
	*ret_n = n > 0 ? (size_t)n : 0;
	return n < 0 ? errno : 0;
}

/* Reads until there are `least` bytes, or the file ends. */
static int fill(struct weir__byte_stream *stream, size_t least)
{
	memmove(stream->raw, stream->raw + stream->at, stream->n - stream->at);
	stream->n -= stream->at;
	stream->at = 0;
	while (stream->n < least && !stream->is_at_end) {
		size_t n;
		const int error = read_some(stream->file, stream->raw + stream->n, RAW_BYTES - stream->n, &n);

		if (error)
			return error;
		stream->is_at_end = n == 0;
		stream->n += n;
		stream->done += n;
	}
	return 0;
}

static bool begins_with(const struct weir__byte_stream *stream, const unsigned char *mark, size_t n)
{
	return stream->n - stream->at >= n && memcmp(stream->raw + stream->at, mark, n) == 0;
}

static int begin(struct weir__byte_stream *stream)
{
	const int error = fill(stream, sizeof(zstd_mark));

	if (error)
		return error;
	if (begins_with(stream, gzip_mark, sizeof(gzip_mark))) {
		stream->kind = GZIP;
		return inflateInit2(&stream->gzip, GZIP_WINDOW) == Z_OK ? 0 : ENOMEM;
	}
	if (begins_with(stream, zstd_mark, sizeof(zstd_mark))) {
		stream->kind = ZSTD;
		stream->zstd = ZSTD_createDStream();
		if (stream->zstd == NULL)
			return ENOMEM;
		(void)ZSTD_DCtx_setParameter(stream->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW);
	}
	return 0;
}

int weir__byte_stream_open(const char *path, struct weir__byte_stream **ret_stream)
{
	struct weir__byte_stream *const stream = malloc(sizeof(*stream));
	struct stat status = { .st_mode = 0 };
	int error;

	if (stream == NULL)
		return ENOMEM;
	memset(stream, 0, offsetof(struct weir__byte_stream, raw));
	stream->file = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (stream->file < 0 || fstat(stream->file, &status) != 0)
		error = errno;
	else if (S_ISDIR(status.st_mode))
		error = EISDIR;
	else
		error = begin(stream);
	if (error) {
		weir__byte_stream_close(stream);
		return error;
	}
	if (S_ISREG(status.st_mode))
		stream->all = (uint64_t)status.st_size;
	*ret_stream = stream;
	return 0;
}

/* Whether another part follows a complete one. Zeroes at the end are padding. */
static bool has_part(struct weir__byte_stream *stream)
{
	return stream->n > stream->at && stream->raw[stream->at] != 0;
}

static int inflate_some(struct weir__byte_stream *stream, void *buffer, size_t size, size_t *ret_n)
{
	z_stream *const gzip = &stream->gzip;
	int result;

	if (!stream->is_within && (!has_part(stream) || inflateReset(gzip) != Z_OK)) {
		stream->at = stream->n;
		return 0;
	}
	stream->is_within = true;
	gzip->next_in = stream->raw + stream->at;
	gzip->avail_in = (uInt)(stream->n - stream->at);
	gzip->next_out = buffer;
	gzip->avail_out = (uInt)size;
	result = inflate(gzip, Z_NO_FLUSH);
	stream->at = stream->n - gzip->avail_in;
	*ret_n = size - gzip->avail_out;
	stream->is_within = result != Z_STREAM_END;
	if (result == Z_MEM_ERROR)
		return ENOMEM;
	return result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR ? 0 : EBADMSG;
}

static int unzstd_some(struct weir__byte_stream *stream, void *buffer, size_t size, size_t *ret_n)
{
	ZSTD_inBuffer in = { stream->raw, stream->n, stream->at };
	ZSTD_outBuffer out = { buffer, size, 0 };
	const size_t result = ZSTD_decompressStream(stream->zstd, &out, &in);

	if (ZSTD_isError(result))
		return EBADMSG;
	stream->at = in.pos;
	stream->is_within = result != 0;
	*ret_n = out.pos;
	return 0;
}

int weir__byte_stream_read(struct weir__byte_stream *stream, void *buffer, size_t size, size_t *ret_n)
{
	int error = 0;

	*ret_n = 0;
	if (stream->kind == PLAIN && stream->at == stream->n) {
		error = read_some(stream->file, buffer, size, ret_n);
		stream->done += *ret_n;
		return error;
	}
	if (stream->kind == PLAIN) {
		*ret_n = size < stream->n - stream->at ? size : stream->n - stream->at;
		memcpy(buffer, stream->raw + stream->at, *ret_n);
		stream->at += *ret_n;
		return 0;
	}
	while (*ret_n == 0 && !error) {
		const size_t before = stream->n - stream->at;

		if (before == 0) {
			error = fill(stream, 1);
			if (error)
				return error;
		}
		if (stream->n == stream->at && !stream->is_within)
			return 0;
		error = stream->kind == GZIP ? inflate_some(stream, buffer, size, ret_n) :
					       unzstd_some(stream, buffer, size, ret_n);
		if (*ret_n == 0 && !error && stream->is_at_end && stream->n == stream->at)
			return stream->is_within ? ENODATA : 0;
	}
	return error;
}

const char *weir__byte_stream_error(int error)
{
	switch (error) {
	case EBADMSG:
		return "the compressed data are damaged";
	case ENODATA:
		return "the compressed data end too early";
	case EISDIR:
		return "it is a directory; name its files";
	default:
		return strerror(error);
	}
}

int weir__byte_stream_refuse(struct weir_message *ret_message, const char *path, const char *what, int error)
{
	struct weir__text why = weir__text_of_message(ret_message, 0);

	weir__text_add(&why, strcmp(path, "-") == 0 ? "standard input" : path);
	weir__text_add(&why, ": ");
	weir__text_add(&why, what);
	return error;
}

uint64_t weir__byte_stream_done(const struct weir__byte_stream *stream, uint64_t *ret_all)
{
	*ret_all = stream->all;
	return stream->done - (stream->n - stream->at);
}

void weir__byte_stream_close(struct weir__byte_stream *stream)
{
	if (stream == NULL)
		return;
	if (stream->kind == GZIP)
		(void)inflateEnd(&stream->gzip);
	(void)ZSTD_freeDStream(stream->zstd);
	if (stream->file >= 0)
		(void)close(stream->file);
	free(stream);
}
