/* commands_about.c: what the server and its commands are. */
#include "serve/command.h"

#include <inttypes.h>
#include <stdio.h>

#include "redis/redis_store.h"
#include "serve/log.h"
#include "serve/policies.h"
#include "serve/remote.h"
#include "serve/witness.h"

/* Appends; without a policy there is nothing to tell. */
static size_t describe_policy(struct weir__policies *policies, char *text, size_t size)
{
	struct weir__policies_info info;

	if (policies == NULL)
		return 0;
	weir__policies_info(policies, &info);
	return (size_t)snprintf(
		text, size,
		"\r\n# Policy\r\npolicy_limits:%" PRIu32 "\r\npolicy_changes:%" PRIu64 "\r\npolicy_failures:%" PRIu64
		"\r\npolicy_reloads:%" PRIu64 "\r\npolicy_loaded_at:%" PRIu64 "\r\npolicy_last_error:%s\r\n",
		info.limits, info.changes, info.failures, info.reloads, info.loaded_at / 1000000000, info.last_error);
}

/* Likewise of a store. */
static size_t describe_store(const struct weir__commands *commands, char *text, size_t size)
{
	static const char *const states[] = {
		[WEIR__REDIS_UP] = "up", [WEIR__REDIS_DOWN] = "down", [WEIR__REDIS_PROBING] = "probing"
	};
	struct weir__redis_store_info info;

	if (commands->remote == NULL)
		return 0;
	weir__redis_store_info(weir__remote_store(commands->remote), &info);
	return (size_t)snprintf(text, size,
				"\r\n# Store\r\nstore_state:%s\r\nstore_nodes:%" PRIu32 "\r\nstore_calls:%" PRIu64
				"\r\nstore_requests:%" PRIu64 "\r\nstore_decided:%" PRIu64
				"\r\nstore_not_asked:%" PRIu64 "\r\nstore_not_answered:%" PRIu64
				"\r\nstore_owed_keys:%" PRIu64 "\r\nstore_paid:%" PRIu64 "\r\nstore_drift:%" PRIu64
				"\r\nstore_unsure:%" PRIu64 "\r\nstore_forgotten:%" PRIu64
				"\r\nstore_last_error:%s\r\n",
				states[info.client.health], info.client.nodes, info.client.calls, info.client.requests,
				info.client.decided, info.client.not_asked, info.client.not_answered, info.owed_keys,
				info.paid, info.drift, info.unsure, info.forgotten, info.client.last_error);
}

/* What was lost on the way to whoever looks. */
static size_t describe_observing(const struct weir__commands *commands, char *text, size_t size)
{
	struct weir__witnesses_info info;

	weir__witnesses_info(commands->witnesses, &info);
	return (size_t)snprintf(text, size,
				"\r\n# Observing\r\nspans_sent:%" PRIu64 "\r\nspans_dropped:%" PRIu64
				"\r\nrejections_left_out:%" PRIu64 "\r\nlog_lines_left_out:%" PRIu64 "\r\n",
				info.spans_sent, info.spans_dropped, info.rejections_left_out,
				weir__log_left_out(commands->log));
}

void weir__info(struct weir__call *call)
{
	const struct weir__commands *const commands = call->commands;
	char text[4096];
	struct weir_table_limit_stats decisions;
	size_t length;

	weir_table_limit_stats(commands->table, commands->limits.counted_as, &decisions);
	length = (size_t)snprintf(
		text, sizeof(text),
		"# Server\r\nweir_version:" WEIR_VERSION "\r\nredis_version:7.0.0\r\nredis_mode:standalone\r\n"
		"\r\n# Decisions\r\nallowed:%" PRIu64 "\r\ndenied:%" PRIu64 "\r\nholds:%" PRIu32
		"\r\nwaiting_here:%" PRIu32 "\r\n",
		decisions.allowed, decisions.denied, commands->holds ? weir__holds_n(commands->holds) : 0,
		commands->waiting ? weir__waiting_n(commands->waiting) : 0);
	length += describe_policy(commands->policies, text + length, sizeof(text) - length);
	length += describe_store(commands, text + length, sizeof(text) - length);
	length += describe_observing(commands, text + length, sizeof(text) - length);
	weir__resp_write_verbatim(call->writer, "txt", text, length);
}

/* --- help ------------------------------------------------------------------------------------------------------- */

static void say_command(const struct weir__call *call, const struct weir__command_row *row)
{
	char name[WEIR__COMMAND_NAME_SIZE], line[512];
	int length;

	weir__write_capitals(row->name, name);
	length = snprintf(line, sizeof(line), "%s%s%s: %s", name, *row->usage ? " " : "", row->usage, row->does);
	weir__resp_write_simple(call->writer, line, (size_t)length);
}

static void say_errors(const struct weir__call *call)
{
	char line[512];

	weir__resp_write_array(call->writer, WEIR__SAID_ERRORS_N);
	for (size_t i = 0; i < WEIR__SAID_ERRORS_N; i++) {
		const struct weir__error_row *const row = &weir__error_rows[i];
		const int length = snprintf(line, sizeof(line), "%s%s: %s", row->text, row->detail, row->when);

		weir__resp_write_simple(call->writer, line, (size_t)length);
	}
}

static void say_topic(struct weir__call *call, const struct weir__resp_slice *topic)
{
	const struct weir__command_row *const row = weir__command_named(topic);
	char detail[160];

	if (row) {
		weir__resp_write_array(call->writer, 1);
		say_command(call, row);
		return;
	}
	(void)snprintf(detail, sizeof(detail), "%.*s'", (int)weir__min(topic->length, 128), topic->bytes);
	weir__refuse_with(call, WEIR__SAY_HELP_TOPIC, detail);
}

void weir__help(struct weir__call *call)
{
	if (call->n > 1 && weir__is_word(&call->arguments[1], "ERRORS")) {
		say_errors(call);
	} else if (call->n > 1) {
		say_topic(call, &call->arguments[1]);
	} else {
		weir__resp_write_array(call->writer, weir__command_rows_n);
		for (size_t i = 0; i < weir__command_rows_n; i++)
			say_command(call, &weir__command_rows[i]);
	}
}
