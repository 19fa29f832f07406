/* password.c: reads the first line of a file, or an environment variable. */
#include "cli/password.h"

#include <stdlib.h>
#include <string.h>

#include "os/memory.h"
#include "os/text_file.h"

enum { FILE_MAX = 65536 }; /* other lines are ignored */

const char *weir__password_read(const char *user, const char *file, char memory[WEIR__PASSWORD_SIZE],
				const char **ret_password, const char **ret_word)
{
	size_t length;
	char *text;
	int error;

	*ret_password = getenv("WEIR_PASSWORD");
	*ret_word = file ? file : user;
	if (file == NULL)
		return user && *ret_password == NULL ? "missing password: use --password-file, or set WEIR_PASSWORD" :
						       NULL;
	error = weir__text_file_read(file, FILE_MAX, &text, &length);
	if (error != 0)
		return weir__text_file_error(error);
	length = strcspn(text, "\r\n");
	if (*text != '\0' && length < WEIR__PASSWORD_SIZE - 1) {
		memcpy(memory, text, length);
		memory[length] = '\0';
		*ret_password = memory;
	}
	weir__memory_wipe(text, length);
	free(text);
	return *ret_password == memory ? NULL : "the first line must be a password, of at most 1022 bytes";
}
