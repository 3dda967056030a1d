/*
 * audit_progress.c - how far an audit is. See audit_progress.h.
 */
#define _GNU_SOURCE
#include "cli/audit_progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "view/message.h"
#include "view/output.h"
#include "view/table.h"

static struct {
    bool in_full, stands; /* its program writes to standard error itself; there is a line */
    uint64_t second;      /* that it shows */
} progress;

static bool can_be_shown(void)
{
    const char *terminal = getenv("TERM");
    return !progress.in_full && isatty(STDERR_FILENO) == 1 && terminal != NULL && strcmp(terminal, "dumb") != 0;
}

void audit_progress_begin(const struct audit *audit, const struct audit_run *run, size_t number, bool in_full)
{
    progress.in_full = in_full;
    progress.second = UINT64_MAX;
    if (in_full)
        warnx("run %zu of %zu: %s of %s", number, audit->planned, run->fault, run->destination->name);
}

void audit_progress_show(const struct audit *audit, const struct audit_run *run, size_t number, uint64_t elapsed_ns)
{
    char *text;
    const uint64_t second = elapsed_ns / NS_PER_S;
    if (!can_be_shown() || second == progress.second)
        return;
    progress.second = second;
    progress.stands = true;
    if (run == NULL)
        text = format_text("%s as it is (%" PRIu64 "s)", shown(audit->command[0]), second);
    else
        text = format_text("run %zu of %zu (%" PRIu64 "s): %s of %s", number, audit->planned, second, run->fault,
                           shown(run->destination->name));
    const size_t room = line_room(stderr);
    fprintf(stderr, "\r\033[K%.*s", (int)(room > 512 ? 512 : room - 1), text);
    fflush(stderr);
    free(text);
}

void audit_progress_end(void)
{
    if (progress.stands)
        fputs("\r\033[K", stderr);
    fflush(stderr);
    progress.stands = false;
}
