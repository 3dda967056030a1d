/*
 * http_request_model.h - what is kept of a request that is read. See http_request.h.
 */
#ifndef SOCKFUSE_BREAKER_HTTP_REQUEST_MODEL_H
#define SOCKFUSE_BREAKER_HTTP_REQUEST_MODEL_H

#include <stdint.h>

/* All zero at the start of a request. The members are the reader's own. */
struct http_request {
    uint64_t left;  /* bytes of the body, or of the chunk */
    uint32_t bytes; /* of the head so far */
    uint8_t state;
    uint8_t matched; /* bytes of what the state expects */
    uint8_t header;  /* which one is read */
    uint8_t framing; /* what the headers have said of the body */
};
_Static_assert(sizeof(struct http_request) == 16, "a few bytes of state");

#endif
