/* types.h: the types that every other header uses, the one list of errors, and the rules that hold for all functions.
 *
 * Time. Instants are nanoseconds since the Unix epoch. Durations are nanoseconds, too. Both are unsigned 64-bit
 * numbers, and every value is legal: sums saturate and never wrap.
 *
 * Errors. A denial is a result, not an error: functions that decide return a verdict. Functions that can fail return
 * WEIR_OK (0) or one of the negative codes below. Only WEIR_ERR_SYSTEM leaves a reason in errno.
 *
 * Outputs. An argument named ret_ is an output. It is written only on success, except ret_message, which is written
 * only on failure. Comments name other exceptions.
 *
 * Ownership. weir_..._new allocates, and weir_..._free gives that back. weir_..._init works in memory that you provide.
 * Functions copy limits, names and text. Comments say so where one keeps a pointer.
 *
 * NULL. A pointer must not be NULL, unless its comment says that it may be. Functions that take a message, and
 * functions that read policies, return WEIR_ERR_NULL, and the message names the argument. All other functions decide or
 * wait, and do not check: NULL crashes the program there. Text and lists of length 0 may be NULL. */
#ifndef WEIR_TYPES_H
#define WEIR_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define WEIR_API __attribute__((visibility("default")))
#else
#define WEIR_API
#endif

/* Nanoseconds: an instant since 1970-01-01T00:00:00Z, or a duration. */
typedef uint64_t weir_ns;

/* The value of retry_after when no wait will help. It is also the longest duration (584 years), so check
 * `verdict.never` to tell the two apart. */
#define WEIR_NEVER UINT64_MAX

/* name, value, meaning */
#define WEIR_ERRORS(X)                                                                                                 \
	X(WEIR_OK, 0, "no error")                                                                                      \
	X(WEIR_ERR_SYNTAX, -1, "the text is not a valid limit")                                                        \
	X(WEIR_ERR_LIMIT, -2, "invalid limit, name or number")                                                         \
	X(WEIR_ERR_MAXIMUM, -3, "the limit exceeds a documented maximum")                                              \
	X(WEIR_ERR_CHANGE, -4, "a limit in use cannot change in this way")                                             \
	X(WEIR_ERR_ROOM, -5, "the memory given is too small")                                                          \
	X(WEIR_ERR_UNSUPPORTED, -6, "the operation does not exist for this kind of limit, store or policy")            \
	X(WEIR_ERR_NEVER, -7, "no wait will help: the cost exceeds the limit's capacity")                              \
	X(WEIR_ERR_DEADLINE, -8, "the request would have to wait past its deadline")                                   \
	X(WEIR_ERR_CANCELLED, -9, "the wait was cancelled")                                                            \
	X(WEIR_ERR_CLOSED, -10, "the queue is closed")                                                                 \
	X(WEIR_ERR_FULL, -11, "no room left: the queue, list or buffer is full")                                       \
	X(WEIR_ERR_SYSTEM, -12, "a system call failed: errno says why")                                                \
	X(WEIR_ERR_REGION, -13, "the memory is not a table that this program can use")                                 \
	X(WEIR_ERR_UNREACHABLE, -14, "the store cannot be reached: nothing is charged there")                          \
	X(WEIR_ERR_UNANSWERED, -15, "the store did not reply in time: the request may be charged there")               \
	X(WEIR_ERR_ALIGNMENT, -16, "the memory given is not aligned")                                                  \
	X(WEIR_ERR_TOO_LARGE, -17, "the size exceeds the maximum or the available memory")                             \
	X(WEIR_ERR_NO_TABLE, -18, "the table does not exist")                                                          \
	X(WEIR_ERR_FILE_TYPE, -19, "not a regular file, but a link, a directory, a FIFO, a socket or a device")        \
	X(WEIR_ERR_NO_ARENA, -20, "the limit needs an arena, and the table has none")                                  \
	X(WEIR_ERR_NULL, -21, "a required pointer is NULL")

enum weir_error {
#define WEIR_ERROR_ENUM(name, value, meaning) name = (value),
	WEIR_ERRORS(WEIR_ERROR_ENUM)
#undef WEIR_ERROR_ENUM
};

/* Returns the meaning of a code in a few words. The text is constant. The result is never NULL, even for a number that
 * is not a code. */
WEIR_API const char *weir_strerror(int error);

/* Why a call failed, for people: what was wrong, where, and what would be right. You provide the memory, or pass NULL
 * if you do not want the text. Functions fill it only when they fail, and always end the text with a NUL. Text that
 * does not fit is cut. */
struct weir_message {
	size_t at; /* offset in bytes of the error in the text that was parsed; 0 if there was no text */
	char text[240];
};

#ifdef __cplusplus
}
#endif
#endif
