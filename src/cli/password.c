/* password.c: reads the first line of a file, or an environment variable. */
#include "cli/password.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *weir__password_read(const char *user, const char *file, char memory[WEIR__PASSWORD_SIZE],
				const char **ret_password, const char **ret_word)
{
	FILE *opened;
	bool is_read;

	*ret_password = getenv("WEIR_PASSWORD");
	*ret_word = file ? file : user;
	if (file == NULL)
		return user && *ret_password == NULL ?
			       "a user has a password: use --password-file, or set WEIR_PASSWORD" :
			       NULL;
	opened = fopen(file, "re");
	if (opened == NULL)
		return strerror(errno);
	is_read = fgets(memory, WEIR__PASSWORD_SIZE, opened) != NULL;
	fclose(opened);
	if (!is_read || strlen(memory) == WEIR__PASSWORD_SIZE - 1)
		return "its first line should be a password, of at most 1022 bytes";
	memory[strcspn(memory, "\r\n")] = '\0';
	*ret_password = memory;
	return NULL;
}
