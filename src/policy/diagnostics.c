/* diagnostics.c: formats the lines of reports. */
#include "policy/diagnostics.h"

#include <stdarg.h>
#include <stdio.h>

void weir__diagnostics_add(struct weir__diagnostics *diagnostics, struct weir__mark at, const char *format, ...)
{
	char line[WEIR__DIAGNOSTICS_LINE];
	va_list arguments;
	int length;

	if (++diagnostics->n > WEIR__DIAGNOSTICS_MOST || diagnostics->report == NULL)
		return;
	length = snprintf(line, sizeof(line), "%s:%u:%u: ", diagnostics->file, at.line, at.column);
	if (length < 0 || (size_t)length >= sizeof(line))
		length = 0;
	va_start(arguments, format);
	(void)vsnprintf(line + length, sizeof(line) - (size_t)length, format, arguments);
	va_end(arguments);
	for (char *c = line; *c; c++) /* quoted parts of a file may contain any bytes */
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	diagnostics->report(diagnostics->context, line);
}
