/*
 * reach.c - whom an operator's word reaches. See reach.h.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/reach.h"
#include "policy/flat.h"
#include "segment/calls.h"
#include "segment/process_alive.h"
#include "segment/segment.h"

/* So many are named at a time; the others are counted. */
#define NAMED_MAX 12u
#define WAIT_NS NS_PER_S
#define LOOK_AGAIN_NS (5 * NS_PER_MS)

/* --- who there is ------------------------------------------------------------------------------------------------- */

static void add_attached(struct reach *reach, const struct process_view *view)
{
    reach->at = grow(reach->at, reach->count, sizeof *reach->at);
    reach->at[reach->count++] =
        (struct attached){.view = *view, .is_stopped = view->is_near && process_is_stopped(view->pid)};
}

/* Those of whom a call is in flight. */
static void mark_waiting(struct reach *reach, const struct segment *segment)
{
    struct call_view call;
    for (uint32_t i = 0; i < calls_limit(segment); i++) {
        if (!calls_read(segment, i, &call) || !call.in_flight)
            continue;
        for (size_t j = 0; j < reach->count; j++)
            reach->at[j].is_waiting |= reach->at[j].view.holder == call.owner;
    }
}

void reach_collect(struct reach *reach, const struct segment *segment)
{
    struct process_view view;
    *reach = (struct reach){0};
    /* A file that is given up is left by all who have it, with their next call. */
    if (segment->map == NULL || segment_is_given_up(segment))
        return;
    for (uint32_t cursor = 0; process_next(segment, &cursor, &view);)
        add_attached(reach, &view);
    mark_waiting(reach, segment);
}

void reach_free(struct reach *reach)
{
    free(reach->at);
    *reach = (struct reach){0};
}

/* --- words -------------------------------------------------------------------------------------------------------- */

const char *programs(size_t count)
{
    static char texts[7][40];
    static unsigned int next;
    char *text = texts[next++ % 7];
    snprintf(text, sizeof texts[0], "%zu program%s", count, count == 1 ? "" : "s");
    return text;
}

void naming_add(struct naming *naming, const struct attached *process, const char *note)
{
    naming->count++;
    if (naming->count > NAMED_MAX) {
        naming->left_out++;
        return;
    }
    char *name = printable(process->view.program);
    char *longer = format_text("%s%s%" PRIu32 " (%s%s%s%s)", naming->text != NULL ? naming->text : "pid ",
                               naming->text != NULL ? ", " : "", process->view.pid, name,
                               process->view.is_near ? "" : ", by the number of its container",
                               note != NULL ? ", " : "", note != NULL ? note : "");
    free(name);
    free(naming->text);
    naming->text = longer;
}

const char *naming_text(struct naming *naming)
{
    if (naming->left_out > 0) {
        char *longer = format_text("%s and %zu more", naming->text, naming->left_out);
        free(naming->text);
        naming->text = longer;
        naming->left_out = 0;
    }
    return naming->text != NULL ? naming->text : "";
}

void naming_free(struct naming *naming)
{
    free(naming->text);
    *naming = (struct naming){0};
}

/* --- an edited policy --------------------------------------------------------------------------------------------- */

bool reach_runs(const struct attached *process, uint64_t revision)
{
    return process->view.revision == revision;
}

const char *reach_why_not(const struct attached *process, uint32_t number)
{
    static char text[120];
    const struct process_view *view = &process->view;
    if (view->keeps_policy)
        return "it has no policy file that could be edited";
    if (view->reload != number)
        return NULL;
    switch (view->reload_answer) {
    case RELOAD_UNANSWERED:
    case RELOAD_TAKEN: /* and something else since */
    case RELOAD_NO_MEMORY:
        return NULL;
    case RELOAD_UNREADABLE:
        return "it could not read what was handed over in the segment";
    default:
        /* "it is ..." */
        snprintf(text, sizeof text, "what was handed over%s",
                 flat_fault_text(view->reload_answer - RELOAD_REFUSED) + strlen("it"));
        return text;
    }
}

/* Whether there is nobody left who could take it in the next moment. */
static bool is_settled(const struct reach *reach, uint32_t number, uint64_t revision)
{
    for (size_t i = 0; i < reach->count; i++) {
        const struct attached *process = &reach->at[i];
        if (!reach_runs(process, revision) && !process->is_stopped && reach_why_not(process, number) == NULL)
            return false;
    }
    return true;
}

/* What they say of themselves by now; no system call. Of one that is gone the last word stands. */
static void look_again(struct reach *reach, const struct segment *segment)
{
    for (size_t i = 0; i < reach->count; i++) {
        struct process_view view;
        if (process_describe(segment, reach->at[i].view.holder, &view))
            reach->at[i].view = view;
    }
}

void reach_wait_for_reload(struct reach *reach, const struct segment *segment, uint32_t number, uint64_t revision,
                           uint64_t *left_ns)
{
    const struct timespec moment = {.tv_nsec = LOOK_AGAIN_NS};
    const uint64_t began_ns = clock_real_ns(), most_ns = *left_ns < WAIT_NS ? *left_ns : WAIT_NS;
    bool waited = false;
    reach_collect(reach, segment);
    for (; !is_settled(reach, number, revision) && clock_real_ns() - began_ns < most_ns; waited = true) {
        nanosleep(&moment, NULL);
        look_again(reach, segment);
    }
    if (!waited)
        return;
    const uint64_t waited_ns = clock_real_ns() - began_ns;
    *left_ns -= waited_ns < *left_ns ? waited_ns : *left_ns;
    reach_free(reach);
    reach_collect(reach, segment); /* who lives now */
}
