/*
 * places.c - names the folders that segments may lie in. See places.h.
 */
#define _GNU_SOURCE
#include "segment/places.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "segment/segment.h"
#include "segment/text.h"

#define USER_DIGITS_MAX 20u

/* "FOLDER" + "REST" without slashes at the end, which would make a last symbolic link be followed. To be freed. */
static char *join(const char *folder, const char *rest)
{
    size_t first = strlen(folder), second = strlen(rest), length = first + second;
    char *path = malloc(length + 1);
    if (!path)
        return NULL;
    memcpy(path, folder, first);
    memcpy(path + first, rest, second + 1);
    while (length > 1 && path[length - 1] == '/')
        path[--length] = '\0';
    return path;
}

/* Everything before the last slash, without slashes at its end; "/" for what lies there. To be freed. */
static char *parent_of(const char *folder)
{
    const char *slash = strrchr(folder, '/');
    char *parent = strndup(folder, slash && slash > folder ? (size_t)(slash - folder) : 1);
    for (size_t length = parent ? strlen(parent) : 0; length > 1 && parent[length - 1] == '/';)
        parent[--length] = '\0';
    return parent;
}

static bool is_listed(const struct state_places *places, const char *folder)
{
    for (unsigned int i = 0; i < places->count; i++)
        if (strcmp(places->at[i].folder, folder) == 0)
            return true;
    return false;
}

/* Takes `folder`, which was allocated; NULL: there was no memory. */
static bool add(struct state_places *places, char *folder, enum place_parent kind)
{
    if (!folder)
        return false;
    if (is_listed(places, folder)) {
        free(folder);
        return true;
    }
    struct state_place *place = &places->at[places->count];
    *place = (struct state_place){.folder = folder, .parent = parent_of(folder), .kind = kind};
    if (!place->parent) {
        free(folder);
        return false;
    }
    places->count++;
    return true;
}

bool state_place_named(const char *folder, struct state_places *places)
{
    places->count = 0;
    if (folder[0] == '/')
        return add(places, join(folder, ""), PARENT_IS_MADE);
    /* The program may go to another folder later; the segments stay where they are. */
    char *here = getcwd(NULL, 0), *slashed = here ? join(strcmp(here, "/") == 0 ? "" : here, "/x") : NULL;
    char *path = NULL;
    if (slashed) {
        slashed[strlen(slashed) - 1] = '\0';
        path = join(slashed, folder);
    }
    free(here);
    free(slashed);
    return add(places, path, PARENT_IS_MADE);
}

static bool add_for_user(struct state_places *places, const char *before, const char *after, enum place_parent kind)
{
    char number[USER_DIGITS_MAX + 1];
    struct text text;
    text_start(&text, number, sizeof number);
    text_add_unsigned(&text, geteuid());
    char *folder = join(before, number), *whole = folder ? join(folder, after) : NULL;
    free(folder);
    return add(places, whole, kind);
}

bool state_places(const char *(*environment)(const char *name), struct state_places *places)
{
    const char *state = environment("SOCKFUSE_STATE");
    if (state && *state)
        return state_place_named(state, places);
    places->count = 0;
    const char *runtime = environment("XDG_RUNTIME_DIR");
    bool done = geteuid() != 0 || add(places, join("/run/sockfuse", ""), PARENT_IS_THERE);
    /* A relative one is void, by the XDG base directory specification. */
    if (done && runtime && *runtime == '/') {
        char *cleaned = join(runtime, "");
        done = cleaned && add(places, join(strcmp(cleaned, "/") == 0 ? "" : cleaned, "/sockfuse"), PARENT_IS_OWN);
        free(cleaned);
    }
    done = done && add_for_user(places, "/run/user/", "/sockfuse", PARENT_IS_OWN) &&
           add_for_user(places, "/dev/shm/sockfuse-", "", PARENT_IS_THERE) &&
           add_for_user(places, "/tmp/sockfuse-", "", PARENT_IS_THERE);
    if (!done)
        state_places_free(places);
    return done;
}

bool state_places_name(struct state_places *places, const char *identity)
{
    char *path = malloc(PATH_MAX);
    bool done = path != NULL;
    for (unsigned int i = 0; i < places->count && done; i++) {
        struct state_place *place = &places->at[i];
        free(place->segment);
        place->segment = segment_path(place->folder, identity, path, PATH_MAX) ? strdup(path) : NULL;
        done = place->segment != NULL;
    }
    free(path);
    return done;
}

void state_places_free(struct state_places *places)
{
    while (places->count > 0) {
        places->count--;
        free(places->at[places->count].folder);
        free(places->at[places->count].segment);
        free(places->at[places->count].parent);
    }
}
