/* demo_report.h: the demo as lines of text: what happened in each second, and how it ended. */
#ifndef WEIR_CLI_DEMO_REPORT_H
#define WEIR_CLI_DEMO_REPORT_H

#include "cli/demo_traffic.h"

/* What precedes the lines of seconds, and the line of the second that ends now. */
void weir__demo_report_head(const struct demo_traffic *traffic);
void weir__demo_report_second(const struct demo_traffic *traffic);

/* The table of all lanes. */
void weir__demo_report_table(const struct demo_traffic *traffic, bool coloured);

/* What to notice in it, and what to try next. */
void weir__demo_report_notes(const struct demo_traffic *traffic);

#endif
