/*
 * host_program.h - by which names the host program is known, and so which policy it gets without `sockfuse run`.
 *
 * For startup.c's constructor alone: it asks the file system, but allocates nothing and keeps no descriptor.
 */
#ifndef SOCKFUSE_PRELOAD_HOST_PROGRAM_H
#define SOCKFUSE_PRELOAD_HOST_PROGRAM_H

#include "policy/discover.h"

/* argv[0] without folders, and without the `-` that marks a login shell. */
const char *program_name(void);

/*
 * What main is called with, as it stands in memory, for who is not told: (argc, argv), or 0 and no arguments where the
 * environment is not the one that the kernel made any more.
 */
int program_arguments(char ***argv);

/*
 * The program's name for people, the most telling one by which its policy could be found: of a script its own, not its
 * interpreter's. It points into argv or the auxiliary vector. Looks at the file system: for a script two stat(2), for
 * an interpreter also at what it is about to read.
 */
const char *program_known_as(int argc, char *const *argv);

/*
 * Finds this program's policy file, by its names from the most telling to the least:
 *
 *   script      started through its first line (`#!`): the kernel tells by AT_EXECFN. With `#!/usr/bin/env PROG` the
 *               kernel has forgotten it when PROG starts, but then the script is PROG's first argument that is no
 *               option
 *   argv[0]     which for a script is the interpreter; whoever renames a program (exec -a) means it
 *   executable  the name of the file that was executed, if the program was renamed
 *
 * /proc/PID/comm is not asked: a program may change it at any time. `found->name` points into argv or the auxiliary
 * vector. False: there is none.
 */
bool program_discover(int argc, char *const *argv, const char *(*environment)(const char *name),
                      struct discovery *found);

#endif
