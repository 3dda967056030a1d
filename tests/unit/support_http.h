/*
 * support_http.h - a second reader of HTTP answers, to hold the real one against: slow, obvious, over whole strings.
 *
 * Shares nothing with src/breaker/http.c but its types. Used by the fuzzer too, so without cmocka.
 */
#ifndef SOCKFUSE_TESTS_SUPPORT_HTTP_H
#define SOCKFUSE_TESTS_SUPPORT_HTTP_H

#include <stdbool.h>
#include <stddef.h>

#include "breaker/http.h"

/* What the real reader has to say of these bytes. */
struct slow_http {
    enum http_progress progress;
    struct http_head head; /* HTTP_KNOWN */
    size_t used;           /* HTTP_KNOWN, HTTP_NONE: by so many bytes it is decided */
    enum http_progress if_broken;
    struct http_head broken_head; /* if_broken is HTTP_KNOWN */
};
struct slow_http slow_http(const char *bytes, size_t count);

/*
 * The real reader's result of these bytes, of which the last one decides: HTTP_MORE if they are decided before. They
 * stand at the end of a page behind which nothing may be touched, though it is told that there is more.
 */
enum http_progress read_at_edge(const char *bytes, size_t count, struct http_head *head);

bool same_head(const struct http_head *one, const struct http_head *other);

#endif
