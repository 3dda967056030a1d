/*
 * command_end.h - how a command that was observed has ended, as `observe` tells it.
 */
#ifndef SOCKFUSE_CLI_COMMAND_END_H
#define SOCKFUSE_CLI_COMMAND_END_H

#include <stdint.h>
#include <stdio.h>

#include "view/json.h"

struct command_end {
    char *const *command;
    int status; /* as waitpid has it */
    uint64_t elapsed_ns;
};

void command_end_print(const struct command_end *end, FILE *out);
/* Its members; NULL: there was none. */
void command_end_json(struct json *json, const struct command_end *end);

#endif
