/* command.c: finds a command by its name, or suggests the nearest one. */
#include "cli/command.h"

#include <stdio.h>
#include <string.h>

#include "cli/words.h"

const struct weir__command *weir__command_find(const struct weir__command *commands, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(name, commands[i].name) == 0)
			return &commands[i];
	return NULL;
}

static size_t same_start(const char *a, const char *b)
{
	size_t n = 0;

	while (a[n] != '\0' && a[n] == b[n])
		n++;
	return n;
}

/* The command that shares the longest prefix with `word`. NULL if no command begins with the same letter. */
static const char *nearest(const struct weir__command *commands, size_t n, const char *word)
{
	const char *name = NULL;
	size_t most = 0;

	for (size_t i = 0; i < n; i++) {
		const size_t same = same_start(commands[i].name, word);

		if (same > most) {
			most = same;
			name = commands[i].name;
		}
	}
	return name;
}

void weir__command_refuse(const struct weir__command *commands, size_t n, const char *whose, const char *word,
			  const char *see)
{
	const char *const meant = nearest(commands, n, word);

	fprintf(stderr, "%s: unknown command ", whose);
	weir__words_quoted(stderr, word, strlen(word));
	fputs("; ", stderr);
	if (meant)
		fprintf(stderr, "did you mean %s? ", meant);
	fprintf(stderr, "%s lists them\n", see);
}
