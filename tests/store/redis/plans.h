/* plans.h: makes plans for Redis from text. */
#ifndef WEIR_TESTS_REDIS_PLANS_H
#define WEIR_TESTS_REDIS_PLANS_H

#include <weir/plan.h>

#include <err.h>
#include <string.h>

#include "store/redis/redis_plan.h"

static inline struct weir__redis_plan plan_of(const char *text)
{
	struct weir__redis_plan redis_plan = { 0 };
	struct weir_limit limit;
	struct weir_plan plan;
	struct weir_message why = { 0 };

	if (weir_limit_parse(text, strlen(text), &limit, &why) != WEIR_OK ||
	    weir_plan_compile(&limit, &plan, &why) != WEIR_OK ||
	    weir__redis_plan_init(&redis_plan, &plan, &why) != WEIR_OK)
		errx(1, "%s: %s", text, why.text);
	return redis_plan;
}

#endif
