/* argument.h: checks of what callers pass to public functions. Each returns WEIR_OK, or an error with its message. */
#ifndef WEIR_CORE_ARGUMENT_H
#define WEIR_CORE_ARGUMENT_H

#include <weir/types.h>

/* Ends the calling function with WEIR_ERR_NULL if the pointer is NULL. The message names both. */
#define WEIR__NOT_NULL(argument, ret_message)                                                                          \
	do {                                                                                                           \
		if ((argument) == NULL)                                                                                \
			return weir__argument_null(__func__, #argument, ret_message);                                  \
	} while (0)

int weir__argument_null(const char *function, const char *argument, struct weir_message *ret_message);

/* Checks memory[0..size) that a caller provides for a `what`. WEIR_ERR_ROOM, WEIR_ERR_ALIGNMENT. */
int weir__argument_memory(const void *memory, size_t size, size_t needed, size_t align, const char *what,
			  struct weir_message *ret_message);

/* Checks the name of a limit: 1 to `most` bytes, without control characters, which would change what terminals and logs
 * show. message->at is the position of the first control character. WEIR_ERR_LIMIT. */
int weir__argument_name(const char *name, size_t most, struct weir_message *ret_message);

#endif
