/*
 * audit_model.h - what an audit has found: which destinations a program calls, and what came of each fault that was
 * played to it.
 *
 * For audit*.c. Names come from outside: print them safely.
 */
#ifndef SOCKFUSE_CLI_AUDIT_MODEL_H
#define SOCKFUSE_CLI_AUDIT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "breaker/outcome.h"
#include "segment/circuits.h"
#include "segment/event.h"

/* Some waits, and how long they were. */
struct audit_waits {
    uint64_t count, shortest_ns, longest_ns;
};

/* How waits ended, as far as it was seen. */
enum audit_end {
    AUDIT_END_GAVE_UP,   /* the program had enough */
    AUDIT_END_CANCELLED, /* the same, so soon that it may have been a change of mind */
    AUDIT_END_BY_KERNEL, /* ETIMEDOUT: the program would have waited on */
    AUDIT_END_KILLED,    /* its process died, or became another program */
    AUDIT_END_TOLD,      /* nothing was waited for: the fault says so itself, as a refusal does */
    AUDIT_END_HANGS,     /* it still waited when the run was stopped, for as long as the limit or longer */
    AUDIT_END_CUT,       /* the same, but it had not waited for so long yet */
    AUDIT_ENDS
};

/* What one program made of one fault. */
struct audit_finding {
    char program[PROGRAM_NAME_MAX];
    uint64_t tries; /* calls that met it */
    struct audit_waits ends[AUDIT_ENDS];
    bool told[FAILURE_KINDS]; /* what it was told */
};

/* What came of a fault. In the order in which it is shown: the worst is first. */
enum audit_result {
    AUDIT_NEVER,      /* a call waited for as long as the limit, and was not given up */
    AUDIT_GOES_ON,    /* each call ended, but the command, which ends without the fault, did not */
    AUDIT_WAITS,      /* a call waited longest that still did when the run was stopped, and had not reached the limit */
    AUDIT_BY_KERNEL,  /* the kernel ended the wait */
    AUDIT_GAVE_UP,    /* the program did */
    AUDIT_KILLED,     /* it was killed while it waited */
    AUDIT_TOLD,       /* it was told so at once */
    AUDIT_LOST,       /* it met the fault, but what came of that was not kept */
    AUDIT_NOT_PLAYED, /* the destination was called, but met another fault, or none */
    AUDIT_NOT_CALLED, /* it was not called in this run */
    AUDIT_LEFT_OUT,   /* there was no such run: this destination can't be given that fault */
    AUDIT_NOT_MADE,   /* nor this one: the audit was interrupted before, or in it */
    AUDIT_RESULTS
};

struct audit_destination {
    char name[DESTINATION_MAX];
    uint64_t calls;         /* without a fault */
    unsigned int addresses; /* that it was called at; 0: not known */
    bool is_http, is_path;
};

/* How a run of the command ended. */
struct audit_course {
    int status;          /* of the command, as waitpid has it */
    uint64_t elapsed_ns; /* its own run time */
    bool has_ended;      /* by itself */
    bool left_some;      /* processes of it went on then, and were stopped */
    bool was_made;       /* to its end; else it was interrupted */
};

/* One fault at one destination. */
struct audit_run {
    const struct audit_destination *destination;
    const char *fault;    /* as `inject` has it */
    const char *left_out; /* why it can't be; NULL: it can */
    struct audit_course course;
    uint64_t calls;                 /* of the destination, with the fault or without */
    uint64_t met;                   /* of these, those with it */
    uint64_t lost;                  /* events that the journal had no room for: the findings tell less than there was */
    struct audit_finding *findings; /* by program */
    size_t finding_count;
};

struct audit {
    char **command;
    uint64_t limit_ns;
    bool is_endless;          /* without a fault the command does not end by itself, or leaves processes that do not */
    struct audit_course bare; /* its run without a fault */
    struct audit_destination *destinations;
    size_t destination_count;
    uint64_t unseen; /* calls without a fault that there was no room for */
    struct audit_run *runs;
    size_t run_count;
    size_t planned; /* of them, those that can be made */
    bool is_interrupted;
};

/* One line of the table: a run, and what one program made of it; NULL: none met the fault. */
struct audit_row {
    const struct audit_run *run;
    const struct audit_finding *finding;
    enum audit_result result;
};

#endif
