/*
 * running.c - what the processes of a segment run. See running.h.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "view/output.h"
#include "view/running.h"
#include "view/selected_policy.h"
#include "policy/flat.h"
#include "segment/editions.h"
#include "segment/handover.h"

/* --- policies ----------------------------------------------------------------------------------------------------- */

/* The policy of a revision, from the text that is kept. */
static void read_edition(struct edition *edition, const struct selected *selected)
{
    size_t length;
    char *kept = edition_read(&selected->segment, edition->revision, &length);
    char *text = kept != NULL ? strndup(kept, length) : NULL;
    if (kept != NULL)
        edition_free(kept, length);
    if (text != NULL)
        edition->own = policy_of_text(selected, text, edition->revision, &edition->why);
    else
        edition->why = copy_text("its text is not kept here");
    edition->policy = edition->own;
    free(text);
}

/* A policy that was made of patterns alone has one revision, which its identity tells. */
static void find_policy(struct edition *edition, const struct running *running, const struct selected *selected)
{
    if (running->file != NULL && (running->file->revision == edition->revision || running->file->path == NULL))
        edition->policy = running->file;
    else
        read_edition(edition, selected);
}

/* --- processes ---------------------------------------------------------------------------------------------------- */

static void add_process(struct running *running, const struct process_view *process)
{
    running->processes = grow(running->processes, running->process_count, sizeof *running->processes);
    running->processes[running->process_count++] = *process;
}

static void count_revision(struct running *running, uint64_t revision)
{
    for (size_t i = 0; i < running->edition_count; i++) {
        if (running->editions[i].revision == revision) {
            running->editions[i].programs++;
            return;
        }
    }
    running->editions = grow(running->editions, running->edition_count, sizeof *running->editions);
    running->editions[running->edition_count++] = (struct edition){.revision = revision, .programs = 1};
}

/* Where as many run one as the other, the file's present one goes first. */
static int compare(const void *a, const void *b, void *context)
{
    const struct edition *left = a, *right = b;
    const struct policy *file = context;
    if (left->programs != right->programs)
        return left->programs > right->programs ? -1 : 1;
    if (file != NULL && (left->revision == file->revision) != (right->revision == file->revision))
        return left->revision == file->revision ? -1 : 1;
    return left->revision < right->revision ? -1 : left->revision > right->revision;
}

static void collect_processes(struct running *running, const struct selected *selected)
{
    struct process_view process;
    for (uint32_t cursor = 0; process_next(&selected->segment, &cursor, &process);) {
        add_process(running, &process);
        count_revision(running, process.revision);
    }
    if (running->edition_count > 0)
        qsort_r(running->editions, running->edition_count, sizeof *running->editions, compare, running->file);
    for (size_t i = 0; i < running->edition_count; i++)
        find_policy(&running->editions[i], running, selected);
}

/* What was handed over is asked for only where it makes a difference. */
static void collect_handover(struct running *running, const struct selected *selected)
{
    size_t size;
    bool again;
    const char *why;
    if (running_behind(running) == 0)
        return;
    running->number = atomic_load_explicit(handover_number(&selected->segment), memory_order_relaxed);
    void *bytes = handover_read(&selected->segment, POLICY_FLAT_MAX, &size, &again);
    if (bytes == NULL)
        return;
    const struct policy *policy = policy_unfold(bytes, size, selected->identity, &why);
    running->handed_over = policy != NULL ? policy->revision : 0;
    handover_free(bytes, size);
}

static void collect_last(struct running *running, const struct selected *selected)
{
    running->ended = true;
    running->seen_ns = process_last_seen(&selected->segment);
    running->last.revision = editions_last(&selected->segment);
    if (running->last.revision != 0)
        find_policy(&running->last, running, selected);
}

static const struct policy *choose(const struct running *running)
{
    for (size_t i = 0; i < running->edition_count; i++)
        if (running->editions[i].policy != NULL)
            return running->editions[i].policy;
    return running->last.policy != NULL ? running->last.policy : running->file;
}

void running_collect(struct running *running, const struct selected *selected)
{
    *running = (struct running){0};
    running->file = policy_of_selected(selected, &running->file_why);
    if (selected->segment.map != NULL) {
        collect_processes(running, selected);
        collect_handover(running, selected);
        if (running->process_count == 0)
            collect_last(running, selected);
    }
    running->shown = choose(running);
}

static void edition_release(struct edition *edition)
{
    policy_free(edition->own);
    free(edition->why);
}

void running_free(struct running *running)
{
    for (size_t i = 0; i < running->edition_count; i++)
        edition_release(&running->editions[i]);
    edition_release(&running->last);
    free(running->editions);
    free(running->processes);
    free(running->file_why);
    policy_free(running->file);
    *running = (struct running){0};
}
