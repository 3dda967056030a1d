/*
 * who.h - who gives a command, for the journal.
 */
#ifndef SOCKFUSE_CLI_WHO_H
#define SOCKFUSE_CLI_WHO_H

#include "segment/event.h"

/*
 * The user's name, cut to fit: of the real user; behind sudo "alice as root". Without a name in the user database
 * "uid 1000".
 */
void who_am_i(char name[PROGRAM_NAME_MAX]);

#endif
