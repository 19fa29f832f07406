/* notify.h: tells the service manager that started this process about its state, by systemd's notify protocol. */
#ifndef WEIR_OS_NOTIFY_H
#define WEIR_OS_NOTIFY_H

/* Sends lines such as "READY=1" as one datagram to the socket that the environment names in NOTIFY_SOCKET: a path, or @
 * and a name of the abstract namespace. Without the variable it does nothing. Does not wait. Returns 0 or an errno. */
int weir__notify(const char *lines);

#endif
