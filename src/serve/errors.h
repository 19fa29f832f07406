/* errors.h: every error that a request can be answered with, in one list: what is said, and when. HELP ERRORS and the
 * documentation are made of it.
 *
 * An error begins with its code, as with Redis: programs look at that, people at the rest. Where a detail follows, the row
 * says in brackets what it is. */
#ifndef WEIR_SERVE_ERRORS_H
#define WEIR_SERVE_ERRORS_H

#include <stddef.h>

/* name, what is said, what follows it, when */
/* clang-format off */
#define WEIR__SAID_ERRORS(X)                                                                                           \
	X(PROTOCOL, "ERR Protocol error: ", "<what>", "the bytes are no RESP; the connection is closed")               \
	X(UNKNOWN, "ERR unknown command '", "<name>', with args beginning with: <arguments>", "no command has this name") \
	X(ARITY, "ERR wrong number of arguments for '", "<name>' command", "there are too few arguments, or too many") \
	X(ANSWER_LONG, "ERR the answer would be too long: ask for less at once", "", "as by COMMAND DOCS for many commands") \
	X(SUBCOMMAND, "ERR unknown subcommand '", "<name>'. Try <command> HELP.", "the command has no such part")      \
	X(LIMIT_TEXT, "ERR the limit: ", "<why, and what would be right>", "the text is no limit")                     \
	X(LIMIT, "ERR ", "<why>", "the limit cannot be, or not in this table")                                         \
	X(KEY, "ERR the key: ", "<the key> is none of <limit>, whose keys are made of <attributes>, as in <example>",          \
	  "a limit of the policy is named, and this is no key of it")                                                  \
	X(COST, "ERR a cost is a whole number, 0 to 9223372036854775807", "", "a cost is none, or larger")                  \
	X(TAKE_SYNTAX, "ERR after the limit come a cost, or WAIT and a timeout in ms, or both", "",                    \
	  "the words behind the limit of WEIR.TAKE are others")                                                        \
	X(TIMEOUT, "ERR a timeout is 0 to 86400000 ms", "", "a wait would be longer than a day")                       \
	X(WAIT_STORE, "ERR WAIT is not done with a store: ask without it, and again after retry_after", "",                \
	  "the server decides by a store, and cannot know when others are done")                                       \
	X(WAIT_MULTI, "ERR WAIT is not done within MULTI: the answers of EXEC leave together", "", "a take within MULTI would wait")  \
	X(MULTI_NESTED, "ERR MULTI calls can not be nested", "", "a MULTI comes before EXEC or DISCARD")                        \
	X(MULTI_OTHER, "ERR MULTI keeps commands that decide, and no others", "", "another command comes between MULTI and EXEC") \
	X(MULTI_ROOM, "ERR MULTI keeps at most 440 commands of 64 KiB together", "", "there are more, or there is no memory")      \
	X(MULTI_STORE, "ERR MULTI is not done with a store: send a pipeline without it (redis-py: transaction=False)", "",     \
	  "the server decides by a store; nothing is charged until EXEC or DISCARD")                                        \
	X(EXEC, "ERR EXEC without MULTI", "", "there is nothing to do")                                                          \
	X(DISCARD, "ERR DISCARD without MULTI", "", "there is nothing to forget")                                                \
	X(EXECABORT, "EXECABORT Transaction discarded because of previous errors.", "",                                          \
	  "a command between MULTI and EXEC was refused; nothing was charged")                                                   \
	X(WAITERS, "BUSY too many requests wait already; nothing was charged", "", "4096 requests wait in this worker") \
	X(CLAIMS, "ERR WEIR.ALL takes key, limit and cost, together 1 to 16 times", "", "one of three is missing, or there are more") \
	X(NO_POLICY, "NOPOLICY there is no policy: start weir serve with --policy, or with limits in the file of --config", "", \
	  "a command asks the policy, or names a limit of it")                                                         \
	X(NO_LIMIT, "NOLIMIT the policy has no limit named ", "<name>", "the policy has none, or it is unlimited")    \
	X(ATTRIBUTES, "ERR attributes come as names and values, up to 32 of them", "",                                 \
	  "a name has no value, or there are more")                                                                    \
	X(ATTRIBUTE_TWICE, "ERR an attribute is given twice: ", "<name>", "WEIR.CHECK or WEIR.EXPLAIN cannot tell which value is meant") \
	X(LIMITS_FIRST, "ERR the number of a limit is a whole number, 0 or more", "", "that of WEIR.LIMITS is none")   \
	X(LIVE, "ERR WEIR.LIVE: ", "<what would be right>", "an option of WEIR.LIVE is none, or has no such value")       \
	X(HOLD_ID, "ERR an id has 1 to 64 bytes", "", "the id of a hold is empty or longer")                           \
	X(HOLD_KEY, "ERR the key of a hold has at most 256 bytes", "", "the key of a hold is longer")                  \
	X(HOLD_TIME, "ERR a hold lasts 1 to 86400000 ms", "", "a hold would end at once, or last longer than a day")   \
	X(HOLD_ACTUAL, "ERR the actual cost is a whole number, 0 to 9223372036854775807", "", "what WEIR.SETTLE is told is none")     \
	X(HOLD_OTHER, "HELDOTHER this id holds something else: take another one, or repeat key, limit, cost and time as they were", \
	  "", "a hold is repeated with other arguments; nothing was charged")                                          \
	X(HOLD_SETTLED, "SETTLED this hold was settled with another cost before; nothing was changed", "",             \
	  "a hold that is settled or released is to be settled in another way")                                        \
	X(HOLD_FULL, "BUSY there is no room for another hold until one expires; nothing was charged", "",              \
	  "as many holds are remembered as the server was started for")                                                \
	X(HOLD_BUSY, "BUSY the same is being asked for this id by another connection; ask again", "",                      \
	  "the store has not answered yet who asked first")                                                            \
	X(HOLD_UNKNOWN, "NOHOLD no hold has this id: it was denied or never made, or its time is over", "",            \
	  "there is nothing to settle or release")                                                                     \
	X(CELL_USAGE, "Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]", "", \
	  "CL.THROTTLE has too few arguments, or too many")                                                            \
	X(CELL_NUMBER, "Cell error: Store error: Couldn't parse as integer: ", "<the argument, or 128 bytes of it>",       \
	  "an argument of CL.THROTTLE is no whole number of 64 bits")                                                  \
	X(CELL_ZERO, "Cell error: Store error: Zero rates are not supported", "",                                      \
	  "count or period of CL.THROTTLE is 0 or less, or there are more than one in each ns")                        \
	X(CELL_SPAN, "Cell error: a key would take more than 6671 days to be whole again; lower max_burst or period", "",   \
	  "the numbers of CL.THROTTLE make a limit that no table can have")                                            \
	X(CELL_LIMIT, "Cell error: ", "<why>", "the numbers of CL.THROTTLE make a limit that the store cannot have")     \
	X(THROTTLE_BURST, "ERR invalid max_burst", "", "that of THROTTLE is no whole number of 64 bits")               \
	X(THROTTLE_COUNT, "ERR invalid count_per_period", "", "likewise")                                              \
	X(THROTTLE_PERIOD, "ERR invalid period", "", "likewise")                                                       \
	X(THROTTLE_QUANTITY, "ERR invalid quantity", "", "likewise")                                                   \
	X(THROTTLE_NEGATIVE, "ERR Rate limit check failed: negative quantity: ", "<quantity>", "that of THROTTLE is below 0") \
	X(THROTTLE_PARAMETERS, "ERR Rate limit check failed: invalid rate limit parameters", "",                       \
	  "max_burst, count or period of THROTTLE is 0 or less")                                                       \
	X(THROTTLE_RATE, "ERR more than one in each ns is not supported; lower the count, or raise the period", "",      \
	  "the count of THROTTLE is that large")                                                                       \
	X(THROTTLE_SPAN, "ERR a key would take more than 6671 days to be whole again; lower max_burst or period", "",       \
	  "the numbers of THROTTLE make a limit that no table can have")                                               \
	X(NOAUTH, "NOAUTH Authentication required.", "", "there are users, and the client has not said who it is")      \
	X(NOAUTH_LATE, "NOAUTH Authentication required, and it took too long.", "", "as long as header_time says; the connection is closed") \
	X(NOAUTH_HELLO, "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time", \
	  "", "likewise, of HELLO")                                                                                    \
	X(NOPERM, "NOPERM this user has no permissions to run the '", "<name>' command", "only users with the role admin may") \
	X(WRONGPASS, "WRONGPASS invalid username-password pair or user is disabled.", "", "AUTH or HELLO names no user, or not its password") \
	X(AUTH_NONE, "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?", \
	  "", "there are no users")                                                                                    \
	X(SYNTAX, "ERR syntax error", "", "AUTH has more than a user and a password; CLIENT NO-EVICT is told neither ON nor OFF; COMMAND LIST is filtered by what there is not") \
	X(INFO_OPTION, "ERR Unrecognized option '", "<option>'", "CLIENT SETINFO tells neither LIB-NAME nor LIB-VER") \
	X(INFO_BYTES, "ERR ", "<option> cannot contain spaces, newlines or special characters.", "CLIENT SETINFO tells so") \
	X(CLUSTER, "ERR This instance has cluster support disabled", "", "CLUSTER, READONLY or READWRITE is asked: this is no cluster") \
	X(HELLO_NUMBER, "ERR Protocol version is not an integer or out of range", "", "the version of HELLO is no number") \
	X(HELLO_VERSION, "NOPROTO unsupported protocol version", "", "it is none of 2 and 3")                          \
	X(HELLO_OPTION, "ERR Syntax error in HELLO option '", "<option>'", "HELLO has no such option, or it lacks something") \
	X(NAME_BYTES, "ERR Client names cannot contain spaces, newlines or special characters.", "", "a client names itself so") \
	X(NAME_LENGTH, "ERR Client names have at most 63 bytes.", "", "likewise")                                      \
	X(SELECT_NUMBER, "ERR value is not an integer or out of range", "", "SELECT names no number")                  \
	X(SELECT_RANGE, "ERR DB index is out of range", "", "SELECT names another database than 0")                    \
	X(CONFIG_SET, "ERR settings are changed where weir serve is started", "", "CONFIG SET is asked to")             \
	X(KEYS_COMMAND, "ERR Invalid command specified", "", "COMMAND GETKEYS is asked about no command")              \
	X(KEYS_NONE, "ERR The command has no key arguments", "", "COMMAND GETKEYS is asked about one without")         \
	X(KEYS_ARITY, "ERR Invalid number of arguments specified for command", "",                                     \
	  "COMMAND GETKEYS is asked about a request that would be refused")                                            \
	X(KEYS_LONG, "ERR the keys are too long to be repeated", "", "COMMAND GETKEYS would answer more than 32 KiB")  \
	X(HELP_TOPIC, "ERR HELP knows commands and ERRORS, not '", "<word>'", "there is no such thing to be helped with")
/* clang-format on */

enum weir__said_error {
#define WEIR__SAID_ERROR_ENUM(name, text, detail, when) WEIR__SAY_##name,
	WEIR__SAID_ERRORS(WEIR__SAID_ERROR_ENUM)
#undef WEIR__SAID_ERROR_ENUM
		WEIR__SAID_ERRORS_N
};

struct weir__error_row {
	const char *text, *detail, *when;
};

extern const struct weir__error_row weir__error_rows[WEIR__SAID_ERRORS_N];

#endif
