/*
 * top_look.h - reads for `sockfuse top` what the segments in use say now. Changes nothing in them.
 */
#ifndef SOCKFUSE_CLI_TOP_LOOK_H
#define SOCKFUSE_CLI_TOP_LOOK_H

#include "view/running.h"
#include "view/select.h"
#include "cli/top_model.h"

/* Only these circuits: as they were asked for, and as circuits are called. */
struct top_wish {
    const char *text, *destination;
};

/* What the rows of one policy lie in. */
struct top_policy {
    struct running running;
    struct rows rows;
};

struct top_look {
    struct whose choice;
    const struct top_wish *wishes;
    size_t wish_count; /* 0: all */
    struct selection selection;
    struct top_policy *policies; /* one for each of the selection */
    bool is_first, was_whole;    /* the next look; the last one */
    struct top_sight sight;
    char *notes, *nothing;
    struct top_detail detail;
    struct event *events; /* room for those of the detail */
};

/* Before all others. False: the policy that was asked for is neither in use nor can it be read, which was said. */
bool top_look_begins(const struct top_look *look);
/* One look at all; `is_tick`: what ended since the last one is a step of the sparklines. */
void top_look(struct top_look *look, bool is_tick);
/* More of one circuit; of none, NULL. */
void top_look_closer(struct top_look *look, const struct top_row *row);
void top_look_free(struct top_look *look);

#endif
