/*
 * audit.c - `sockfuse audit`: finds out on purpose after how long a program gives up.
 *
 * CMD is run once as it is, to see whom it calls, and then once for each destination and fault, which the library plays
 * to it: its calls with a fault never reach the destination. Each run has circuits of its own, which refuse nothing and
 * have no limits that could end a wait, and is stopped when a call has waited for as long as the limit. One run after
 * the other, for a program may have files and ports of its own.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "cli/audit_model.h"
#include "cli/audit_output.h"
#include "cli/audit_stage.h"
#include "cli/audit_streams.h"
#include "cli/audit_wish.h"
#include "cli/cli.h"
#include "cli/staged_run.h"
#include "view/duration.h"

static const char help[] =
    "Usage: sockfuse audit [--limit TIME] [--faults LIST] [-t PATTERN]... [-p FILE] [--json] [-v] [--force]\n"
    "                      [--] CMD [ARGUMENT]...\n"
    "Finds out after how long CMD gives up: runs it once to see whom it calls, and then once for each\n"
    "destination and fault, which CMD meets in its place. What CMD does besides, it does each time.\n"
    "\n"
    "      --limit TIME      what has waited for so long, and was not given up, never will be (1m);\n"
    "                        then the run is stopped\n"
    "      --faults LIST     of hang (nobody answers the connection), silence (accepted, and no answer),\n"
    "                        refuse, reset, http-503 or another status, early-close;\n"
    "                        without it: hang,silence,refuse,reset,http-503\n"
    "  -t, --target PATTERN  only destinations that this takes; may be given several times\n"
    "  -p, --policy FILE     only those of its targets\n"
    "      --json            as one JSON object\n"
    "  -v, --verbose         show what CMD writes, on standard error; else it goes nowhere\n"
    "      --force           go on where CMD fails without a fault\n"
    "  -h, --help            this text\n"
    "      --version         the version\n"
    "\n"
    "  WHAT CAME OF IT  its time is that of the wait, since the call began and until CMD gave up\n"
    "  RAN, EXIT        of the whole run; -: it was stopped\n"
    "\n"
    "CMD has no terminal; its standard input is empty, or the file (< FILE) that this command has.\n"
    "Exit status: 0: nothing waited beyond the limit; 1: something did; 125: it could not be found out,\n"
    "126: CMD can't be executed, 127: CMD was not found.\n";

/* --- the plan ----------------------------------------------------------------------------------------------------- */

static void make_plan(struct audit *audit, const struct audit_wish *wish)
{
    audit->runs = allocate(audit->destination_count * wish->fault_count, sizeof *audit->runs);
    for (size_t i = 0; i < audit->destination_count; i++) {
        for (size_t j = 0; j < wish->fault_count; j++) {
            const struct audit_destination *destination = &audit->destinations[i];
            struct audit_run *run = &audit->runs[audit->run_count++];
            *run = (struct audit_run){
                .destination = destination,
                .fault = wish->faults[j],
                .left_out = audit_stage_left_out(destination, wish->faults[j]),
            };
            audit->planned += run->left_out == NULL;
        }
    }
}

/* How long it will take, before it does. */
static void announce(const struct audit *audit)
{
    char at_least[SPAN_TEXT_MAX], each[SPAN_TEXT_MAX], all[SPAN_TEXT_MAX];
    const uint64_t bound_ns = audit_stage_bound(audit);
    const bool is_one = audit->planned == 1;
    span_format(audit->limit_ns, at_least);
    if (audit->bare.left_some)
        warnx("what %s left behind went on; each run lasts %s or longer", audit->command[0], at_least);
    else if (audit->is_endless)
        warnx("%s did not end within %s; as with a server, each run lasts as long", audit->command[0], at_least);
    if (audit->unseen > 0)
        warnx("%" PRIu64 " call%s without a fault %s not seen: there was no room; -t chooses destinations",
              audit->unseen, audit->unseen == 1 ? "" : "s", audit->unseen == 1 ? "was" : "were");
    warnx("%zu destination%s; %zu run%s of at most %s follow%s, %s in all", audit->destination_count,
          audit->destination_count == 1 ? "" : "s", audit->planned, is_one ? "" : "s", span_format(bound_ns, each),
          is_one ? "s" : "", span_format(bound_ns * audit->planned, all));
}

/* --- the run without a fault -------------------------------------------------------------------------------------- */

static void tell_of_input(const char *command)
{
    if (audit_streams_lost_input())
        warnx("%s had nothing on its standard input; each run reads a file from its beginning (< FILE)", command);
}

/* Whether it says enough to go on. False: what is missing was said. */
static bool may_go_on(const struct audit *audit, const struct audit_wish *wish)
{
    const char *command = audit->command[0];
    const struct audit_course *bare = &audit->bare;
    if (bare->has_ended && bare->status != 0 && !wish->force) {
        if (WIFSIGNALED(bare->status))
            warnx("%s was killed by signal %d without any fault", command, WTERMSIG(bare->status));
        else
            warnx("%s fails without any fault, exit status %d", command, WEXITSTATUS(bare->status));
        audit_streams_tell();
        tell_of_input(command);
        warnx("so nothing can be told of faults; --force goes on all the same");
        return false;
    }
    if (audit->destination_count > 0)
        return true;
    char within[SPAN_TEXT_MAX];
    if (wish->policy_file != NULL || wish->patterns.count > 0)
        warnx("%s called nobody whom %s takes", command, wish->policy_file != NULL ? wish->policy_file : "-t");
    else if (!bare->has_ended || bare->left_some)
        warnx("%s called nobody within %s: if it is a server, it has to be asked for something in each run; "
              "what is slow to begin needs a longer --limit",
              command, span_format(audit->limit_ns, within));
    else
        warnx("%s called nobody: there is nothing to audit (what a static or Go program calls is not seen)", command);
    tell_of_input(command);
    return false;
}

/* --- all ---------------------------------------------------------------------------------------------------------- */

static int write_all(const struct audit *audit, const struct audit_wish *wish)
{
    if (wish->as_json)
        audit_write_json(audit, stdout);
    else
        audit_print(audit, stdout);
    const bool is_whole = audit_met_any(audit) || audit->is_interrupted;
    const int status = audit_finds_beyond(audit) ? EXIT_FAILURE : is_whole ? EXIT_SUCCESS : EXIT_RUN_FAILED;
    /* 1 would say that something waited beyond the limit. */
    return finish_output(EXIT_SUCCESS) == EXIT_SUCCESS ? status : EXIT_RUN_FAILED;
}

static int make_runs(struct audit *audit, const struct audit_wish *wish)
{
    size_t number = 0;
    for (size_t i = 0; i < audit->run_count && staged_runs_interrupted() == 0; i++) {
        if (audit->runs[i].left_out != NULL)
            continue;
        const int status = audit_stage_fault(audit, wish, &audit->runs[i], ++number);
        if (status != EXIT_SUCCESS)
            return status;
    }
    audit->is_interrupted = staged_runs_interrupted() != 0;
    return EXIT_SUCCESS;
}

static int audit_command(struct audit *audit, const struct audit_wish *wish)
{
    int status = audit_stage_bare(audit, wish);
    if (status != EXIT_SUCCESS)
        return status;
    if (!audit->bare.was_made) {
        warnx("interrupted before it was known whom %s calls", audit->command[0]);
        return EXIT_RUN_FAILED;
    }
    if (!may_go_on(audit, wish))
        return EXIT_RUN_FAILED;
    audit->is_endless = !audit->bare.has_ended || audit->bare.left_some;
    make_plan(audit, wish);
    announce(audit);
    status = make_runs(audit, wish);
    return status != EXIT_SUCCESS ? status : write_all(audit, wish);
}

int command_audit(int argc, char **argv)
{
    static struct audit_wish wish;
    struct audit audit;
    if (!audit_wish_parse(argc, argv, &wish)) {
        usage_error("audit");
        return EXIT_RUN_FAILED;
    }
    if (wish.help)
        return print_help(help);
    if (wish.version)
        return print_version();
    audit = (struct audit){.command = wish.command, .limit_ns = wish.limit_ns};
    /* Waits are measured, so no time may stand still; and what is provoked is nobody's incident. */
    unsetenv("SOCKFUSE_CLOCK");
    unsetenv("SOCKFUSE_LOG");
    audit_streams_begin();
    staged_runs_begin();
    const int status = audit_command(&audit, &wish);
    for (size_t i = 0; i < audit.run_count; i++)
        free(audit.runs[i].findings);
    free(audit.runs);
    free(audit.destinations);
    staged_runs_end();
    return status;
}
