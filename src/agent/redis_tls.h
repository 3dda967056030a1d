/*
 * redis_tls.h - TLS on a connected socket to a Redis, by OpenSSL (view/tls_library.h). hiredis has a TLS of its own from
 * 1.0 on, which waits, belongs to its connections, and does not look whose certificate the server shows; this one does.
 *
 * Nothing here waits: what can't go on now says which event it needs.
 */
#ifndef SOCKFUSE_AGENT_REDIS_TLS_H
#define SOCKFUSE_AGENT_REDIS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "policy/redis_url.h"

struct redis_tls;

enum tls_need { TLS_NOTHING, TLS_READABLE, TLS_WRITABLE };

bool redis_tls_is_possible(const char **why);

/*
 * The server is to show a certificate for the URL's host that the system trusts, or the URL's `ca`. Files are read
 * anew, so that a renewed certificate serves from the next connection on. NULL: `why` says what is wrong.
 */
struct redis_tls *redis_tls_begin(const struct redis_url *url, int fd, char *why, size_t why_size);
void redis_tls_end(struct redis_tls *tls);

/* False: it is over, and `why` says how. `need`: what it waits for; TLS_NOTHING: both know each other. */
bool redis_tls_shake(struct redis_tls *tls, enum tls_need *need, char *why, size_t why_size);

/*
 * As recv and send, with errno; EAGAIN: redis_tls_needs says which event it needs; EPROTO: redis_tls_reason has what the
 * other side, or the library, said of it.
 */
ssize_t redis_tls_recv(struct redis_tls *tls, char *bytes, size_t size);
ssize_t redis_tls_send(struct redis_tls *tls, const char *bytes, size_t count);
enum tls_need redis_tls_needs(const struct redis_tls *tls);
const char *redis_tls_reason(const struct redis_tls *tls);

#endif
