/* unmatched.h: counts requests that no limit of the policy matched, and logs them at most once a minute. Otherwise a
 * misspelled attribute would silently disable limits. */
#ifndef WEIR_ENGINE_UNMATCHED_H
#define WEIR_ENGINE_UNMATCHED_H

#include "engine/request.h"

/* The line has the attributes of this request as an example, and the name that a misspelled one may have meant. */
void weir__unmatched_note(const struct weir__request *request, const struct weir_attribute *attributes, size_t n,
			  bool is_denied);

#endif
