/* demo_redis.h: weir demo redis: two servers that share one limit in one Redis. */
#ifndef WEIR_CLI_DEMO_REDIS_H
#define WEIR_CLI_DEMO_REDIS_H

/* argv[0] is the word redis. Returns the exit code. */
int weir__demo_redis(int argc, char **argv);

#endif
