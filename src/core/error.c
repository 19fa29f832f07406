/* error.c: the meaning of each code. */
#include <weir/types.h>

const char *weir_strerror(int error)
{
	switch (error) {
#define WEIR_ERROR_CASE(name, value, meaning)                                                                          \
	case name:                                                                                                     \
		return meaning;
		WEIR_ERRORS(WEIR_ERROR_CASE)
#undef WEIR_ERROR_CASE
	default:
		return "unknown error";
	}
}
