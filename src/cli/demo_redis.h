/* demo_redis.h: weir demo redis: two servers that share one limit in a Redis. */
#ifndef WEIR_CLI_DEMO_REDIS_H
#define WEIR_CLI_DEMO_REDIS_H

/* With what follows the word redis. Returns what the program is to exit with. */
int weir__demo_redis(int argc, char **argv);

#endif
