/*
 * select.c - which policies' segments a command acts on.
 *
 * See select.h.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "view/output.h"
#include "view/policy_wanted.h"
#include "view/rights.h"
#include "view/select.h"
#include "view/truncation.h"

/* Together with the bounds of homes.c: so many segments of others are mapped at the most. */
#define OTHERS_MAX 4096u
#define UNUSABLES_MAX 256u

struct visit {
    struct selection *selection;
    const struct whose *choice;
    const struct wanted *wanted; /* of -p, or NULL */
    bool quiet;
};

/* Another user's file is looked at with that user's rights. */
static bool is_wanted(const struct visit *visit, const char *identity, uid_t owner)
{
    const struct wanted *wanted = visit->wanted;
    if (wanted == NULL)
        return true;
    const bool takes_rights = owner != geteuid() && wanted->real != NULL;
    if (takes_rights && !rights_take(owner))
        return false;
    const bool is_one = wanted_has(wanted, identity);
    if (takes_rights)
        rights_return();
    return is_one;
}

static bool is_of_another_build(const struct unusable *unusable)
{
    return unusable->was_read && unusable->peek.kind == PEEK_OTHER_LAYOUT;
}

static void note_unusable(struct visit *visit, int folder, const struct home *home, const char *path, const char *why)
{
    const bool is_strange = home->user != geteuid() || (home->is_named && geteuid() == 0);
    /* Who uses another build's is looked for among all processes, each time. */
    if (is_strange && visit->selection->unusables.count >= UNUSABLES_MAX) {
        visit->selection->homes.is_cut = true;
        return;
    }
    struct unusable *unusable = unusable_add(&visit->selection->unusables, folder, path, is_strange, why);
    if (unusable == NULL)
        return;
    const char *identity = unusable_identity(unusable);
    const uid_t owner = unusable->was_read ? unusable->peek.owner : home->user;
    if (!whose_has(visit->choice, owner) || (identity != NULL && !is_wanted(visit, identity, owner)))
        unusable_drop(&visit->selection->unusables);
    else if (!visit->quiet && !is_of_another_build(unusable))
        unusable_warn(unusable);
}

bool select_missed(const struct selection *selection)
{
    return selection->unreadable > 0 || unusables_missed(&selection->unusables) > 0;
}

void select_warn_of_builds(const struct selection *selection)
{
    for (size_t i = 0; i < selection->unusables.count; i++)
        if (is_of_another_build(&selection->unusables.at[i]))
            unusable_warn(&selection->unusables.at[i]);
}

static char *name_of_user(uid_t uid)
{
    const struct passwd *entry = getpwuid(uid);
    return entry != NULL && entry->pw_name[0] != '\0' ? copy_text(entry->pw_name) : format_text("%u", uid);
}

/* Where there are others' too, each says whose it is; where there are several policies, which it is. */
static void tell_apart(struct selection *selection)
{
    bool any = false, several = false;
    for (size_t i = 0; i < selection->count; i++) {
        any = any || selection->at[i].is_foreign;
        several = several || strcmp(selection->at[i].identity, selection->at[0].identity) != 0;
    }
    for (size_t i = 0; i < selection->count; i++) {
        struct selected *selected = &selection->at[i];
        selected->user = name_of_user(selected->uid);
        char *text = any ? format_text(" (user %s)", selected->user) : copy_text("");
        selected->whose = printable(text);
        free(text);
        text = several ? format_text(" under %s", selected->identity) : copy_text("");
        char *policy = printable(text);
        selected->which = format_text("%s%s", policy, selected->whose);
        free(policy);
        free(text);
    }
}

/* A policy stands beside its experiments, whatever their files are called. */
static int compare(const void *a, const void *b)
{
    const struct selected *left = a, *right = b;
    if (left->is_foreign != right->is_foreign)
        return left->is_foreign ? 1 : -1;
    const int users = left->is_foreign ? strcmp(left->user, right->user) : 0;
    if (users != 0)
        return users;
    const int identities = strcmp(left->identity, right->identity);
    return identities != 0 ? identities : strcmp(left->segment.path, right->segment.path);
}

static struct selected *add_one(struct selection *selection)
{
    selection->at = grow(selection->at, selection->count, sizeof *selection->at);
    selection->at[selection->count] = (struct selected){.uid = geteuid()};
    return &selection->at[selection->count];
}

static void open_one(int folder, const struct home *home, const char *name, struct visit *visit)
{
    struct selection *selection = visit->selection;
    struct segment_error *error = allocate(1, sizeof *error);
    struct selected *selected = add_one(selection);
    if (home->user != geteuid() && selection->others >= OTHERS_MAX) {
        selection->homes.is_cut = true;
        free(error);
        return;
    }
    char *path = format_text("%s/%s", strcmp(home->path, "/") == 0 ? "" : home->path, name);
    uint32_t owner = home->is_named && geteuid() == 0 ? SEGMENT_OF_ANYBODY : home->user;
    bool opened = segment_open_at(&selected->segment, folder, path, &owner, false, error);
    if (!opened)
        note_unusable(visit, folder, home, path, error->text);
    free(path);
    if (!opened) {
        free(error);
        return;
    }
    free(error);
    cut_watch(selected->segment.map, selected->segment.size);
    selected->identity = segment_copy_identity(&selected->segment);
    if (selected->identity == NULL)
        no_memory();
    const bool was_cut = cut_happened();
    if (was_cut)
        note_unusable(visit, folder, home, selected->segment.path, "it is being cut short");
    if (!was_cut && whose_has(visit->choice, owner) && is_wanted(visit, selected->identity, owner)) {
        selected->uid = owner;
        selected->is_foreign = owner != geteuid();
        selected->home = *home;
        selected->home.user = owner;
        selection->others += selected->is_foreign;
        selection->count++;
        return;
    }
    select_detach(&selected->segment);
    free(selected->identity);
}

void find_places(struct state_places *places)
{
    if (!state_places(environment, places))
        errx(EXIT_FAILURE, "the current folder is gone; name SOCKFUSE_STATE by its full path");
}

static bool looks_at_all(const struct whose *choice)
{
    return geteuid() == 0 && !choice->mine;
}

/* The segments of one folder. */
static void open_all(const struct home *home, struct visit *visit)
{
    struct names names;
    int folder = home_open(home);
    bool readable = folder >= 0 || errno == 0;
    if (folder >= 0) {
        readable = home_list(folder, home, &names);
        for (size_t i = 0; i < names.count; i++)
            open_one(folder, home, names.at[i], visit);
        if (names.is_cut && !visit->quiet)
            warnx("%s: there are more segments than are looked at", home->path);
        names_free(&names);
        int code = errno;
        close(folder);
        errno = code;
    }
    if (readable)
        return;
    visit->selection->unreadable++;
    if (!visit->quiet)
        warnx("%s can't be read: %s; SOCKFUSE_STATE can name another folder of circuits", home->path, strerror(errno));
}

static void open_wanted(struct selection *selection, const struct whose *choice, const struct wanted *wanted,
                        bool quiet)
{
    struct visit visit = {selection, choice, wanted, quiet};
    for (size_t i = 0; i < selection->homes.count; i++)
        if (selection->homes.at[i].is_named || whose_has(choice, selection->homes.at[i].user))
            open_all(&selection->homes.at[i], &visit);
}

/* A link's policy may be asked for by the file's own name, and the other way round. */
static void open_by_other_name(struct selection *selection, const struct whose *choice, struct wanted *wanted,
                               bool quiet)
{
    const size_t unreadable = selection->unreadable;
    if (!wanted_take_other_names(wanted))
        return;
    open_wanted(selection, choice, wanted, true);
    selection->unreadable = unreadable; /* they were counted before */
    for (size_t i = 0; i < selection->count && !quiet; i++)
        warnx("%s is not in use by this name, but as %s", choice->policy_file, selection->at[i].identity);
}

void select_open(struct selection *selection, const struct whose *choice, bool quiet)
{
    struct wanted wanted = {.real = NULL};
    const bool any = choice->policy_file == NULL;
    cut_survive();
    select_time_begins();
    if (!any)
        wanted_read(&wanted, choice->policy_file);
    *selection = (struct selection){.is_everybody = whose_is_everybody(choice)};
    find_places(&selection->places);
    homes_find(&selection->homes, &selection->places, looks_at_all(choice));
    open_wanted(selection, choice, any ? NULL : &wanted, quiet);
    if (selection->homes.is_cut && !quiet)
        warnx("there are more users' folders than are looked at; --user NAME narrows");
    if (!any && selection->count == 0)
        open_by_other_name(selection, choice, &wanted, quiet);
    if (!any && selection->count == 0 && whose_has(choice, geteuid())) {
        add_one(selection)->identity = copy_text(wanted.identity);
        selection->count = 1;
    }
    tell_apart(selection);
    if (selection->count > 1)
        qsort(selection->at, selection->count, sizeof *selection->at, compare);
    wanted_free(&wanted);
}

void select_close(struct selection *selection)
{
    for (size_t i = 0; i < selection->count; i++) {
        if (selection->at[i].segment.map != NULL)
            select_detach(&selection->at[i].segment);
        free(selection->at[i].identity);
        free(selection->at[i].user);
        free(selection->at[i].whose);
        free(selection->at[i].which);
    }
    free(selection->at);
    homes_free(&selection->homes);
    unusables_free(&selection->unusables);
    state_places_free(&selection->places);
    *selection = (struct selection){0};
}

void select_detach(struct segment *segment)
{
    if (segment->map != NULL)
        cut_unwatch(segment->map);
    segment_detach(segment);
}

bool anything_in_use(void)
{
    const struct whose any = {.policy_file = NULL};
    struct state_places places;
    struct homes homes;
    bool found = false;
    find_places(&places);
    homes_find(&homes, &places, looks_at_all(&any));
    for (size_t i = 0; i < homes.count && !found; i++) {
        int folder = home_open(&homes.at[i]);
        struct names names = {.count = 0};
        if (folder < 0)
            continue;
        home_list(folder, &homes.at[i], &names);
        found = names.count > 0;
        names_free(&names);
        close(folder);
    }
    homes_free(&homes);
    state_places_free(&places);
    return found;
}

void tell_nothing_in_use(const struct selection *selection, FILE *out)
{
    fprintf(out, "No policy is in use: there are no circuits in ");
    for (unsigned int i = 0; i < selection->places.count; i++)
        fprintf(out, "%s%s",
                i == 0                             ? ""
                : i + 1 == selection->places.count ? " or "
                                                   : ", ",
                shown(selection->places.at[i].folder));
    fprintf(out, "%s%s.\n", selection->is_everybody && selection->places.count > 1 ? ", nor in others' folders" : "",
            select_missed(selection) ? " that could be read" : "");
    fprintf(out, "Start a program under one: sockfuse run -p FILE -- CMD, or sockfuse run -t HOST:PORT -- CMD\n");
}
