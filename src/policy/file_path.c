/*
 * file_path.c - by which path a policy's file is known. See file_path.h.
 */
#define _GNU_SOURCE
#include "policy/file_path.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/span.h"
#include "policy/identity.h"

static bool are_one_file(const char *one, const char *other)
{
    struct stat first, second;
    return stat(one, &first) == 0 && stat(other, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

static bool is_clean(const char *path)
{
    while (*path == '/') {
        const char *name = path + 1;
        const size_t length = span_until(name, "/");
        if (length == 0 || (length <= 2 && strncmp(name, "..", length) == 0))
            return false;
        path = name + length;
    }
    return true;
}

/* As the user's shell calls it, who may have come here through a link (`pwd -L`); else as the kernel does. */
static char *working_folder(void)
{
    const char *named = secure_getenv("PWD");
    if (named != NULL && named[0] == '/' && is_clean(named) && are_one_file(named, "."))
        return strdup(named);
    return getcwd(NULL, 0);
}

char *policy_file_path(const char *name)
{
    char *folder = name[0] == '/' ? strdup("") : working_folder();
    char *path = folder != NULL ? malloc(strlen(folder) + strlen(name) + 2) : NULL;
    if (path != NULL)
        strcpy(stpcpy(stpcpy(path, folder), "/"), name);
    free(folder);
    char *cleaned = path != NULL ? strdup(path) : NULL;
    if (cleaned == NULL) {
        free(path);
        return NULL;
    }
    path_clean(cleaned, true);
    path_clean(path, false);
    /* Behind a link to a folder ".." leads elsewhere. */
    if (strcmp(path, cleaned) != 0 && access(path, F_OK) == 0 && !are_one_file(path, cleaned)) {
        free(cleaned);
        return path;
    }
    free(path);
    return cleaned;
}
