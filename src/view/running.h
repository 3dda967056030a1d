/*
 * running.h - what the processes of a segment run: the settings in force, as against what a policy's file says now.
 *
 * Each process goes by the policy that it read when it started, or took by a reload; its place names the revision, and
 * the segment keeps the texts (segment/editions.h). So several revisions may be in force at a time, and none of them
 * need be the file's. For observers.
 */
#ifndef SOCKFUSE_VIEW_RUNNING_H
#define SOCKFUSE_VIEW_RUNNING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "view/select.h"
#include "policy/policy.h"
#include "segment/processes.h"

/* A revision that some process runs. */
struct edition {
    uint64_t revision;
    const struct policy *policy; /* NULL: unknown */
    char *why;                   /* then, why */
    struct policy *own;          /* the same, if it is not the file's present one */
    unsigned int programs;       /* how many run it */
};

struct running {
    struct policy *file;            /* as its file says now, or as its patterns have it; NULL: it can't be read */
    char *file_why;                 /* then, why */
    struct process_view *processes; /* those that live */
    size_t process_count;
    struct edition *editions; /* that they run, most programs first */
    size_t edition_count;
    /*
     * What the circuits are shown by: what most programs run; if none runs, what came into force last, or else the
     * file's. NULL: unknown.
     */
    const struct policy *shown;
    struct edition last;  /* of the one that came into force last, if no program runs */
    uint64_t handed_over; /* the revision that a reload handed over last; 0: none, or not asked for */
    uint32_t number;      /* of it */
    bool ended;           /* there is a segment, and no program runs */
    uint64_t seen_ns;     /* then: wall clock of the last sign of one; 0: there never was one */
};

/* Free it with running_free, after what was made of its policies. */
void running_collect(struct running *running, const struct selected *selected);
void running_free(struct running *running);

/* How many programs run another revision than the file has now; 0 also if that is unknown. */
unsigned int running_behind(const struct running *running);

/* Whether that process, which runs another revision, was handed the file's, and takes it with its next call. */
bool running_takes(const struct running *running, const struct process_view *process);
/* How many of those that are behind do. */
unsigned int running_taking(const struct running *running);

/*
 * Whether the programs differ in what they run. Then `differing_keys` tells in which keys of a target, and how: one
 * line to be freed ("failure_threshold 5 or 2, mode enforce or observe"); NULL: in none.
 */
bool running_differ(const struct running *running);
char *differing_keys(const struct running *running, const char *target_name);

#endif
