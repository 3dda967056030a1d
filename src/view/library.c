/*
 * library.c - where libsockfuse.so is, and how a program is made to load it.
 *
 * See library.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "view/installed.h"
#include "view/library.h"
#include "view/output.h"

static const char file_name[] = "libsockfuse.so";
/* The loader splits LD_PRELOAD at these and knows no way to quote them: ld.so(8). */
static const char separators[] = ": ";

void library_own_folder(char *folder, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", folder, size - 1);
    folder[length > 0 ? length : 0] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash != NULL)
        *slash = '\0';
}

static bool try_place(struct library *library, const char *folder, const char *below)
{
    char *path = format_text("%s%s/%s", folder, below, file_name);
    bool found = realpath(path, library->path) != NULL;
    free(path);
    return found;
}

bool library_find(struct library *library)
{
    char folder[PATH_MAX];
    *library = (struct library){0};
    library_own_folder(folder, sizeof folder);
    if (!try_place(library, folder, "") && !try_place(library, folder, "/../lib/sockfuse") &&
        !try_place(library, installed_libdir, "")) {
        warnx("%s is neither in %s nor in %s; build it with make, or install it with make install", file_name, folder,
              installed_libdir);
        return false;
    }
    int descriptor = open(library->path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        warn("%s can't be read; make it readable for this user", library->path);
        return false;
    }
    elf_examine(descriptor, &library->elf);
    close(descriptor);
    if (!library->elf.is_elf) {
        warnx("%s is no shared library; build it again with make", library->path);
        return false;
    }
    if (library->path[strcspn(library->path, separators)] != '\0') {
        warnx("%s: the loader can't be told of a path with a blank or a colon in it; move sockfuse to another folder, "
              "or install it with make install",
              library->path);
        return false;
    }
    return true;
}

/* Appends to `list` the entries of `preload` that are no libsockfuse.so. */
static void append_others(char *list, const char *preload)
{
    for (const char *at = preload; at != NULL && *at != '\0';) {
        size_t length = strcspn(at, separators), tail = strlen(file_name);
        bool ours = length >= tail && strncmp(at + length - tail, file_name, tail) == 0 &&
                    (length == tail || at[length - tail - 1] == '/');
        if (length > 0 && !ours) {
            if (*list != '\0')
                strcat(list, ":");
            strncat(list, at, length);
        }
        at += length + (at[length] != '\0');
    }
}

static bool fits(const struct elf_facts *library, const struct elf_facts *program)
{
    return library->is_elf && library->bits == program->bits && library->is_musl == program->is_musl;
}

void library_take_fitting(struct library *library, const struct elf_facts *program)
{
    struct library other = {0};
    if (!program->is_elf || fits(&library->elf, program))
        return;
    char *path = format_text("%.*s%s/%s", (int)(strrchr(library->path, '/') - library->path + 1), library->path,
                             program->is_musl ? "musl" : "32", file_name);
    int descriptor = realpath(path, other.path) != NULL ? open(other.path, O_RDONLY | O_CLOEXEC) : -1;
    free(path);
    if (descriptor < 0)
        return;
    elf_examine(descriptor, &other.elf);
    close(descriptor);
    if (fits(&other.elf, program) && other.path[strcspn(other.path, separators)] == '\0')
        *library = other;
}

char *library_preloaded(const struct library *library, const char *preload)
{
    char *list = allocate(strlen(library->path) + (preload != NULL ? strlen(preload) : 0) + 2, 1);
    strcpy(list, library->path);
    append_others(list, preload);
    return list;
}

char *library_removed(const char *preload)
{
    char *list = allocate((preload != NULL ? strlen(preload) : 0) + 2, 1);
    append_others(list, preload);
    return list;
}

static bool names_asan(const char *preload)
{
    for (const char *at = preload; *at != '\0';) {
        size_t length = strcspn(at, separators);
        const char *name = memrchr(at, '/', length);
        if (elf_is_asan(name != NULL ? name + 1 : at))
            return true;
        at += length + (at[length] != '\0');
    }
    return false;
}

char *library_asan_options(const struct elf_facts *program, const char *preload, const char *options)
{
    static const char option[] = "verify_asan_link_order";
    if ((!program->needs_asan && !names_asan(preload)) || (options != NULL && strstr(options, option) != NULL))
        return NULL;
    bool alone = options == NULL || options[0] == '\0';
    return format_text("%s%s%s=0", alone ? "" : options, alone ? "" : ":", option);
}
