/* protocol.h: the protocols that the server speaks. Counters, settings and log lines are by protocol. */
#ifndef WEIR_OBSERVE_PROTOCOL_H
#define WEIR_OBSERVE_PROTOCOL_H

enum weir__protocol { WEIR__PROTOCOL_RESP, WEIR__PROTOCOL_HTTP, WEIR__PROTOCOLS };

#endif
