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
	  "the command does not exist") \
	X(ARITY, "ERR wrong number of arguments for '", "<name>' command", "too few or too many arguments") \
	X(ANSWER_LONG, "ERR the reply would be too long: request less at once", "", \
	  "for example, COMMAND DOCS with very many commands") \
	X(SUBCOMMAND, "ERR unknown subcommand '", "<name>'. Try <command> HELP.", "the subcommand does not exist") \
	X(LIMIT_TEXT, "ERR the limit: ", "<what is wrong, and what to use>", "the text is not a valid limit") \
	X(LIMIT, "ERR ", "<why>", "the limit is out of range for every table, or for this one") \
	X(KEY, "ERR the key: ", "<the key> is not a key of <limit>, whose keys are made of <attributes>, as in <example>", \
	  "the limit belongs to the policy, and its keys have another form") \
	X(COST, "ERR invalid cost: use a whole number, 0 to 9223372036854775807", "", \
	  "the cost is not a number, or out of range") \
	X(TAKE_SYNTAX, "ERR invalid argument after the limit: use a cost, WAIT and a timeout in ms, or both", "", \
	  "WEIR.TAKE has another argument after the limit") \
	X(TIMEOUT, "ERR invalid timeout: use 0 to 86400000 ms", "", "the timeout is not a number, or longer than a day") \
	X(WAIT_MULTI, "ERR WAIT is not allowed within MULTI: EXEC sends all replies together", "", \
	  "WEIR.TAKE or WEIR.CHECK with WAIT between MULTI and EXEC") \
	X(MULTI_NESTED, "ERR MULTI calls can not be nested", "", "MULTI again before EXEC or DISCARD") \
	X(MULTI_OTHER, "ERR MULTI queues only commands that decide, PING, ECHO, SELECT and TIME", "", \
	  "any other command between MULTI and EXEC") \
	X(MULTI_ROOM, "ERR MULTI queues at most 440 commands, of 64 KiB in total", "", \
	  "there are more, or the replies to PING and ECHO would be too long, or memory ran out") \
	X(EXEC, "ERR EXEC without MULTI", "", "EXEC was sent without a MULTI before it") \
	X(DISCARD, "ERR DISCARD without MULTI", "", "DISCARD was sent without a MULTI before it") \
	X(EXECABORT, "EXECABORT Transaction discarded because of previous errors.", "", \
	  "a command between MULTI and EXEC had an error; nothing was charged") \
	X(WAITERS, "BUSY too many requests are waiting; nothing was charged", "", \
	  "4096 requests of this worker are waiting already") \
	X(CLAIMS, "ERR WEIR.ALL takes 1 to 16 groups of key, limit and cost", "", \
	  "an argument is missing, or there are too many") \
	X(NO_POLICY, "NOPOLICY no policy is loaded: start weir serve with --policy, or with limits in the configuration file (--config)", "", \
	  "the command needs a policy, or names a limit of the policy") \
	X(NO_LIMIT, "NOLIMIT the policy has no limit named ", "<name>", "the limit does not exist, or is unlimited") \
	X(CHANGE_WORD, "ERR invalid argument after the limit: use HERE to change only this server, or nothing", "", \
	  "WEIR.CHANGE has another argument after the limit") \
	X(CHANGES_WAIT, "BUSY too many limit changes are waiting, or memory ran out; nothing was changed", "", \
	  "64 changes are waiting to be stored for all servers") \
	X(UNSHARED, "UNSHARED the store did not accept the change, so nothing was changed; HERE changes only this server: ", \
	  "<why>", "Redis cannot be reached, or replied with an error") \
	X(UNSHARED_PERHAPS, "UNSHARED the store did not reply, so the change may still reach all servers; check WEIR.LIMITS before you retry: ", \
	  "<why>", "the connection was lost, or Redis was too slow, after the change was sent") \
	X(UNRESET, "UNSHARED the store cannot be reached, so the key was reset only on this server; reset it again when the store is back", "", \
	  "WEIR.RESET while Redis cannot be reached; this server's deferred charges of the key are dropped") \
	X(UNRESET_PERHAPS, "UNSHARED the store did not reply, so the key may still be reset; check WEIR.INSPECT before you retry", "", \
	  "WEIR.RESET, and the connection was lost or Redis was too slow after it was sent") \
	X(ATTRIBUTES, "ERR invalid attributes: use pairs of name and value, up to 32", "", \
	  "a value is missing, or there are too many attributes") \
	X(ATTRIBUTE_TWICE, "ERR attribute given twice: ", "<name>", \
	  "WEIR.CHECK or WEIR.EXPLAIN has two values for one attribute") \
	X(LIMITS_FIRST, "ERR invalid number of a limit: use a whole number, 0 or more", "", \
	  "the argument of WEIR.LIMITS is not a number") \
	X(LIVE, "ERR WEIR.LIVE: ", "<what to use>", "an option of WEIR.LIVE is unknown, or its value is wrong") \
	X(RECORD_OPTION, "ERR invalid option of WEIR.RECORD START: use SAMPLE and 1 to 1000000, KEYS and HASHED or PLAIN, KEEP and the name of an attribute", "", \
	  "an option is unknown, or its value is wrong, or there are more than 8 KEEP") \
	X(RECORD_NUMBER, "ERR invalid number of a recording: use the reply to WEIR.RECORD START", "", \
	  "the argument of WEIR.RECORD READ or STOP is not a number") \
	X(RECORD_BUSY, "BUSY another recording is running: retry when it has ended", "", \
	  "WEIR.RECORD START while another client records; a recording that was not read for 10 s has ended") \
	X(RECORD_NONE, "NORECORDING no recording has this number: it has ended, or was not read for 10 s", "", \
	  "WEIR.RECORD READ or STOP after the end of the recording, or with another number") \
	X(RECORD_ROOM, "ERR no memory for a recording", "", "a recording takes about 12 MB of the server's memory") \
	X(HOLD_ID, "ERR invalid id: use 1 to 64 bytes", "", "the id of a hold is empty or too long") \
	X(HOLD_KEY, "ERR the key is too long: a hold's key has at most 256 bytes", "", "the key of a hold is too long") \
	X(HOLD_TIME, "ERR invalid ttl: use 1 to 86400000 ms", "", "the ttl of a hold is 0, or longer than a day") \
	X(HOLD_ACTUAL, "ERR invalid actual cost: use a whole number, 0 to 9223372036854775807", "", \
	  "the cost of WEIR.SETTLE is not a number, or out of range") \
	X(HOLD_OTHER, "HELDOTHER this id belongs to another hold: use a new id, or repeat the same key, limit, cost and ttl", "", \
	  "WEIR.HOLD is repeated with other arguments; nothing was charged") \
	X(HOLD_SETTLED, "SETTLED this hold was already settled with another cost; nothing was changed", "", \
	  "WEIR.SETTLE or WEIR.RELEASE is repeated with another cost") \
	X(HOLD_FULL, "BUSY too many holds: no room until one expires; nothing was charged", "", \
	  "the server has as many holds as the setting holds allows") \
	X(HOLD_BUSY, "BUSY another connection has a request for this id in progress; retry", "", \
	  "the store has not replied to the first request yet") \
	X(HOLD_UNKNOWN, "NOHOLD no hold has this id: it was denied, never made, or has expired", "", \
	  "there is nothing to settle or release") \
	X(CELL_USAGE, "Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]", "", \
	  "too few or too many arguments of CL.THROTTLE") \
	X(CELL_NUMBER, "Cell error: Store error: Couldn't parse as integer: ", "<the argument, or 128 bytes of it>", \
	  "an argument of CL.THROTTLE is not a 64-bit integer") \
	X(CELL_ZERO, "Cell error: Store error: Zero rates are not supported", "", \
	  "the count or period of CL.THROTTLE is 0 or less, or the rate is above one per ns") \
	X(CELL_DURATION, "Cell error: a key would take more than 6671 days to be full again; lower max_burst or period", "", \
	  "the arguments of CL.THROTTLE make a limit that no table can hold") \
	X(CELL_LIMIT, "Cell error: ", "<why>", "the arguments of CL.THROTTLE make a limit that the store cannot hold") \
	X(THROTTLE_BURST, "ERR invalid max_burst", "", "an argument of THROTTLE is not a 64-bit integer") \
	X(THROTTLE_COUNT, "ERR invalid count_per_period", "", "the same") \
	X(THROTTLE_PERIOD, "ERR invalid period", "", "the same") \
	X(THROTTLE_QUANTITY, "ERR invalid quantity", "", "the same") \
	X(THROTTLE_NEGATIVE, "ERR Rate limit check failed: negative quantity: ", "<quantity>", \
	  "the quantity of THROTTLE is below 0") \
	X(THROTTLE_PARAMETERS, "ERR Rate limit check failed: invalid rate limit parameters", "", \
	  "max_burst, count or period of THROTTLE is 0 or less") \
	X(THROTTLE_RATE, "ERR rates above one per ns are not supported; lower the count, or raise the period", "", \
	  "the count of THROTTLE is too large for its period") \
	X(THROTTLE_DURATION, "ERR a key would take more than 6671 days to be full again; lower max_burst or period", "", \
	  "the arguments of THROTTLE make a limit that no table can hold") \
	X(NOAUTH, "NOAUTH Authentication required.", "", "the server has users, and the client has not authenticated") \
	X(NOAUTH_LATE, "NOAUTH Authentication timed out.", "", \
	  "the client has not authenticated within header_time; the connection is closed") \
	X(NOAUTH_HELLO, "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time", "", \
	  "the same, for HELLO") \
	X(NOPERM, "NOPERM this user has no permissions to run the '", "<name>' command: it needs the role <role>, and <user> has <role>", \
	  "the user has none of the roles that the command needs") \
	X(WRONGPASS, "WRONGPASS invalid username-password pair or user is disabled.", "", \
	  "AUTH or HELLO has an unknown user or a wrong password") \
	X(AUTH_LIMITED, "ERR too many wrong passwords from this address: retry later", "", \
	  "the address has used up its attempts (setting auth_limit); the password was not checked, and the connection is closed") \
	X(AUTH_NONE, "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?", "", \
	  "the server has no users") \
	X(SYNTAX, "ERR syntax error", "", \
	  "AUTH with too many arguments, CLIENT NO-EVICT with neither ON nor OFF, COMMAND LIST with an unknown filter") \
	X(INFO_OPTION, "ERR Unrecognized option '", "<option>'", "CLIENT SETINFO with neither LIB-NAME nor LIB-VER") \
	X(INFO_BYTES, "ERR ", "<option> cannot contain spaces, newlines or special characters.", \
	  "CLIENT SETINFO with a value that contains one of them") \
	X(CLUSTER, "ERR This instance has cluster support disabled", "", "CLUSTER, READONLY or READWRITE") \
	X(HELLO_NUMBER, "ERR Protocol version is not an integer or out of range", "", \
	  "the version of HELLO is not a number") \
	X(HELLO_VERSION, "NOPROTO unsupported protocol version", "", "the version is neither 2 nor 3") \
	X(HELLO_OPTION, "ERR Syntax error in HELLO option '", "<option>'", \
	  "the option of HELLO is unknown, or its value is missing") \
	X(REPLIES_WORD, "ERR invalid argument of WEIR.REPLIES: use MAP or ARRAY", "", "the argument is neither") \
	X(REPLIES_RESP2, "ERR RESP2 does not support maps: send HELLO 3 before WEIR.REPLIES MAP", "", \
	  "the connection uses RESP2; replies stay arrays") \
	X(NAME_BYTES, "ERR Client names cannot contain spaces, newlines or special characters.", "", \
	  "CLIENT SETNAME or HELLO SETNAME with a name that contains one of them") \
	X(NAME_LENGTH, "ERR Client name too long: use at most 63 bytes.", "", "CLIENT SETNAME or HELLO SETNAME with a longer name") \
	X(SELECT_NUMBER, "ERR value is not an integer or out of range", "", "the argument of SELECT is not a number") \
	X(SELECT_RANGE, "ERR DB index is out of range", "", "SELECT of a database other than 0") \
	X(CONFIG_SET, "ERR settings cannot be changed at run time: restart weir serve with the new value", "", "CONFIG SET") \
	X(KEYS_COMMAND, "ERR Invalid command specified", "", "COMMAND GETKEYS of an unknown command") \
	X(KEYS_NONE, "ERR The command has no key arguments", "", "COMMAND GETKEYS of a command without keys") \
	X(KEYS_ARITY, "ERR Invalid number of arguments specified for command", "", \
	  "COMMAND GETKEYS of a request with too few or too many arguments") \
	X(KEYS_LONG, "ERR the keys are too long for a reply", "", "the reply to COMMAND GETKEYS would exceed 32 KiB") \
	X(HELP_TOPIC, "ERR unknown help topic '", "<word>': use a command, or ERRORS", "the argument of HELP or WEIR.HELP is not a command")
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
