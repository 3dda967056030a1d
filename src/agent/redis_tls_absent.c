/*
 * redis_tls_absent.c - stands for redis_tls.c in a build without OpenSSL's headers. See redis_tls.h.
 */
#include "agent/redis_tls.h"

#include <errno.h>
#include <stdio.h>

#include "view/tls_library.h"

#ifndef SOCKFUSE_TLS

bool redis_tls_is_possible(const char **why)
{
    (void)tls_library(why);
    return false;
}

struct redis_tls *redis_tls_begin(const struct redis_url *url, int fd, char *why, size_t why_size)
{
    const char *missing;

    (void)url, (void)fd, (void)tls_library(&missing);
    snprintf(why, why_size, "%s", missing);
    return NULL;
}

void redis_tls_end(struct redis_tls *tls)
{
    (void)tls;
}

bool redis_tls_shake(struct redis_tls *tls, enum tls_need *need, char *why, size_t why_size)
{
    (void)tls, (void)need, (void)why, (void)why_size;
    return false;
}

ssize_t redis_tls_recv(struct redis_tls *tls, char *bytes, size_t size)
{
    (void)tls, (void)bytes, (void)size;
    errno = ENOSYS;
    return -1;
}

ssize_t redis_tls_send(struct redis_tls *tls, const char *bytes, size_t count)
{
    (void)tls, (void)bytes, (void)count;
    errno = ENOSYS;
    return -1;
}

enum tls_need redis_tls_needs(const struct redis_tls *tls)
{
    (void)tls;
    return TLS_NOTHING;
}

const char *redis_tls_reason(const struct redis_tls *tls)
{
    (void)tls;
    return "";
}

#endif
