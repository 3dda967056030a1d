/*
 * unusable.h - segments that a command found and can't read: damaged, closed to it, of another boot, of another build.
 *
 * None is left out in silence. What is certainly over (of another boot; of another build, and nobody has it mapped) is
 * no failure; whatever else can't be read may hold a circuit that the command should have shown or changed.
 */
#ifndef SOCKFUSE_VIEW_UNUSABLE_H
#define SOCKFUSE_VIEW_UNUSABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "view/json.h"
#include "view/mappers.h"
#include "segment/peek.h"

struct unusable {
    char *path;
    char *why;     /* why it can't be used, with its path, on one line */
    bool was_read; /* what follows is known */
    struct peek peek;
    struct mappers users; /* of another build's: who has it mapped */
};

struct unusables {
    struct unusable *at;
    size_t count;
};

/*
 * Looks into a segment that could not be opened in that folder (a descriptor), and adds it: `why` is the error;
 * `is_strange`: it is not the caller's own. NULL: it is gone meanwhile, or was added before. The place moves with the
 * next one that is added.
 */
struct unusable *unusable_add(struct unusables *unusables, int folder, const char *path, bool is_strange,
                              const char *why);
/* Takes the last one back: it is another policy's than is asked for. */
void unusable_drop(struct unusables *unusables);
void unusables_free(struct unusables *unusables);

/* Whether it is over for certain, so that nothing is missed. */
bool unusable_is_over(const struct unusable *unusable);
/* How many are not. */
size_t unusables_missed(const struct unusables *unusables);

/* Whose circuits they are, if that is known; else NULL. */
const char *unusable_identity(const struct unusable *unusable);

/* " (user NAME)" if it is another user's than the caller's, else ""; safe to print, to be freed. */
char *unusable_whose(const struct unusable *unusable);

/* What it is and what to do, on one line, as a warning; nothing of what is over. */
void unusable_warn(const struct unusable *unusable);
/* The same for `status`, for people and as an object. Not for what nothing is known of: that is warned of. */
void unusable_print(const struct unusable *unusable);
void unusable_json(struct json *json, const struct unusable *unusable);

#endif
