/*
 * discovery.h - says which policy file a program would get, and why: every place where it is looked for, in order.
 *
 * For `check --for`. The search itself is policy/discover.h; this only tells of it.
 */
#ifndef SOCKFUSE_CLI_DISCOVERY_H
#define SOCKFUSE_CLI_DISCOVERY_H

/*
 * Writes to stdout under which names `command` is known and what each place holds, with the environment as it is here
 * and now, and warns if the program can't be guarded. Returns the file that it would get (to be freed), NULL if none.
 */
char *discovery_explain(const char *command);

#endif
