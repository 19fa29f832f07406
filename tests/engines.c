/* engines.c: the engines that play vectors in one process, without a server. */
#include "vector_engine.h"

const struct vector_engine *const vector_engines[] = {
	&core_engine, &limiter_engine, &table_engine, &shared_table_engine, &file_table_engine, &evicting_table_engine
};
const size_t vector_engines_n = sizeof(vector_engines) / sizeof(vector_engines[0]);
