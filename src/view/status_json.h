/*
 * status_json.h - one policy's circuits and attached processes as a JSON object, for `status --json`.
 *
 * For the command line. Reads the segment, changes nothing.
 */
#ifndef SOCKFUSE_VIEW_STATUS_JSON_H
#define SOCKFUSE_VIEW_STATUS_JSON_H

#include "view/json.h"
#include "view/rows.h"
#include "view/running.h"
#include "view/select.h"

/*
 * Writes {policy, segment, policy_revision, running, circuits, processes…} as the next value of an array. `segment` is
 * null when the policy is not in use, `policy_revision` (the file's) when the file can't be read; then neither is known
 * whether what a process runs is `current`. What only a policy knows of a circuit (failure_threshold, mode, scope) is
 * by what running programs go by, and null where that is unknown. Targets whose patterns leave the destination open
 * have no circuit before their first call. A circuit's `window` is null while no rate is judged.
 */
void status_json(struct json *json, const struct selected *selected, const struct running *running,
                 const struct rows *rows);

#endif
