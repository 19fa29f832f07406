/* pid_file.c: written beside its place and renamed, so that a reader never finds half a number. */
#include "server/pid_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/text_file.h"

enum { MODE = 0644, LENGTH_MAX = 64 };

static int write_file(const char *path)
{
	char text[LENGTH_MAX];

	return weir__text_file_replace(path, MODE, text, (size_t)snprintf(text, sizeof(text), "%d\n", (int)getpid()));
}

bool weir__pid_file_begin(struct weir__settings *settings)
{
	const int error = settings->pid_file[0] != '\0' ? write_file(settings->pid_file) : 0;

	if (error != 0)
		weir__settings_error(settings, weir__settings_place(settings, "pid_file"), "pid_file", "%s: %s",
				     settings->pid_file, strerror(error));
	return error == 0;
}

void weir__pid_file_end(const struct weir__settings *settings)
{
	size_t length;
	char *text;

	if (settings->pid_file[0] == '\0' || weir__text_file_read(settings->pid_file, LENGTH_MAX, &text, &length) != 0)
		return;
	if (strtol(text, NULL, 10) == (long)getpid())
		(void)unlink(settings->pid_file);
	free(text);
}
