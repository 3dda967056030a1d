/*
 * status_json.h - one policy's circuits and attached processes as a JSON object, for `status --json`.
 *
 * For the command line. Reads the segment, changes nothing.
 */
#ifndef SOCKFUSE_CLI_STATUS_JSON_H
#define SOCKFUSE_CLI_STATUS_JSON_H

#include "cli/json.h"
#include "cli/rows.h"
#include "cli/select.h"

/*
 * Writes {policy, segment, policy_revision, circuits, processes} as the next value of an array. `segment` is null when
 * the policy is not in use; what only the policy knows (failure_threshold, mode, scope, policy_revision, and whether
 * what a process runs is `current`) is null when it could not be read (`policy` NULL). Targets
 * whose patterns leave the destination open have no circuit before their first call. A circuit's `window` is null
 * while no rate is judged.
 */
void status_json(struct json *json, const struct selected *selected, const struct policy *policy,
                 const struct rows *rows);

#endif
