/*
 * fleet_text.h - what is known of a policy's fleet, as lines: of the link that tells it, and of the circuits that are open
 * somewhere. Nothing, where no target is in a fleet.
 */
#ifndef SOCKFUSE_VIEW_FLEET_TEXT_H
#define SOCKFUSE_VIEW_FLEET_TEXT_H

#include "view/rows.h"

/* "open on 2 of 8 hosts (web-1, web-2), quorum 2; web-3 probes": escaped, to be freed. NULL: nothing is known. */
char *row_fleet_text(const struct row_fleet *fleet, const struct segment *segment, uint64_t now_ns);

void fleet_print(const struct rows *rows, const struct segment *segment, uint64_t now_ns);

#endif
