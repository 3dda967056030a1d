/*
 * resolve.h - the addresses of the names that a policy spells out, for programs with a resolver of their own.
 *
 * For `run`: the library sees what libc resolves for the program, but not what c-ares, say, asks the name servers
 * itself; so it is told beforehand what the names mean now. Names that do not resolve in time are left out.
 */
#ifndef SOCKFUSE_CLI_RESOLVE_H
#define SOCKFUSE_CLI_RESOLVE_H

#include "policy/policy.h"

/*
 * All of them together, within a second: "name=address,address name=address", as the library reads it in
 * SOCKFUSE_NAMES. To be freed; NULL when there is nothing to tell. Nothing of the search is left behind: no process, no
 * thread, no descriptor, no signal.
 */
char *resolve_names(const struct policy *policy);

#endif
