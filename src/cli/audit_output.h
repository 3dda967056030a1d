/*
 * audit_output.h - writes what an audit has found: a table, or one JSON object.
 *
 * For audit.c.
 */
#ifndef SOCKFUSE_CLI_AUDIT_OUTPUT_H
#define SOCKFUSE_CLI_AUDIT_OUTPUT_H

#include <stdio.h>

#include "cli/audit_model.h"

void audit_print(const struct audit *audit, FILE *out);
void audit_write_json(const struct audit *audit, FILE *out);

/* Whether something waited for longer than the limit; whether any fault was met. */
bool audit_finds_beyond(const struct audit *audit);
bool audit_met_any(const struct audit *audit);

#endif
