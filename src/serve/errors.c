/* errors.c: the list of errors as an array. */
#include "serve/errors.h"

const struct weir__error_row weir__error_rows[WEIR__SAID_ERRORS_N] = {
#define WEIR__SAID_ERROR_ROW(name, text, detail, when) [WEIR__SAY_##name] = { text, detail, when },
	WEIR__SAID_ERRORS(WEIR__SAID_ERROR_ROW)
#undef WEIR__SAID_ERROR_ROW
};
