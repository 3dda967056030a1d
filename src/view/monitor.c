/*
 * monitor.c - the circuits in one line and an exit status. See monitor.h.
 */
#include "view/monitor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "view/output.h"

void monitor_add(struct monitor *monitor, const struct running *running, const struct rows *rows)
{
    if (running->process_count == 0)
        return;
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->at[i];
        if (row->ended != ENDED_NOT || row->destination[0] == '\0')
            continue;
        monitor->circuits++;
        monitor->waiting += row->waiting.calls;
        monitor->overdue += row->waiting.overdue;
        if (row_state(row) == CIRCUIT_CLOSED)
            continue;
        if (monitor->open < MONITOR_NAMED)
            memcpy(monitor->named[monitor->open], row->destination, DESTINATION_MAX);
        monitor->open++;
    }
}

int monitor_print(const struct monitor *monitor, bool blind)
{
    const char *head = blind ? "UNKNOWN" : monitor->open > 0 ? "OPEN" : "OK";
    printf("%s: %u circuit%s", head, monitor->circuits, monitor->circuits == 1 ? "" : "s");
    if (monitor->open > 0) {
        printf(", %u not closed:", monitor->open);
        for (unsigned int i = 0; i < MONITOR_NAMED && i < monitor->open; i++) {
            fputs(i > 0 ? ", " : " ", stdout);
            fputs(shown(monitor->named[i]), stdout);
        }
        if (monitor->open > MONITOR_NAMED)
            printf(" and %u more", monitor->open - MONITOR_NAMED);
    } else {
        fputs(monitor->circuits > 0 ? ", all closed" : " in use", stdout);
    }
    if (monitor->waiting > 0)
        printf("; %u call%s wait%s", monitor->waiting, monitor->waiting == 1 ? "" : "s",
               monitor->waiting == 1 ? "s" : "");
    if (monitor->overdue > 0)
        printf(", %u overdue", monitor->overdue);
    fputs(blind ? "; not all could be looked at\n" : "\n", stdout);
    return blind ? EXIT_MONITOR_BLIND : monitor->open > 0 ? EXIT_MONITOR_OPEN : EXIT_SUCCESS;
}
