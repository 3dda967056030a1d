/*
 * policy_wanted.h - what -p asks for, and which policies' identities that names.
 */
#ifndef SOCKFUSE_VIEW_POLICY_WANTED_H
#define SOCKFUSE_VIEW_POLICY_WANTED_H

#include <stdbool.h>

#include "policy/identity.h"

struct wanted {
    struct identity named;
    char *identity; /* that a run of just this would have */
    char *real;     /* its file's real path, where another name of the file will do; else NULL */
};

/* Takes what -p says apart. What can't be is told of, and ends the command. Free it with wanted_free. */
void wanted_read(struct wanted *wanted, const char *text);
void wanted_free(struct wanted *wanted);

/* From now on another name of the same file will do too. False: there is none. */
bool wanted_take_other_names(struct wanted *wanted);

/* Whether that identity is one that is asked for. Looks at the file that it names, where another name will do. */
bool wanted_has(const struct wanted *wanted, const char *identity);

#endif
