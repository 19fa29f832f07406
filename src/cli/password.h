/* password.h: the password of whoever asks a server: from a file or from WEIR_PASSWORD of the environment, and never from an
 * argument, which others see. */
#ifndef WEIR_CLI_PASSWORD_H
#define WEIR_CLI_PASSWORD_H

enum { WEIR__PASSWORD_SIZE = 1024 };

/* `user` and `file` are those of the command line, or NULL. *ret_password is NULL if there is none. Returns NULL, or else what
 * would be right of *ret_word. */
const char *weir__password_read(const char *user, const char *file, char memory[WEIR__PASSWORD_SIZE],
				const char **ret_password, const char **ret_word);

#endif
