/*
 * command_end.c - see command_end.h.
 */
#define _GNU_SOURCE
#include "cli/command_end.h"

#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "view/duration.h"
#include "view/table.h"

void command_end_print(const struct command_end *end, FILE *out)
{
    char span[SPAN_TEXT_MAX];
    const bool coloured = colour_wanted(out);
    fprintf(out, "%ssockfuse observe:%s %s ran for %s", colour_start(BOLD, coloured), colour_start(PLAIN, coloured),
            shown(end->command[0]), wait_format(end->elapsed_ns, span));
    if (WIFSIGNALED(end->status))
        fprintf(out, " and was killed by signal %d (%s)\n\n", WTERMSIG(end->status), strsignal(WTERMSIG(end->status)));
    else
        fprintf(out, ", exit status %d\n\n", WEXITSTATUS(end->status));
}

void command_end_json(struct json *json, const struct command_end *end)
{
    if (end == NULL) {
        json_null(json, "command");
        return;
    }
    json_open(json, "command", '[');
    for (char *const *word = end->command; *word != NULL; word++)
        json_string(json, NULL, *word);
    json_close(json, ']');
    if (WIFEXITED(end->status))
        json_unsigned(json, "exit_status", (uint64_t)WEXITSTATUS(end->status));
    else
        json_null(json, "exit_status");
    if (WIFSIGNALED(end->status))
        json_unsigned(json, "signal", (uint64_t)WTERMSIG(end->status));
    else
        json_null(json, "signal");
    json_unsigned(json, "elapsed_ms", end->elapsed_ns / NS_PER_MS);
}
