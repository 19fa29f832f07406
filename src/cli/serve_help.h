/* serve_help.h: the settings of weir serve as pages, made from the same rows and paragraphs. */
#ifndef WEIR_CLI_SERVE_HELP_H
#define WEIR_CLI_SERVE_HELP_H

#include <stdio.h>

void weir__serve_help(FILE *out);          /* --help */
void weir__serve_help_man(FILE *out);      /* the man page */
void weir__serve_help_markdown(FILE *out); /* docs/reference/settings.md */

#endif
