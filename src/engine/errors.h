/* errors.h: every error reply in one list, with its text and when it occurs. HELP ERRORS and the documentation are
 * generated from it.
 *
 * An error begins with its code, as in Redis. Programs read the code, people read the rest. Where a detail follows the
 * text, the row describes it in angle brackets. */
#ifndef WEIR_ENGINE_ERRORS_H
#define WEIR_ENGINE_ERRORS_H

#include <stddef.h>

/* name, text, detail that follows the text, when it occurs */
/* clang-format off */
#define WEIR__ERRORS(X) \
	X(PROTOCOL, "ERR Protocol error: ", "<what>", "the bytes are not RESP; the connection is closed") \
	X(UNKNOWN, "ERR unknown command '", "<name>', with args beginning with: <arguments>", \
	  "there is no such command") \
	X(ARITY, "ERR wrong number of arguments for '", "<name>' command", "too few or too many arguments") \
	X(ANSWER_LONG, "ERR the answer would be too long: ask for less at once", "", \
	  "for example COMMAND DOCS of very many commands") \
	X(SUBCOMMAND, "ERR unknown subcommand '", "<name>'. Try <command> HELP.", "the command has no such subcommand") \
	X(LIMIT_TEXT, "ERR the limit: ", "<why, and what would be right>", "the text is not a limit") \
	X(LIMIT, "ERR ", "<why>", "the limit is out of range, for any table or for this one") \
	X(KEY, "ERR the key: ", "<the key> is none of <limit>, whose keys are made of <attributes>, as in <example>", \
	  "the limit is one of the policy, and its keys look different") \
	X(COST, "ERR a cost is a whole number, 0 to 9223372036854775807", "", \
	  "the cost is not a number, or out of range") \
	X(TAKE_SYNTAX, "ERR after the limit come a cost, or WAIT and a timeout in ms, or both", "", \
	  "something else follows the limit of WEIR.TAKE") \
	X(TIMEOUT, "ERR a timeout is 0 to 86400000 ms", "", "the timeout is not a number, or longer than a day") \
	X(WAIT_MULTI, "ERR WAIT is not done within MULTI: the answers of EXEC leave together", "", \
	  "WEIR.TAKE or WEIR.CHECK with WAIT between MULTI and EXEC") \
	X(MULTI_NESTED, "ERR MULTI calls can not be nested", "", "MULTI again before EXEC or DISCARD") \
	X(MULTI_OTHER, "ERR MULTI keeps commands that decide, PING, ECHO, SELECT and TIME, and no others", "", \
	  "any other command between MULTI and EXEC") \
	X(MULTI_ROOM, "ERR MULTI keeps at most 440 commands of 64 KiB together", "", \
	  "there are more, or so much for PING and ECHO to repeat that the answers would not fit, or memory ran out") \
	X(EXEC, "ERR EXEC without MULTI", "", "there is nothing to run") \
	X(DISCARD, "ERR DISCARD without MULTI", "", "there is nothing to drop") \
	X(EXECABORT, "EXECABORT Transaction discarded because of previous errors.", "", \
	  "a command between MULTI and EXEC was refused; nothing was charged") \
	X(WAITERS, "BUSY too many requests wait already; nothing was charged", "", \
	  "4096 requests are waiting in this worker") \
	X(CLAIMS, "ERR WEIR.ALL takes key, limit and cost, together 1 to 16 times", "", \
	  "an argument is missing, or there are too many") \
	X(NO_POLICY, "NOPOLICY there is no policy: start weir serve with --policy, or with limits in the file of --config", "", \
	  "the command needs a policy, or names a limit of one") \
	X(NO_LIMIT, "NOLIMIT the policy has no limit named ", "<name>", "there is none, or it is unlimited") \
	X(CHANGE_WORD, "ERR after the limit comes HERE, to change this server alone, or nothing", "", \
	  "something else follows the limit of WEIR.CHANGE") \
	X(CHANGES_WAIT, "BUSY too many changes of limits wait, or memory ran out; nothing was changed", "", \
	  "64 changes wait to be stored for all servers") \
	X(UNSHARED, "UNSHARED the store did not take the change, so nothing was changed; HERE changes this server alone: ", \
	  "<why>", "Redis cannot be reached, or replied with an error") \
	X(UNSHARED_PERHAPS, "UNSHARED the store did not reply, so all servers may be changed soon; see WEIR.LIMITS before you try again: ", \
	  "<why>", "the connection was lost, or Redis was too slow, after the change was sent") \
	X(UNRESET, "UNSHARED the store cannot be reached and was not reset, only what this server knows of the key; reset it again when the store is back", "", \
	  "WEIR.RESET while Redis cannot be reached; this server's deferred charges of the key are dropped") \
	X(UNRESET_PERHAPS, "UNSHARED the store did not reply, so the key may be reset soon; see WEIR.INSPECT before you try again", "", \
	  "WEIR.RESET, and the connection was lost or Redis was too slow after it was sent") \
	X(ATTRIBUTES, "ERR attributes come as names and values, up to 32 of them", "", \
	  "a value is missing, or there are too many attributes") \
	X(ATTRIBUTE_TWICE, "ERR an attribute is given twice: ", "<name>", \
	  "WEIR.CHECK or WEIR.EXPLAIN could not tell which value is meant") \
	X(LIMITS_FIRST, "ERR the number of a limit is a whole number, 0 or more", "", \
	  "the argument of WEIR.LIMITS is not such a number") \
	X(LIVE, "ERR WEIR.LIVE: ", "<what would be right>", "an option of WEIR.LIVE is unknown, or its value is wrong") \
	X(HOLD_ID, "ERR an id has 1 to 64 bytes", "", "the id of a hold is empty or too long") \
	X(HOLD_KEY, "ERR the key of a hold has at most 256 bytes", "", "the key of a hold is too long") \
	X(HOLD_TIME, "ERR a hold lasts 1 to 86400000 ms", "", "the ttl of a hold is 0, or longer than a day") \
	X(HOLD_ACTUAL, "ERR the actual cost is a whole number, 0 to 9223372036854775807", "", \
	  "the argument of WEIR.SETTLE is not such a number") \
	X(HOLD_OTHER, "HELDOTHER this id holds something else: take another one, or repeat key, limit, cost and time as they were", "", \
	  "a hold is repeated with other arguments; nothing was charged") \
	X(HOLD_SETTLED, "SETTLED this hold was settled with another cost before; nothing was changed", "", \
	  "WEIR.SETTLE or WEIR.RELEASE is repeated with another cost") \
	X(HOLD_FULL, "BUSY there is no room for another hold until one expires; nothing was charged", "", \
	  "as many holds are remembered as the setting holds allows") \
	X(HOLD_BUSY, "BUSY the same is being asked for this id by another connection; ask again", "", \
	  "the store has not yet answered the first of them") \
	X(HOLD_UNKNOWN, "NOHOLD no hold has this id: it was denied or never made, or its time is over", "", \
	  "there is nothing to settle or release") \
	X(CELL_USAGE, "Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]", "", \
	  "too few or too many arguments of CL.THROTTLE") \
	X(CELL_NUMBER, "Cell error: Store error: Couldn't parse as integer: ", "<the argument, or 128 bytes of it>", \
	  "an argument of CL.THROTTLE is not a 64-bit integer") \
	X(CELL_ZERO, "Cell error: Store error: Zero rates are not supported", "", \
	  "count or period of CL.THROTTLE is 0 or less, or the rate is above one per ns") \
	X(CELL_DURATION, "Cell error: a key would take more than 6671 days to be full again; lower max_burst or period", "", \
	  "the numbers of CL.THROTTLE make a limit that no table can hold") \
	X(CELL_LIMIT, "Cell error: ", "<why>", "the numbers of CL.THROTTLE make a limit that the store cannot hold") \
	X(THROTTLE_BURST, "ERR invalid max_burst", "", "an argument of THROTTLE is not a 64-bit integer") \
	X(THROTTLE_COUNT, "ERR invalid count_per_period", "", "the same") \
	X(THROTTLE_PERIOD, "ERR invalid period", "", "the same") \
	X(THROTTLE_QUANTITY, "ERR invalid quantity", "", "the same") \
	X(THROTTLE_NEGATIVE, "ERR Rate limit check failed: negative quantity: ", "<quantity>", \
	  "the quantity of THROTTLE is below 0") \
	X(THROTTLE_PARAMETERS, "ERR Rate limit check failed: invalid rate limit parameters", "", \
	  "max_burst, count or period of THROTTLE is 0 or less") \
	X(THROTTLE_RATE, "ERR more than one in each ns is not supported; lower the count, or raise the period", "", \
	  "the count of THROTTLE is too large for its period") \
	X(THROTTLE_DURATION, "ERR a key would take more than 6671 days to be full again; lower max_burst or period", "", \
	  "the numbers of THROTTLE make a limit that no table can hold") \
	X(NOAUTH, "NOAUTH Authentication required.", "", "there are users, and the client has not authenticated") \
	X(NOAUTH_LATE, "NOAUTH Authentication required, and it took too long.", "", \
	  "the client has not authenticated within header_time; the connection is closed") \
	X(NOAUTH_HELLO, "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time", "", \
	  "the same, for HELLO") \
	X(NOPERM, "NOPERM this user has no permissions to run the '", "<name>' command: it needs the role <role>, and <user> has <role>", \
	  "the user has none of the roles that the command needs") \
	X(WRONGPASS, "WRONGPASS invalid username-password pair or user is disabled.", "", \
	  "AUTH or HELLO has an unknown user or a wrong password") \
	X(AUTH_LIMITED, "ERR too many wrong passwords from this address: try again later", "", \
	  "the address has used up its attempts (setting auth_limit); the password was not checked, and the connection is closed") \
	X(AUTH_NONE, "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?", "", \
	  "there are no users") \
	X(SYNTAX, "ERR syntax error", "", \
	  "AUTH with too many arguments, CLIENT NO-EVICT with neither ON nor OFF, COMMAND LIST with an unknown filter") \
	X(INFO_OPTION, "ERR Unrecognized option '", "<option>'", "CLIENT SETINFO with neither LIB-NAME nor LIB-VER") \
	X(INFO_BYTES, "ERR ", "<option> cannot contain spaces, newlines or special characters.", \
	  "CLIENT SETINFO with such a value") \
	X(CLUSTER, "ERR This instance has cluster support disabled", "", "CLUSTER, READONLY or READWRITE") \
	X(HELLO_NUMBER, "ERR Protocol version is not an integer or out of range", "", \
	  "the version of HELLO is not a number") \
	X(HELLO_VERSION, "NOPROTO unsupported protocol version", "", "it is neither 2 nor 3") \
	X(HELLO_OPTION, "ERR Syntax error in HELLO option '", "<option>'", \
	  "HELLO has no such option, or its value is missing") \
	X(REPLIES_WORD, "ERR WEIR.REPLIES takes MAP or ARRAY", "", "another word follows it") \
	X(REPLIES_RESP2, "ERR RESP2 has no maps: send HELLO 3 before WEIR.REPLIES MAP", "", \
	  "the connection uses RESP2; it keeps its arrays") \
	X(NAME_BYTES, "ERR Client names cannot contain spaces, newlines or special characters.", "", \
	  "CLIENT SETNAME or HELLO SETNAME with such a name") \
	X(NAME_LENGTH, "ERR Client names have at most 63 bytes.", "", "the same, with a longer name") \
	X(SELECT_NUMBER, "ERR value is not an integer or out of range", "", "the argument of SELECT is not a number") \
	X(SELECT_RANGE, "ERR DB index is out of range", "", "SELECT of a database other than 0") \
	X(CONFIG_SET, "ERR settings are changed where weir serve is started", "", "CONFIG SET") \
	X(KEYS_COMMAND, "ERR Invalid command specified", "", "COMMAND GETKEYS of an unknown command") \
	X(KEYS_NONE, "ERR The command has no key arguments", "", "COMMAND GETKEYS of a command without keys") \
	X(KEYS_ARITY, "ERR Invalid number of arguments specified for command", "", \
	  "COMMAND GETKEYS of a request that would be refused") \
	X(KEYS_LONG, "ERR the keys are too long to be repeated", "", "COMMAND GETKEYS would answer more than 32 KiB") \
	X(HELP_TOPIC, "ERR HELP knows commands and ERRORS, not '", "<word>'", "there is no such topic")
/* clang-format on */

enum weir__error_number {
#define WEIR__ERROR_ENUM_(name, text, detail, when) WEIR__ERROR_##name,
	WEIR__ERRORS(WEIR__ERROR_ENUM_)
#undef WEIR__ERROR_ENUM_
		WEIR__ERRORS_N
};

struct weir__error_row {
	const char *text, *detail, *when;
};

extern const struct weir__error_row weir__error_rows[WEIR__ERRORS_N];

#endif
