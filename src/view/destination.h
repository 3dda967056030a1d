/*
 * destination.h - a destination as people write it on the command line: HOST:PORT, ADDRESS:PORT, [V6]:PORT, unix:/PATH.
 */
#ifndef SOCKFUSE_VIEW_DESTINATION_H
#define SOCKFUSE_VIEW_DESTINATION_H

#include <stdbool.h>

#include "policy/endpoint.h"

#define DESTINATION_WHY_MAX 300

struct destination {
    struct endpoint endpoint;   /* of a host's name: family NONE, and the port */
    char *name;                 /* the host; NULL: an address or a path */
    char text[DESTINATION_MAX]; /* as circuits are called */
};

/* False: it is none, or more than one; `why` says why not. Free it with destination_free in either case. */
bool destination_read(struct destination *destination, const char *text, char why[DESTINATION_WHY_MAX]);
void destination_free(struct destination *destination);

#endif
