/* errors.c: the list of errors as an array. */
#include "engine/errors.h"

const struct weir__error_row weir__error_rows[WEIR__ERRORS_N] = {
#define WEIR__ERROR_ROW_(name, text, detail, when) [WEIR__ERROR_##name] = { text, detail, when },
	WEIR__ERRORS(WEIR__ERROR_ROW_)
#undef WEIR__ERROR_ROW_
};
