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

static void print_nearest(const struct weir__nearest *nearest)
{
	if (nearest->best)
		fprintf(stderr, "did you mean %s? ", nearest->best);
}

void weir__command_refuse(const struct weir__command *commands, size_t n, const char *whose, const char *word,
			  const char *see)
{
	struct weir__nearest nearest = weir__nearest_of(word, strlen(word));

	for (size_t i = 0; i < n; i++)
		weir__nearest_offer(&nearest, commands[i].name);
	fprintf(stderr, "%s: unknown command ", whose);
	weir__words_quoted(stderr, word, strlen(word));
	fputs("; ", stderr);
	print_nearest(&nearest);
	fprintf(stderr, "%s lists them\n", see);
}

bool weir__command_is_help(const char *word)
{
	return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

bool weir__command_is_option(const char *word, const char *option, const char **ret_value)
{
	const size_t n = strlen(option);

	if (strncmp(word, option, n) != 0 || (word[n] != '\0' && word[n] != '='))
		return false;
	*ret_value = word[n] == '=' ? word + n + 1 : NULL;
	return true;
}

struct weir__nearest weir__command_option_name(const char *word)
{
	return weir__nearest_of(word, strcspn(word, "="));
}

void weir__command_refuse_option(const struct weir__nearest *nearest, const char *whose, const char *more)
{
	fprintf(stderr, "%s: ", whose);
	weir__words_quoted(stderr, nearest->word, nearest->length);
	if (nearest->best && strlen(nearest->best) == nearest->length &&
	    memcmp(nearest->best, nearest->word, nearest->length) == 0) {
		fputs(": this option takes no value\n", stderr);
		return;
	}
	fputs(": unknown option; ", stderr);
	print_nearest(nearest);
	fprintf(stderr, "%s\n", more);
}
