/* password.h: the password for a server, from a file or from the environment variable WEIR_PASSWORD. Never from an
 * argument, which other users of the machine can see. */
#ifndef WEIR_CLI_PASSWORD_H
#define WEIR_CLI_PASSWORD_H

enum { WEIR__PASSWORD_SIZE = 1024 };

/* `user` and `file` are the options of the command line, or NULL. *ret_password is NULL if no password is set. Returns
 * NULL on success; else a message about *ret_word that says what would be right. */
const char *weir__password_read(const char *user, const char *file, char memory[WEIR__PASSWORD_SIZE],
				const char **ret_password, const char **ret_word);

#endif
