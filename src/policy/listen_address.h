/*
 * listen_address.h - where the agent is to be asked over HTTP, as an administrator writes it: ADDRESS:PORT, [ADDRESS]:PORT,
 * unix:/PATH, or `off`; and the names by which it may be asked.
 *
 * Pure text.
 */
#ifndef SOCKFUSE_POLICY_LISTEN_ADDRESS_H
#define SOCKFUSE_POLICY_LISTEN_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "policy/endpoint.h"

/* `off` is an endpoint of no family. False: `why` says what is expected. */
bool listen_address_parse(struct endpoint *endpoint, const char *text, char *why, size_t why_size);

/* Whether only programs of this host can reach it: 127.0.0.0/8, ::1, a UNIX socket. */
bool listen_address_is_local(const struct endpoint *endpoint);

/* A list of names, parted by blanks, each with or without a port. False: `why` says what is expected. */
bool listen_names_are_good(const char *text, char *why, size_t why_size);

#endif
