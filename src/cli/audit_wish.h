/*
 * audit_wish.h - what `sockfuse audit` is asked for.
 *
 * For audit.c and audit_stage.c.
 */
#ifndef SOCKFUSE_CLI_AUDIT_WISH_H
#define SOCKFUSE_CLI_AUDIT_WISH_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/run_request.h"

#define AUDIT_FAULTS_MAX 16

struct audit_wish {
    uint64_t limit_ns;
    const char *faults[AUDIT_FAULTS_MAX];
    size_t fault_count;
    const char *policy_file; /* whom: by its targets; NULL: whoever is called */
    struct run_list patterns;
    bool as_json, is_verbose, force;
    bool help, version;
    char **command;
};

/* Reads the words of the command line. False, after a message: they are not what is expected. */
bool audit_wish_parse(int argc, char **argv, struct audit_wish *wish);

#endif
