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

#include "base/ascii.h"
#include "base/hash.h"
#include "base/text.h"
#include "policy/identity.h"
#include "segment/layout.h"
#include "segment/segment_model.h"

#define READABLE_NAME_MAX 32u

/*
 * The hash covers the layout too: two versions that run side by side have a file each and don't replace each other's.
 */
static uint64_t hash_identity(const char *identity)
{
    const uint64_t layout[] = {SEGMENT_VERSION, sizeof(struct segment_header)};
    uint64_t hash = hash_bytes(HASH_BEGIN, identity, strlen(identity));
    return hash_bytes(hash, layout, sizeof layout);
}

/*
 * What people recognise the file by: "payments" of "/etc/payments.policy", "patterns" of "patterns: a b". Of a run with
 * -t or -o it ends with "patterns" or "options", by which removal.c finds it.
 */
static void add_readable_name(struct text *text, const char *identity)
{
    size_t end = identity_path_length(identity);
    const char *slash = end > 0 ? memrchr(identity, '/', end) : NULL;
    const char *name = slash ? slash + 1 : identity;
    size_t length = end > 0 ? (size_t)(identity + end - name) : 0, suffix = strlen(".policy");
    if (length > suffix && strncmp(name + length - suffix, ".policy", suffix) == 0)
        length -= suffix;
    if (length > READABLE_NAME_MAX)
        length = READABLE_NAME_MAX;
    for (size_t at = 0; at < length; at++) {
        char byte = name[at];
        bool plain = ascii_is_letter(byte) || ascii_is_digit(byte) || byte == '-' || (byte == '.' && at > 0);
        text_add_byte(text, plain ? byte : '_');
    }
    if (identity_has_patterns(identity))
        text_add(text, end > 0 ? "-patterns" : "patterns");
    if (identity_has_options(identity))
        text_add(text, "-options");
}

bool segment_is_name(const char *name)
{
    const size_t length = strlen(name), suffix = strlen(SEGMENT_SUFFIX);
    return name[0] != '.' && length > suffix && strcmp(name + length - suffix, SEGMENT_SUFFIX) == 0;
}

bool segment_path(const char *folder, const char *identity, char *path, size_t size)
{
    struct text text;
    text_start(&text, path, size);
    text_add(&text, folder);
    while (text.length > 0 && path[text.length - 1] == '/')
        path[--text.length] = '\0';
    text_add(&text, "/");
    add_readable_name(&text, identity);
    text_add(&text, "-");
    text_add_hex(&text, hash_identity(identity), 16);
    text_add(&text, SEGMENT_SUFFIX);
    return !text.cut;
}

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
