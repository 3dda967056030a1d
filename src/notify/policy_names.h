/*
 * policy_names.h - under which of the policy's names an address is known. Private to src/notify.
 *
 * The program's own resolver is not seen from outside, so the names that the policy spells out are resolved for it.
 */
#ifndef SOCKFUSE_NOTIFY_POLICY_NAMES_H
#define SOCKFUSE_NOTIFY_POLICY_NAMES_H

#include <stddef.h>

#include "policy/endpoint.h"

#define NAMES_OF_ADDRESS 4u

/* Reads "name=address,address name=address"; the text stays in use. NULL: none. */
void policy_names_read(char *text);
/* The names of an address; returns how many. */
size_t policy_names_of(const struct endpoint *endpoint, const char *names[NAMES_OF_ADDRESS]);

#endif
