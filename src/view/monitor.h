/*
 * monitor.h - the circuits in one line and an exit status, for who watches machines.
 *
 * For `sockfuse status --check`.
 */
#ifndef SOCKFUSE_VIEW_MONITOR_H
#define SOCKFUSE_VIEW_MONITOR_H

#include <stdbool.h>

#include "view/rows.h"

enum { EXIT_MONITOR_OPEN = 1, EXIT_MONITOR_BLIND = 2 };

#define MONITOR_NAMED 3u

struct monitor {
    unsigned int circuits, open, waiting, overdue;
    char named[MONITOR_NAMED][DESTINATION_MAX]; /* of the first that are open */
};

/* Adds the circuits that running programs use. Where none runs nobody is refused, whatever the circuits say. */
void monitor_add(struct monitor *monitor, const struct running *running, const struct rows *rows);
/* To stdout, one line; returns the exit status. `blind`: something could not be looked at, which was said. */
int monitor_print(const struct monitor *monitor, bool blind);

#endif
