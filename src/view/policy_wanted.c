/*
 * policy_wanted.c - what -p asks for, and which identities that names. See policy_wanted.h.
 */
#define _GNU_SOURCE
#include "view/policy_wanted.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "view/output.h"
#include "policy/file_path.h"
#include "policy/policy.h"

/* Of a file, or of what was one in a folder that is still there; to be freed. NULL: there is no such folder. */
static char *real_path(const char *path)
{
    char *real = realpath(path, NULL);
    if (real != NULL)
        return real;
    const char *name = strrchr(path, '/') + 1;
    char *folder = format_text("%.*s", (int)(name - path), path), *parent = realpath(folder, NULL);
    if (parent != NULL)
        real = format_text("%s/%s", strcmp(parent, "/") == 0 ? "" : parent, name);
    free(folder);
    free(parent);
    return real;
}

static char *path_of_file(const char *file)
{
    if (file[0] == '\0')
        errx(EXIT_FAILURE, "-p: the name of a policy's file is expected");
    char *path = policy_file_path(file);
    if (path == NULL)
        err(EXIT_FAILURE, "%s: the working folder is not known", file);
    return path;
}

/* Options in any order and spelling are put as identities have them. */
static void normalize(struct identity *named)
{
    struct policy_problems problems;
    struct identity read;
    char *text = policy_identity(named->path, (const char *const *)named->patterns, (const char *const *)named->options,
                                 &problems);
    if (text == NULL) {
        print_problems(NULL, &problems);
        exit(EXIT_FAILURE);
    }
    policy_problems_free(&problems);
    if (!identity_read(&read, text))
        no_memory();
    free(text);
    /* What was not mentioned may be any; what was mentioned as none is none. */
    if (named->patterns != NULL && read.patterns == NULL)
        read.patterns = allocate(1, sizeof *read.patterns);
    if (named->options != NULL && read.options == NULL)
        read.options = allocate(1, sizeof *read.options);
    identity_free(named);
    *named = read;
}

/* Takes what -p says apart, and returns the identity that a run of just that would have; to be freed. */
static char *identity_named(const char *text, struct identity *named)
{
    struct policy_problems problems;
    *named = (struct identity){0};
    if (access(text, F_OK) != 0 && !identity_read(named, text))
        no_memory();
    const char *file = named->path != NULL || named->patterns != NULL ? named->path : text;
    char *path = file != NULL ? path_of_file(file) : NULL;
    free(named->path);
    named->path = path;
    normalize(named);
    char *identity = policy_identity(named->path, (const char *const *)named->patterns,
                                     (const char *const *)named->options, &problems);
    if (identity == NULL)
        no_memory();
    return identity;
}

void wanted_read(struct wanted *wanted, const char *text)
{
    *wanted = (struct wanted){.real = NULL};
    wanted->identity = identity_named(text, &wanted->named);
}

bool wanted_take_other_names(struct wanted *wanted)
{
    if (wanted->named.path != NULL)
        wanted->real = real_path(wanted->named.path);
    return wanted->real != NULL;
}

void wanted_free(struct wanted *wanted)
{
    identity_free(&wanted->named);
    free(wanted->identity);
    free(wanted->real);
    *wanted = (struct wanted){.real = NULL};
}

bool wanted_has(const struct wanted *wanted, const char *text)
{
    struct identity identity;
    if (wanted == NULL)
        return true;
    if (!identity_read(&identity, text))
        no_memory();
    if (wanted->real != NULL && identity.path != NULL) {
        char *real = real_path(identity.path);
        if (real != NULL && strcmp(real, wanted->real) == 0) {
            free(identity.path);
            identity.path = copy_text(wanted->named.path);
        }
        free(real);
    }
    const bool does = identity_names(&wanted->named, &identity);
    identity_free(&identity);
    return does;
}
