/* demo_report.h: the demo as text: one line for each second, and a table at the end. */
#ifndef WEIR_CLI_DEMO_REPORT_H
#define WEIR_CLI_DEMO_REPORT_H

#include "cli/demo_traffic.h"

/* The heading of the lines, and the line for the second that ends now. */
void weir__demo_report_head(const struct demo_traffic *traffic);
void weir__demo_report_second(const struct demo_traffic *traffic);

/* The table with a row for each limit. */
void weir__demo_report_table(const struct demo_traffic *traffic, bool coloured);

/* What to notice in the table, and what to try next. */
void weir__demo_report_notes(const struct demo_traffic *traffic);

#endif
