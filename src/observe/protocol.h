/* protocol.h: the protocols that the server speaks. Counters, settings and log lines are by protocol. */
#ifndef WEIR_OBSERVE_PROTOCOL_H
#define WEIR_OBSERVE_PROTOCOL_H

/* HTTP is HTTP/1.1. HTTP/2 has gRPC, too. */
enum weir__protocol { WEIR__PROTOCOL_RESP, WEIR__PROTOCOL_HTTP, WEIR__PROTOCOL_HTTP2, WEIR__PROTOCOLS };

/* Its name in settings, metrics and log lines. */
static inline const char *weir__protocol_word(enum weir__protocol protocol)
{
	static const char *const words[WEIR__PROTOCOLS] = {
		[WEIR__PROTOCOL_RESP] = "resp", [WEIR__PROTOCOL_HTTP] = "http", [WEIR__PROTOCOL_HTTP2] = "http2"
	};

	return words[protocol];
}

#endif
