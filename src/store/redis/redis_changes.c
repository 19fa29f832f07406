/* redis_changes.c: scripts for shared changes of limits, and the form of such changes in Redis. */
#include "store/redis/redis_changes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/decimal.h"

/* --- scripts ----------------------------------------------------------------------------------------------------- */

/* Lua's numbers are exact up to 2^53, which is above 9e15. Versions are Unix microseconds or, if Redis's clock steps
 * back, one more than the last, so that a Redis that has lost its data does not repeat one. A damaged version counts as
 * 0. */
#define NEXT_VERSION                                                                                                   \
	"local time = redis.call('TIME')\n"                                                                            \
	"local function number(text)\n"                                                                                \
	"	local of = tonumber(text or 0) or 0\n"                                                                       \
	"	return of < 9e15 and of or 0\n"                                                                              \
	"end\n"                                                                                                        \
	"local before = redis.call('HGET', KEYS[1], ARGV[1])\n"                                                        \
	"local last = math.max(number(redis.call('HGET', KEYS[1], 'version')),\n"                                      \
	"	number(before and before:match('^(%d+) ')))\n"                                                               \
	"local version = string.format('%.0f', math.max(last + 1, time[1] * 1000000 + time[2]))\n"

/* Changes that no server reads any more end after 30 days. */
#define KEEP(key) "redis.call('PEXPIRE', " key ", 2592000000)\n"

#define REFUSE_MORE(most)                                                                                              \
	"if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 and redis.call('HLEN', KEYS[1]) >= tonumber(" most ") then\n" \
	"	return redis.error_reply('FULL too many limits are changed already')\n"                                      \
	"end\n"

/* A server that was not seen for 5 s does not count as running its policy. If it still runs, this does no harm: each
 * deletion changes the version, and a changed version makes every server read the changes again and restore what is
 * missing. */
const char weir__redis_changes_beat[] = "local time = redis.call('TIME')\n"
					"local now = time[1] * 1000 + math.floor(time[2] / 1000)\n"
					"if ARGV[3] ~= '' then redis.call('ZREM', KEYS[1], ARGV[3] .. ARGV[1]) end\n"
					"redis.call('ZADD', KEYS[1], now, ARGV[2] .. ARGV[1])\n"
					"local gone = redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - 60000)\n"
					"redis.call('PEXPIRE', KEYS[1], 120000)\n"
					"local version = redis.call('HGET', KEYS[2], 'version')\n"
					"if not version then return '0' end\n" KEEP("KEYS[2]") //
	"if gone == 0 and ARGV[4] ~= '1' then return version end\n"
	"local runs, deleted = {}, 0\n"
	"for _, server in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], now - 5000, '+inf')) do\n"
	"	runs[server:sub(1, 16)] = true\n"
	"end\n"
	"for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do\n"
	"	if field ~= 'version' and not runs[field:sub(1, 16)] then\n"
	"		deleted = deleted + redis.call('HDEL', KEYS[2], field)\n"
	"	end\n"
	"end\n"
	"if deleted == 0 then return version end\n"
	"local last = tonumber(version) or 0\n"
	"version = string.format('%.0f', last < 9e15 and last + 1 or 1)\n"
	"redis.call('HSET', KEYS[2], 'version', version)\n"
	"return version\n";

const char weir__redis_changes_store[] = REFUSE_MORE("ARGV[5]") NEXT_VERSION //
	"local at = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))\n"
	"local value = version .. ' ' .. at .. '\\n' .. ARGV[2] .. '\\n' .. ARGV[3] .. '\\n' .. ARGV[4]\n"
	"redis.call('HSET', KEYS[1], ARGV[1], value, 'version', version)\n" KEEP("KEYS[1]") //
	"return {version, at}\n";

const char weir__redis_changes_restore[] =
	"local value = redis.call('HGET', KEYS[1], ARGV[1])\n"
	"if value and (tonumber(value:match('^(%d+) ')) or 0) >= tonumber(ARGV[3]) then return 0 end\n" REFUSE_MORE(
		"ARGV[4]") NEXT_VERSION                                                       //
	"redis.call('HSET', KEYS[1], ARGV[1], ARGV[2], 'version', version)\n" KEEP("KEYS[1]") //
	"return 1\n";

const char weir__redis_changes_read[] =
	"local all, found = redis.call('HGETALL', KEYS[1]), {}\n"
	"for i = 1, #all, 2 do\n"
	"	local field, value = all[i], all[i + 1]\n"
	"	if field:sub(1, 16) == ARGV[1] and #field <= tonumber(ARGV[2]) and #value <= tonumber(ARGV[3]) and\n"
	"	   #found < tonumber(ARGV[4]) then\n"
	"		found[#found + 1] = #field .. ':' .. field .. #value .. ':' .. value\n"
	"	end\n"
	"end\n"
	"return {redis.call('HGET', KEYS[1], 'version') or '0', table.concat(found)}\n";

/* --- reading ----------------------------------------------------------------------------------------------------- */

uint64_t weir__redis_changes_number(struct weir__resp_slice text)
{
	const uint64_t most = UINT64_C(8999999999999999);
	uint64_t number;

	return weir__decimal_read(text.bytes, text.length, most, &number) ? number : 0;
}

/* Takes LENGTH:BYTES. */
static bool take_text(struct weir__resp_slice *rest, struct weir__resp_slice *ret_text)
{
	const char *const colon = memchr(rest->bytes, ':', rest->length < 8 ? rest->length : 8);
	const size_t digits = colon ? (size_t)(colon - rest->bytes) : 0;
	uint64_t length;

	if (digits == 0 || !weir__decimal_read(rest->bytes, digits, rest->length - digits - 1, &length))
		return false;
	*ret_text = (struct weir__resp_slice){ colon + 1, (size_t)length };
	rest->bytes = colon + 1 + length;
	rest->length -= digits + 1 + (size_t)length;
	return true;
}

bool weir__redis_changes_next(struct weir__resp_slice *rest, struct weir__resp_slice *ret_field,
			      struct weir__resp_slice *ret_value)
{
	return rest->length > 0 && take_text(rest, ret_field) && take_text(rest, ret_value);
}

/* Takes the bytes up to a separator, which is removed. */
static bool take_until(struct weir__resp_slice *rest, char separator, struct weir__resp_slice *ret_part)
{
	const char *const at = rest->length > 0 ? memchr(rest->bytes, separator, rest->length) : NULL;

	if (at == NULL)
		return false;
	*ret_part = (struct weir__resp_slice){ rest->bytes, (size_t)(at - rest->bytes) };
	rest->length -= ret_part->length + 1;
	rest->bytes = at + 1;
	return true;
}

static bool copy_visible(struct weir__resp_slice text, char *ret_text, size_t size)
{
	if (text.length >= size)
		return false;
	for (size_t i = 0; i < text.length; i++)
		ret_text[i] = text.bytes[i] >= ' ' && text.bytes[i] <= '~' ? text.bytes[i] : '?';
	ret_text[text.length] = '\0';
	return true;
}

bool weir__redis_change_read(struct weir__resp_slice field, struct weir__resp_slice value,
			     struct weir__redis_change *ret_change)
{
	const uint64_t ms = 1000000;
	struct weir__resp_slice version, at, limit, user;
	size_t name;

	if (field.length <= WEIR__REDIS_IDENTITY_LENGTH)
		return false;
	name = field.length - WEIR__REDIS_IDENTITY_LENGTH;
	if (name >= sizeof(ret_change->name) || memchr(field.bytes, '\0', field.length) != NULL ||
	    !take_until(&value, ' ', &version) || !take_until(&value, '\n', &at) || !take_until(&value, '\n', &limit) ||
	    !take_until(&value, '\n', &user))
		return false;
	memcpy(ret_change->name, field.bytes + WEIR__REDIS_IDENTITY_LENGTH, name);
	ret_change->name[name] = '\0';
	ret_change->version = weir__redis_changes_number(version);
	ret_change->at = weir__redis_changes_number(at);
	if (ret_change->version == 0 || ret_change->at == 0 || ret_change->at > UINT64_MAX / ms)
		return false;
	ret_change->at *= ms;
	return weir_limit_parse(limit.bytes, limit.length, &ret_change->limit, NULL) == WEIR_OK &&
	       copy_visible(user, ret_change->user, sizeof(ret_change->user)) &&
	       copy_visible(value, ret_change->peer, sizeof(ret_change->peer));
}

_Static_assert(2 * 20 + (int)WEIR_LIMIT_TEXT_MAX + (int)WEIR__REDIS_CHANGE_USER + (int)WEIR__REDIS_CHANGE_PEER + 5 <=
		       (int)WEIR__REDIS_CHANGE_VALUE,
	       "any value fits");

size_t weir__redis_change_write(const struct weir__redis_change *change, char ret_value[WEIR__REDIS_CHANGE_VALUE])
{
	const uint64_t ms = 1000000;
	char limit[WEIR_LIMIT_TEXT_MAX];

	(void)weir_limit_print(&change->limit, limit);
	return (size_t)snprintf(ret_value, WEIR__REDIS_CHANGE_VALUE, "%" PRIu64 " %" PRIu64 "\n%s\n%s\n%s",
				change->version, change->at / ms, limit, change->user, change->peer);
}
