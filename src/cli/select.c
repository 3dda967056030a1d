/*
 * select.c - which policies' segments a command acts on.
 *
 * See select.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/select.h"
#include "policy/identity.h"

/* --- names --- */

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
    char *text = policy_identity(named->path, (const char *const *)named->patterns,
                                 (const char *const *)named->options, &problems);
    if (text == NULL) {
        print_problems(NULL, &problems);
        exit(EXIT_FAILURE);
    }
    policy_problems_free(&problems);
    if (!identity_read(&read, text))
        err(EXIT_FAILURE, "no memory");
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
        err(EXIT_FAILURE, "no memory");
    const char *file = named->path != NULL || named->patterns != NULL ? named->path : text;
    char *path = file != NULL ? path_of_file(file) : NULL;
    free(named->path);
    named->path = path;
    normalize(named);
    char *identity = policy_identity(named->path, (const char *const *)named->patterns,
                                     (const char *const *)named->options, &problems);
    if (identity == NULL)
        err(EXIT_FAILURE, "no memory");
    return identity;
}

/* --- what belongs to a name --- */

/* What -p asks for. */
struct wanted {
    struct identity named;
    char *real; /* its file's real path, where another name of the file will do; else NULL */
};

struct visit {
    struct selection *selection;
    const struct wanted *wanted; /* NULL: all */
    bool quiet;
};

static bool belongs(const char *text, const struct wanted *wanted)
{
    struct identity identity;
    if (wanted == NULL)
        return true;
    if (!identity_read(&identity, text))
        err(EXIT_FAILURE, "no memory");
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

static bool open_one(const char *path, void *context)
{
    struct visit *visit = context;
    struct selection *selection = visit->selection;
    struct segment_error *error = allocate(1, sizeof *error);
    struct selected *at = reallocarray(selection->at, selection->count + 1, sizeof *at);
    if (at == NULL)
        err(EXIT_FAILURE, "no memory");
    selection->at = at;
    struct selected *selected = &at[selection->count];
    *selected = (struct selected){0};
    if (!segment_open(&selected->segment, path, false, error)) {
        selection->unusable++;
        if (!visit->quiet)
            warnx("%s", error->text);
    } else if (belongs(segment_identity(&selected->segment), visit->wanted)) {
        selected->identity = copy_text(segment_identity(&selected->segment));
        selection->count++;
    } else {
        segment_detach(&selected->segment);
    }
    free(error);
    return true;
}

void find_places(struct state_places *places)
{
    if (!state_places(environment, places))
        errx(EXIT_FAILURE, "the current folder is gone; name SOCKFUSE_STATE by its full path");
}

/* A folder that another user has put in the way is none of ours, and says nothing. */
static bool is_own_folder(const char *folder)
{
    struct stat status;
    return lstat(folder, &status) == 0 && S_ISDIR(status.st_mode) && (status.st_uid == geteuid() || geteuid() == 0);
}

static void open_all(const struct state_place *place, bool only_place, struct visit *visit)
{
    errno = 0;
    if (!only_place && !is_own_folder(place->folder))
        return;
    if (!segment_list(place->folder, open_one, visit) && errno != 0 && errno != ENOENT && errno != ENOTDIR &&
        !visit->quiet)
        warn("%s can't be read; SOCKFUSE_STATE names another folder of circuits", place->folder);
}

static void open_wanted(struct selection *selection, const struct wanted *wanted, bool quiet)
{
    struct visit visit = {selection, wanted, quiet};
    for (unsigned int i = 0; i < selection->places.count; i++)
        open_all(&selection->places.at[i], selection->places.count == 1, &visit);
}

/* A link's policy may be asked for by the file's own name, and the other way round. */
static void open_by_other_name(struct selection *selection, struct wanted *wanted, const char *policy_file, bool quiet)
{
    wanted->real = real_path(wanted->named.path);
    if (wanted->real == NULL)
        return;
    open_wanted(selection, wanted, true);
    for (size_t i = 0; i < selection->count && !quiet; i++)
        warnx("%s is not in use by this name, but as %s", policy_file, selection->at[i].identity);
    free(wanted->real);
    wanted->real = NULL;
}

void select_open(struct selection *selection, const char *policy_file, bool quiet)
{
    struct wanted wanted = {.real = NULL};
    char *identity = policy_file != NULL ? identity_named(policy_file, &wanted.named) : NULL;
    *selection = (struct selection){0};
    find_places(&selection->places);
    open_wanted(selection, identity != NULL ? &wanted : NULL, quiet);
    if (selection->count == 0 && wanted.named.path != NULL)
        open_by_other_name(selection, &wanted, policy_file, quiet);
    if (identity != NULL && selection->count == 0) {
        free(selection->at);
        selection->at = allocate(1, sizeof *selection->at);
        selection->at[0].identity = copy_text(identity);
        selection->count = 1;
    }
    identity_free(&wanted.named);
    free(identity);
}

void select_close(struct selection *selection)
{
    for (size_t i = 0; i < selection->count; i++) {
        if (selection->at[i].segment.map != NULL)
            segment_detach(&selection->at[i].segment);
        free(selection->at[i].identity);
    }
    free(selection->at);
    state_places_free(&selection->places);
    *selection = (struct selection){0};
}

static bool found_one(const char *path, void *context)
{
    (void)path;
    *(bool *)context = true;
    return false;
}

bool anything_in_use(void)
{
    struct state_places places;
    bool found = false;
    find_places(&places);
    for (unsigned int i = 0; i < places.count && !found; i++)
        if (places.count == 1 || is_own_folder(places.at[i].folder))
            segment_list(places.at[i].folder, found_one, &found);
    state_places_free(&places);
    return found;
}

void tell_nothing_in_use(const struct selection *selection, FILE *out)
{
    fprintf(out, "No policy is in use: there are no circuits in ");
    for (unsigned int i = 0; i < selection->places.count; i++)
        fprintf(out, "%s%s", i == 0 ? "" : i + 1 == selection->places.count ? " or " : ", ",
                shown(selection->places.at[i].folder));
    fprintf(out, "%s.\n", selection->unusable > 0 ? " that could be read" : "");
    fprintf(out, "Start a program under one: sockfuse run -p FILE -- CMD, or sockfuse run -t HOST:PORT -- CMD\n");
}

struct policy *policy_of_identity(const char *identity, char **why)
{
    struct policy_problems problems = {0};
    struct policy *policy = policy_load_identity(identity, &problems);
    *why = NULL;
    for (size_t i = 0; policy == NULL && i < problems.count && *why == NULL; i++) {
        if (problems.at[i].is_error && problems.at[i].line > 0)
            *why = format_text("line %u: %s", problems.at[i].line, problems.at[i].text);
        else if (problems.at[i].is_error)
            *why = copy_text(problems.at[i].text);
    }
    if (policy == NULL && *why == NULL)
        *why = copy_text("it can't be read");
    policy_problems_free(&problems);
    return policy;
}
