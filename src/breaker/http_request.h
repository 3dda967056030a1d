/*
 * http_request.h - how far a plaintext HTTP/1.x request has come: is it whole, or is more of it to be sent?
 *
 * The wait for an answer begins when its request is complete. The request line tells that it is one; Content-Length,
 * Transfer-Encoding and Expect are read, and the body is followed by its length or its chunks (RFC 9112, 6 and 7). No
 * buffer and 16 bytes of state; the functions are pure: the same bytes in other pieces give the same result. Everybody
 * may call them; async-signal-safe.
 */
#ifndef SOCKFUSE_BREAKER_HTTP_REQUEST_H
#define SOCKFUSE_BREAKER_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "breaker/http_request_model.h"

/* Takes the next `count` bytes that were sent. Those behind the request's end (pipelining) are not looked at. */
void http_request_read(struct http_request *request, const void *bytes, size_t count);
/* The same of bytes that nobody can look at (sendfile, splice): fine in a body of known length, else the end of it. */
void http_request_skip(struct http_request *request, uint64_t count);

/*
 * Whether it is known as a request of HTTP/1.x, of which more is to come. No: it is whole, or none, or not known yet;
 * or it expects `100 Continue`, and the server is to speak next, as long as nothing of the body was sent.
 */
bool http_request_is_open(const struct http_request *request);

/* Whether it is whole, or none: what is sent behind it changes nothing any more. */
bool http_request_is_over(const struct http_request *request);
/* From now on it is so. */
void http_request_end(struct http_request *request);

/*
 * Whether these first bytes of a send need not be read: no request of HTTP/1.x, or a whole one without a body, as far
 * as its end tells. For what a busy client sends.
 */
bool http_request_is_plain(const void *bytes, size_t count);

#endif
