/*
 * top_model.h - what `sockfuse top` has on its screen: what was seen at the last look, and how the user wants to see it.
 *
 * For `sockfuse top` alone. Nothing here reads a segment, a clock or a terminal.
 */
#ifndef SOCKFUSE_CLI_TOP_MODEL_H
#define SOCKFUSE_CLI_TOP_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "view/inflight.h"
#include "view/rows.h"
#include "cli/top_outcomes.h"
#include "segment/event.h"
#include "segment/forced.h"

/* --- what was seen ------------------------------------------------------------------------------------------------ */

/* One circuit, or a target of which none stands yet. */
struct top_row {
    uint64_t key; /* the same at each look */
    const struct row *row;
    const char *policy, *whose; /* the policy's identity; " (user NAME)" where there are others' too */
    size_t place;               /* of its policy among those that were selected */
    size_t order;               /* among all rows: by user, policy and target */
};

/* All circuits as of one moment. */
struct top_sight {
    struct top_row *rows; /* not sorted */
    size_t row_count;
    bool has_policy; /* some policy is in use, or was named and can be read */
    uint64_t now_ns; /* the circuits' clock */
    uint64_t wall_ns;
    const char *notes;   /* what could not be read, and why: lines */
    const char *nothing; /* what to do where there is nothing to show */
    struct outcomes_set outcomes;
};

/* More of the chosen one. */
#define TOP_EVENTS 48u
struct top_detail {
    uint64_t key;          /* 0: nothing is known */
    struct inflight calls; /* the longest wait first */
    struct event *events;  /* the newest first */
    size_t event_count;
    size_t programs;     /* that run under its policy */
    char *program_names; /* "pid 12 (curl), 14 (nginx)" */
};

/* --- how it is shown ---------------------------------------------------------------------------------------------- */

enum top_sort {
    SORT_WORST,
    SORT_NAME,
    SORT_WAITING,
    SORT_OLDEST,
    SORT_RATE,
    SORT_P95,
    SORT_FAILED,
    SORT_REFUSED,
    SORTS
};

/* What the keys are for now. */
enum top_mode {
    TOP_LIST,
    TOP_FILTER, /* its text is being typed */
    TOP_HELP,
    TOP_NOTES,
    TOP_HOW_LONG, /* the first question before a word: for how long */
    TOP_SURE,     /* and the second */
    TOP_ANSWER    /* what came of it */
};

#define TOP_TEXT_MAX 64

struct top_view {
    enum top_mode mode;
    enum top_sort sort;
    bool is_reversed;
    bool is_deep;              /* the pane takes most of the page */
    char filter[TOP_TEXT_MAX]; /* UTF-8; "": all */
    uint64_t chosen;           /* key of a row; 0: the first one */
    size_t chosen_index;       /* where it was last */
    size_t first;              /* row at the top */
    enum forced word;          /* of the questions */
    uint64_t asked;            /* and which circuit they are about: a key */
    char how_long[TOP_TEXT_MAX];
    uint64_t for_ns;       /* what that comes to; 0: without an end */
    const char *complaint; /* about what was typed; NULL: none */
    char *answer;          /* what came of it */
    uint64_t interval_ns;  /* between two looks */
};

/* The rows that are shown, in their order. */
struct top_list {
    const struct top_row **at;
    size_t count;
};

/* What is asked of the caller by a key. */
enum top_action {
    TOP_NOTHING, /* the page may look different */
    TOP_QUIT,
    TOP_LOOK,  /* now, and not at the next tick */
    TOP_FORCE, /* view->word, for view->for_ns, on the chosen one */
    TOP_REDRAW
};

/* Keys that are no characters; those are as Unicode has them. */
enum top_key {
    TOP_KEY_NONE = 0x110000,
    TOP_KEY_UP,
    TOP_KEY_DOWN,
    TOP_KEY_PAGE_UP,
    TOP_KEY_PAGE_DOWN,
    TOP_KEY_HOME,
    TOP_KEY_END,
    TOP_KEY_ENTER,
    TOP_KEY_ESCAPE,
    TOP_KEY_BACKSPACE,
    TOP_KEY_REDRAW,
    TOP_KEY_OTHER
};

#endif
