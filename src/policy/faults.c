/* faults.c: lines of reports. */
#include "policy/faults.h"

#include <stdarg.h>
#include <stdio.h>

void weir__fault(struct weir__faults *faults, struct weir__mark at, const char *format, ...)
{
	char line[WEIR__FAULT_LINE];
	va_list arguments;
	int length;

	if (++faults->n > WEIR__FAULTS_MOST || faults->report == NULL)
		return;
	length = snprintf(line, sizeof(line), "%s:%u:%u: ", faults->file, at.line, at.column);
	if (length < 0 || (size_t)length >= sizeof(line))
		length = 0;
	va_start(arguments, format);
	(void)vsnprintf(line + length, sizeof(line) - (size_t)length, format, arguments);
	va_end(arguments);
	for (char *c = line; *c; c++) /* what a person wrote may hold anything */
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = '?';
	faults->report(faults->context, line);
}
