/*
 * library.h - where libsockfuse.so is, and how a program is made to load it.
 *
 * For `run`. Asks the file system; changes nothing but the environment it is told to change.
 */
#ifndef SOCKFUSE_VIEW_LIBRARY_H
#define SOCKFUSE_VIEW_LIBRARY_H

#include <limits.h>
#include <stdbool.h>

#include "view/elf.h"

struct library {
    char path[PATH_MAX]; /* absolute */
    struct elf_facts elf;
};

/*
 * Finds the library: beside this command's own file, in ../lib/sockfuse from there, or where it is installed. False,
 * after a message with the places and the remedy: it is missing, unreadable, no ELF file, or its path can't stand in
 * LD_PRELOAD.
 */
bool library_find(struct library *library);

/*
 * Takes the library that fits the program instead: for the other word size the one that make lib32 leaves in the folder
 * `32` beside that for this machine, for musl that of make musl in `musl`. Nothing changes where there is none that can
 * be used.
 */
void library_take_fitting(struct library *library, const struct elf_facts *program);

/* `preload` (LD_PRELOAD as it is, or NULL) with the library before everything else, and only once. To be freed. */
char *library_preloaded(const struct library *library, const char *preload);

/* `preload` without any libsockfuse.so; "" if nothing is left. To be freed. */
char *library_removed(const char *preload);

/*
 * AddressSanitizer's runtime refuses to run unless it is the first of all libraries, though it works behind ours as
 * well. What ASAN_OPTIONS must be (`options`, or NULL, as it is) where the program asks for that runtime or `preload`
 * names it; to be freed. NULL: as it is, for neither is so, or it speaks of the order itself.
 */
char *library_asan_options(const struct elf_facts *program, const char *preload, const char *options);

/* The folder of this command's own file, without the slash at its end; "" if it can't be told. */
void library_own_folder(char *folder, size_t size);

#endif
