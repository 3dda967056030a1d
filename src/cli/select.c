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
#include "cli/overrides.h"
#include "cli/select.h"

/* How policy_load builds the identities: see policy.h. */
static const char patterns_mark[] = "patterns: ";
static const char both_mark[] = " + patterns: ";

struct visit {
    struct selection *selection;
    const char *identity; /* of -p, or NULL */
    bool quiet;
};

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Whether a segment belongs to the file of -p: alone, or with targets of -t behind its own. */
static bool belongs(const char *identity, const char *wanted)
{
    if (wanted == NULL)
        return true;
    if (!starts_with(identity, wanted))
        return false;
    const char *rest = identity + strlen(wanted);
    return *rest == '\0' || starts_with(rest, both_mark);
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
    } else if (belongs(segment_identity(&selected->segment), visit->identity)) {
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

void select_open(struct selection *selection, const char *policy_file, bool quiet)
{
    char *identity = policy_file != NULL ? identity_of_file(policy_file) : NULL;
    *selection = (struct selection){0};
    find_places(&selection->places);
    struct visit visit = {selection, identity, quiet};
    for (unsigned int i = 0; i < selection->places.count; i++)
        open_all(&selection->places.at[i], selection->places.count == 1, &visit);
    if (identity != NULL && selection->count == 0) {
        free(selection->at);
        selection->at = allocate(1, sizeof *selection->at);
        selection->at[0].identity = copy_text(identity);
        selection->count = 1;
    }
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

char *identity_of_file(const char *file)
{
    char *path = realpath(file, NULL);
    if (path != NULL)
        return path;
    int error = errno;
    const char *slash = strrchr(file, '/');
    char *folder = slash == NULL ? copy_text(".") : format_text("%.*s/", (int)(slash - file), file);
    char *parent = realpath(folder, NULL);
    free(folder);
    if (parent == NULL) {
        errno = error;
        err(EXIT_FAILURE, "%s: no such policy", file);
    }
    path = format_text("%s/%s", strcmp(parent, "/") == 0 ? "" : parent, slash == NULL ? file : slash + 1);
    free(parent);
    return path;
}

/* Splits at blanks, in place, into a NULL-terminated list. */
static const char **split(char *words)
{
    size_t count = 0;
    const char **list = allocate(strlen(words) / 2 + 2, sizeof *list);
    for (char *place, *word = strtok_r(words, " ", &place); word != NULL; word = strtok_r(NULL, " ", &place))
        list[count++] = word;
    return list;
}

struct policy *policy_load_identity(const char *identity, const char *const *options,
                                    struct policy_problems *problems)
{
    struct policy *policy;
    char *copy = copy_text(identity), *mark = NULL;
    if (starts_with(copy, patterns_mark)) {
        const char **patterns = split(copy + strlen(patterns_mark));
        policy = policy_from_patterns(patterns, options, problems);
        free(patterns);
    } else if (access(copy, F_OK) != 0 && (mark = strstr(copy, both_mark)) != NULL) {
        *mark = '\0';
        const char **patterns = split(mark + strlen(both_mark));
        policy = policy_load_with_patterns(copy, patterns, options, problems);
        free(patterns);
    } else {
        policy = policy_load(copy, options, problems);
    }
    free(copy);
    return policy;
}

struct policy *policy_of_identity(const char *identity, const char *segment_file, char **why)
{
    struct policy_problems problems = {0};
    char **options = segment_file != NULL && segment_file[0] != '\0' ? overrides_recall(segment_file) : NULL;
    struct policy *policy = policy_load_identity(identity, (const char *const *)options, &problems);
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
    overrides_free(options);
    return policy;
}
