/*
 * program.h - what kind of program a command names, and whether the library can guard it.
 *
 * Follows what execvp(3) and the kernel will do: the search along PATH, the interpreters of scripts, the program's
 * ELF headers, the privileges that make the loader ignore LD_PRELOAD. Asks the file system only; starts nothing.
 */
#ifndef SOCKFUSE_CLI_PROGRAM_H
#define SOCKFUSE_CLI_PROGRAM_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "view/elf.h"
#include "policy/discover.h"

struct program {
    char path[PATH_MAX];   /* the file that the command names */
    char binary[PATH_MAX]; /* the file that will really be loaded: the same, or the last interpreter of a script */
    bool is_script;
    bool environment_emptied; /* a script's `env -i` drops what `run` put into the environment */
    bool examined;            /* the binary could be read */
    struct elf_facts elf;
};

/*
 * Finds a command as execvp does. False, with errno as execvp would leave it: ENOENT: not found; EACCES: found, but
 * it can't be executed.
 */
bool program_find(const char *name, char *path, size_t size);
/* Whether a file is there that the caller may execute; false with an errno. */
bool program_is_executable(const char *path);

/* Finds and examines it. False, with errno, when the command itself is not found. */
bool program_examine(const char *name, struct program *program);

/*
 * The names by which discovery knows it, NULL at the end: as preload/host_program.h has them for a program that is
 * started without `run`. A script's own goes before its interpreter's. They point into `command` and `program`.
 */
void program_names(const char *command, const struct program *program, const char *names[PROGRAM_NAMES_MAX]);

/* Whether it gets more than who starts it: nobody but its own user, or root, may look at such a process. */
bool program_is_privileged(const struct program *program);

/*
 * Why the library will not guard its sockets, with a remedy, as one line without a newline (to be freed); NULL when nothing
 * speaks against it. `library` are the headers of libsockfuse.so. `*foreign` is set when the library must not even be
 * offered to the program, since its loader would not skip it but fail.
 */
char *program_warning(const struct program *program, const struct elf_facts *library, bool *foreign);

#endif
