/* toy_stores.c: replaces server/stores.c, so that the whole server runs with a store that completes later.
 *
 * The program `weir_toy` is `weir` with this store, and needs no setting for it: WEIR_STORE is set to toy: before main.
 * The server then prints the same as without a store. With the URL of a Redis it shows that URL and a status, but
 * decides by the same toy store. WEIR_TOY_SEED selects delays and order. It is removed from the environment, because
 * the server warns about variables that are not settings. */
#include <stdlib.h>
#include <string.h>

#include "server/settings.h"
#include "server/stores.h"
#include "store/redis/redis_url.h"
#include "toy_store.h"

static const char toy_url[] = "toy:";
static uint64_t seed = 1;

struct weir__stores {
	struct weir_table *table;
	uint64_t n_open; /* workers with a store */
	bool has_status;
};

__attribute__((constructor)) static void set_environment(void)
{
	const char *const text = getenv("WEIR_TOY_SEED");

	if (text)
		seed = strtoull(text, NULL, 10);
	(void)unsetenv("WEIR_TOY_SEED");
	(void)setenv("WEIR_STORE", toy_url, 0);
}

static bool is_toy(const char *url, size_t length)
{
	return length == strlen(toy_url) && memcmp(url, toy_url, length) == 0;
}

int weir__stores_check_url(const char *url, size_t length, struct weir_message *ret_message)
{
	struct weir__redis_url read;

	return is_toy(url, length) ? WEIR_OK : weir__redis_url_read(url, length, &read, ret_message);
}

void weir__stores_show_url(const char *url, char *ret_text, size_t size)
{
	struct weir__redis_url read;

	ret_text[0] = '\0';
	if (!is_toy(url, strlen(url)) && weir__redis_url_read(url, strlen(url), &read, NULL) == WEIR_OK)
		weir__redis_url_show(&read, ret_text, size);
}

int weir__stores_check_limit(const struct weir_limit *limit, struct weir_message *ret_message)
{
	(void)limit;
	(void)ret_message;
	return WEIR_OK;
}

int weir__stores_new(struct weir__settings *settings, struct weir_table *table, struct weir__log *log,
		     struct weir__stores **ret_stores, struct weir_message *ret_message)
{
	struct weir__stores *const stores = calloc(1, sizeof(*stores));

	(void)log;
	if (stores == NULL) {
		*ret_message = (struct weir_message){ .text = "no memory" };
		return WEIR_ERR_SYSTEM;
	}
	stores->table = table;
	stores->has_status = !is_toy(settings->store, strlen(settings->store));
	*ret_stores = stores;
	return WEIR_OK;
}

void weir__stores_free(struct weir__stores *stores)
{
	free(stores);
}

static void status(struct weir__store *store, struct weir__store_status *ret_status)
{
	(void)store;
	*ret_status = (struct weir__store_status){ .health = WEIR__STORE_UP, .was_up = true, .nodes = 1 };
}

struct weir__store *weir__stores_open(struct weir__stores *stores, uint32_t worker, struct weir_guard *guard,
				      struct weir__loop *loop)
{
	const uint64_t seed_of_worker = seed * UINT64_C(0xd1342543de82ef95) + stores->n_open++;
	struct weir__store *const store = toy_store_new(stores->table, loop, seed_of_worker);

	(void)worker;
	(void)guard;
	if (store && stores->has_status)
		store->status = status;
	return store;
}

const struct weir__redis_url *weir__stores_redis(const struct weir__stores *stores)
{
	(void)stores;
	return NULL;
}
