/*
 * cascade_root.c - where a cascade ends, where it goes in a circle, and which part of it has to do with a place.
 *
 * See cascade.h.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "view/cascade.h"
#include "view/output.h"

/* What can be reached from some places, along the waits or against them. */
struct reached {
    bool *groups, *places;
};

static struct reached reach_none(const struct cascade *cascade)
{
    return (struct reached){allocate(cascade->group_count, sizeof(bool)), allocate(cascade->place_count, sizeof(bool))};
}

static void reach_free(struct reached *reached)
{
    free(reached->groups);
    free(reached->places);
}

/* Who waits for the places, and for whom other groups wait that way: until nothing is added. */
static void reach_up(const struct cascade *cascade, struct reached *reached)
{
    for (bool grew = true; grew;) {
        grew = false;
        for (size_t i = 0; i < cascade->wait_count; i++) {
            const struct cascade_wait *wait = &cascade->waits[i];
            if (reached->places[wait->place] && !reached->groups[wait->group])
                grew = reached->groups[wait->group] = true;
        }
        for (size_t i = 0; i < cascade->place_count; i++) {
            const size_t group = cascade->places[i].group;
            if (group != CASCADE_NONE && reached->groups[group] && !reached->places[i])
                grew = reached->places[i] = true;
        }
    }
}

static void reach_down(const struct cascade *cascade, struct reached *reached)
{
    for (bool grew = true; grew;) {
        grew = false;
        for (size_t i = 0; i < cascade->place_count; i++) {
            const size_t group = cascade->places[i].group;
            if (group != CASCADE_NONE && reached->places[i] && !reached->groups[group])
                grew = reached->groups[group] = true;
        }
        for (size_t i = 0; i < cascade->wait_count; i++) {
            const struct cascade_wait *wait = &cascade->waits[i];
            if (reached->groups[wait->group] && !reached->places[wait->place])
                grew = reached->places[wait->place] = true;
        }
    }
}

/* --- the root ----------------------------------------------------------------------------------------------------- */

bool cascade_waits(const struct cascade *cascade, size_t group)
{
    for (size_t i = 0; i < cascade->wait_count; i++)
        if (cascade->waits[i].group == group)
            return true;
    return false;
}

bool cascade_is_waited_for(const struct cascade *cascade, size_t place)
{
    for (size_t i = 0; i < cascade->wait_count; i++)
        if (cascade->waits[i].place == place)
            return true;
    return false;
}

/* All that wait for a place, straight or through others. */
static struct cascade_sum sum_of(const struct cascade *cascade, size_t place, size_t *programs)
{
    struct reached reached = reach_none(cascade);
    struct cascade_sum sum = {.calls = 0};
    reached.places[place] = true;
    reach_up(cascade, &reached);
    *programs = 0;
    for (size_t i = 0; i < cascade->wait_count; i++)
        if (reached.places[cascade->waits[i].place])
            cascade_add(&sum, &cascade->waits[i].sum);
    for (size_t i = 0; i < cascade->group_count; i++)
        *programs += reached.groups[i];
    reach_free(&reached);
    return sum;
}

void cascade_find_root(struct cascade *cascade)
{
    size_t roots = 0;
    cascade->root = CASCADE_NONE;
    for (size_t i = 0; i < cascade->place_count; i++) {
        const size_t group = cascade->places[i].group;
        if (!cascade_is_waited_for(cascade, i) || (group != CASCADE_NONE && cascade_waits(cascade, group)))
            continue;
        size_t programs;
        const struct cascade_sum sum = sum_of(cascade, i, &programs);
        roots++;
        if (cascade->root != CASCADE_NONE &&
            (sum.calls < cascade->root_sum.calls ||
             (sum.calls == cascade->root_sum.calls && sum.oldest_ns <= cascade->root_sum.oldest_ns)))
            continue;
        cascade->root = i;
        cascade->root_sum = sum;
        cascade->root_programs = programs;
    }
    cascade->other_roots = roots > 0 ? roots - 1 : 0;
}

/* --- circles ------------------------------------------------------------------------------------------------------ */

/* For whom a group waits longest, of those that are seen; CASCADE_NONE. */
static size_t next_of(const struct cascade *cascade, size_t group)
{
    for (size_t i = 0; i < cascade->wait_count; i++)
        if (cascade->waits[i].group == group && cascade->places[cascade->waits[i].place].group != CASCADE_NONE &&
            cascade_waits(cascade, cascade->places[cascade->waits[i].place].group))
            return cascade->places[cascade->waits[i].place].group;
    return CASCADE_NONE;
}

size_t *cascade_circle(const struct cascade *cascade, size_t *count)
{
    size_t *path = allocate(cascade->group_count + 1, sizeof *path);
    size_t *at = allocate(cascade->group_count, sizeof *at); /* where on the path each group stands, + 1 */
    for (size_t first = 0; first < cascade->group_count; first++) {
        size_t group = first, length = 0;
        memset(at, 0, cascade->group_count * sizeof *at);
        for (; group != CASCADE_NONE && at[group] == 0; group = next_of(cascade, group)) {
            path[length++] = group;
            at[group] = length;
        }
        if (group == CASCADE_NONE)
            continue;
        path[length++] = group;
        *count = length - (at[group] - 1);
        memmove(path, path + (at[group] - 1), *count * sizeof *path);
        free(at);
        return path;
    }
    free(at);
    free(path);
    return NULL;
}

/* --- a part ------------------------------------------------------------------------------------------------------- */

static bool has_target(const struct cascade_place *place, const char *target)
{
    for (size_t i = 0; i < place->target_count; i++)
        if (strcmp(place->targets[i], target) == 0)
            return true;
    return false;
}

void cascade_add_target(struct cascade_place *place, const char *target)
{
    if (has_target(place, target))
        return;
    place->targets = grow(place->targets, place->target_count, sizeof *place->targets);
    place->targets[place->target_count++] = target;
}

void cascade_narrow(struct cascade *cascade, const struct cascade_wish *wish)
{
    struct reached up = reach_none(cascade), down = reach_none(cascade);
    size_t kept = 0;
    if (wish->text == NULL) {
        reach_free(&up);
        reach_free(&down);
        return;
    }
    for (size_t i = 0; i < cascade->place_count; i++)
        up.places[i] = down.places[i] = has_target(&cascade->places[i], wish->text) ||
                                        strcmp(cascade->places[i].destination, wish->destination) == 0;
    reach_up(cascade, &up);
    reach_down(cascade, &down);
    for (size_t i = 0; i < cascade->wait_count; i++)
        if (up.places[cascade->waits[i].place] || down.groups[cascade->waits[i].group])
            cascade->waits[kept++] = cascade->waits[i];
    cascade->wait_count = kept;
    reach_free(&up);
    reach_free(&down);
    cascade_find_root(cascade);
}
