/*
 * meant.h - which circuits of one policy a DEST or a target's name on the command line stands for.
 *
 * For `sockfuse open`, `close` and `auto`. Looked for in all that is in force: in each policy that some program runs,
 * in what was handed over to those that have not called since, and in the file, by which the next program goes.
 */
#ifndef SOCKFUSE_CLI_MEANT_H
#define SOCKFUSE_CLI_MEANT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/audience.h"
#include "view/destination.h"
#include "policy/policy.h"

struct meant_circuit {
    char target_name[TARGET_NAME_MAX];
    char destination[DESTINATION_MAX];
    enum target_mode mode; /* of the first policy that has the target */
};

struct meant {
    struct meant_circuit *at; /* each once; those that stand in the table, and those that will with the next call */
    size_t count;
    bool hidden;   /* some are kept by each process to itself */
    bool nameless; /* a target's or host's name, of which it is open what circuits it can have */
};

/* `destination` NULL: the text can be a target's name alone. Free it with meant_free. */
void meant_find(struct meant *meant, const char *text, const struct destination *destination,
                const struct audience *audience, uint64_t now_ns);
void meant_free(struct meant *meant);

#endif
