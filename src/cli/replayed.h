/*
 * replayed.h - a recording under several policies, side by side: what `replay` has found, and how it is written.
 */
#ifndef SOCKFUSE_CLI_REPLAYED_H
#define SOCKFUSE_CLI_REPLAYED_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/recording_order.h"
#include "view/simulation.h"
#include "policy/policy.h"

/* One policy: a file of -p, or for each lane the one that it was recorded under. */
struct replay_column {
    const char *name;
    bool is_own;
    struct policy **policies; /* one; of the recorded ones one for each lane, each
                               policy once, or NULL: unknown */
    struct sim_rule *rules;   /* one for each lane */
    struct target *copies;    /* for those whose rates can't be judged */
    struct simulation simulation;
};

struct replayed {
    const struct recording *recording;
    struct recorded_result *recorded; /* one for each lane */
    struct replay_column *columns;
    size_t column_count;
};

/* Whether the column's policy for that lane could be read. */
static inline bool replayed_knows(const struct replay_column *column, size_t lane)
{
    return column->policies[column->is_own ? lane : 0] != NULL;
}

/* To stdout. */
void replayed_print(const struct replayed *replayed);
void replayed_json(const struct replayed *replayed);

/* What a recording can't tell, in the order of weight: each line to be freed. */
struct replay_notes {
    char **at;
    size_t count;
};
void replay_notes_find(struct replay_notes *notes, const struct replayed *replayed);
void replay_notes_free(struct replay_notes *notes);

#endif
