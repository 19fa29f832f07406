/* denial_body.h: the body of a denial at /v1/authorize as a template, for visitors of a site.
 *
 * A template is a file with variables in braces, such as {retry_after}. Braces around anything but letters and _ are
 * plain text, so that JSON and CSS need no escapes. The name of the limit is escaped for the content type. The file is
 * read at the start, and again with the users. A template with an error does not replace the previous one. */
#ifndef WEIR_SERVER_DENIAL_BODY_H
#define WEIR_SERVER_DENIAL_BODY_H

#include <weir/guard.h>

#include "wire/http_reply.h"

enum { WEIR__DENIAL_BODY_MAX = 16 * 1024 };

struct weir__denial_body;

/* Whether it can be a Content-Type: a type, a slash and a subtype, with parameters or not. */
bool weir__denial_type_is(const char *text, size_t length);

/* Reads the template. NULL: it is invalid, or memory is short; ret_message says which. `type` must outlive the
 * result. */
struct weir__denial_body *weir__denial_body_new(const char *path, const char *type, struct weir_message *ret_message);
void weir__denial_body_free(struct weir__denial_body *body); /* NULL is allowed */

/* Reads the template again. Returns false, and changes nothing, if it is invalid. *ret_is_changed says whether the text
 * changed. Only one thread at a time may call it. */
bool weir__denial_body_reload(struct weir__denial_body *body, bool *ret_is_changed, struct weir_message *ret_message);

/* Adds the body for this decision, from any thread, and returns its Content-Type. */
const char *weir__denial_body_write(struct weir__denial_body *body, const struct weir_guard_answer *answer,
				    struct weir__http_reply *reply);

#endif
