/*
 * forcing.h - an operator's word over live circuits: force open, force closed, give back.
 *
 * For `sockfuse open`, `close`, `auto` and `top`. What was done and whom it reached is said on standard output, what was
 * not and why on standard error. The word is obeyed by running processes with their next call.
 */
#ifndef SOCKFUSE_CLI_FORCING_H
#define SOCKFUSE_CLI_FORCING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "view/destination.h"
#include "view/select.h"
#include "guard/guard.h"
#include "policy/value.h"
#include "segment/event.h"
#include "segment/forced.h"

/* For how long a word may hold. */
extern const struct value_rule forcing_time;

/* One circuit, as circuits are called. */
struct forcing_circuit {
    const char *target_name, *destination;
};

/* One command's run. All but what forcing_start is given is for forcing.c alone. */
struct forcing {
    enum forced word;
    uint64_t for_ns; /* 0: without an end */
    bool fleet;      /* all hosts of the fleet are to obey; set it after forcing_start */
    struct guard command;
    char user[PROGRAM_NAME_MAX];
    uint64_t now_ns;
    char **acted; /* circuits that were seen to: of two DEST that mean the same one is done */
    size_t acted_count;
    /* Of the present DEST: */
    const char *text; /* as it was given */
    struct destination destination;
    const struct forcing_circuit *only; /* NULL: all that it means */
    bool is_first;
    bool is_destination;              /* else it can be a target's name alone */
    unsigned int done, failed, again; /* circuits */
    size_t reached;                   /* processes */
};

/* Reads the circuits' clock. End it with forcing_end. */
void forcing_start(struct forcing *forcing, enum forced word, uint64_t for_ns);
void forcing_end(struct forcing *forcing);

/* A destination or a target's name in all policies that are selected. False: it was not done. */
bool forcing_act(struct forcing *forcing, const char *text, struct selection *selection);
/* One circuit of one policy of the selection. False: it was not done, or reached nobody. */
bool forcing_act_on(struct forcing *forcing, const struct forcing_circuit *circuit, const struct selected *selected,
                    struct selection *selection);

#endif
