/*
 * staged_run.h - a program's run that is looked at and stopped in bounded time, with all that it has started.
 *
 * The program gets a session of its own, without a terminal. What it starts is this process's to end, also what left
 * its group or lost its parent: a child subreaper's. Nobody else's process is touched: this process starts no other
 * children meanwhile. For `audit`.
 */
#ifndef SOCKFUSE_CLI_STAGED_RUN_H
#define SOCKFUSE_CLI_STAGED_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* From now on signals that end programs are kept, for staged_run to find; those that are ignored stay so. */
void staged_runs_begin(void);
/* The one that came; 0: none. */
int staged_runs_interrupted(void);
/* Ends the keeping. If one came, this process ends by it; what it says has to be written before. */
void staged_runs_end(void);

struct staged_run {
    int (*become)(void *start); /* in the child: becomes the program, or returns an exit status */
    void *start;
    int input, output; /* the program's standard input, and its output and error */
    int heard;         /* what it writes comes out here, without waiting; -1: nowhere */
    void (*hear)(int heard);
    /* Asked again and again: whether it is to be stopped now. */
    bool (*is_enough)(void *looker, uint64_t elapsed_ns);
    /* It is about to be stopped, or all of it has ended: the last moment to look. */
    void (*last_look)(void *looker);
    void *looker;

    int status;             /* the program's, as waitpid has it; of one that was stopped: by what */
    uint64_t elapsed_ns;    /* its own run time */
    bool has_ended;         /* by itself */
    bool left_some;         /* others went on then, and were stopped */
    bool is_interrupted;    /* it was stopped by a signal to this process */
    unsigned int left_over; /* processes that could not be ended */
};

/* False, with errno: there can be no child. */
bool staged_run(struct staged_run *run);

#endif
