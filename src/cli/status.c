/*
 * status.c - `sockfuse status`: the circuits, and who is attached.
 *
 * Computes the state at reading (a circuit whose pause is over shows `open, probe due`) and changes nothing. Text for
 * people, or JSON with --json.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "view/circuit_page.h"
#include "view/circuits_text.h"
#include "cli/cli.h"
#include "view/destination.h"
#include "view/duration.h"
#include "view/fleet_text.h"
#include "view/inversions.h"
#include "view/monitor.h"
#include "view/rows.h"
#include "view/running.h"
#include "view/select.h"
#include "view/status_json.h"
#include "view/table.h"

static const char help[] = "Usage: sockfuse status [-p FILE] [--active] [--check] [--json] [DEST]\n"
                           "Shows the circuits of the policies in use, by the settings that running\n"
                           "programs go by, and the processes that are attached; with DEST, a destination or\n"
                           "a target's name, all that is known of its circuits.\n"
                           "\n"
                           "  -p, --policy FILE  only those of this policy\n" WHOSE_HELP
                           "      --active       leave out what is over: policies without a running program,\n"
                           "                     circuits marked (ended)\n"
                           "      --check        one line, and exit status 0: all are closed that a running program\n"
                           "                     uses, 1: one is not, 2: could not look\n"
                           "      --json         one JSON array, an object for each policy\n"
                           "  -h, --help         this text\n"
                           "      --version      the version\n"
                           "\n"
                           "  STATE         closed: calls pass; open: calls fail at once;\n"
                           "                open, probe due: the pause is over, the next call is the probe;\n"
                           "                half-open: a probe is on its way;\n"
                           "                (ended): history, no running program's policy has this target\n"
                           "                any more; (forced): by sockfuse open or close, until sockfuse\n"
                           "                auto or for the time that is left; by mode: by the policy;\n"
                           "                by fleet, check fails: held by the agent;\n"
                           "                observed: refuses nothing (mode = observe);\n"
                           "                rehearsal: the policy injects faults\n"
                           "  FAILURES      in a row, of how many open the circuit\n"
                           "  RATE          of the calls in the window, how many failed or were slow, when\n"
                           "                these are enough to be judged\n"
                           "  RETRY IN      until the next probe\n"
                           "  WAITING       calls in flight, and of them those beyond their limit\n"
                           "                (sockfuse calls lists them)\n"
                           "  OLDEST        for how long the first of them has waited\n"
                           "  CONNECTIONS   of all processes, of how many there may be (max_connections)\n"
                           "  CALLS         admitted so far; of them:\n"
                           "    FAILED      by the peer's fault\n"
                           "    NEUTRAL     ended so that they say nothing of the peer (given up early, a\n"
                           "                fault on this side)\n"
                           "    LATE        ended when the circuit had changed its state already\n"
                           "  REFUSED       calls that failed at once, besides\n"
                           "  LAST FAILURE  its kind, and when\n"
                           "  LAST MINUTE   the circuits whose calls ended in it: how many in a second; how long\n"
                           "                half of them (P50), and 95 of 100, waited at the most for what they\n"
                           "                got, the first byte of an answer (of success = connect: the\n"
                           "                connection); MAX: the longest wait, also of one that got nothing\n"
                           "  REVISION      of the policy that a program runs: another one than the file's\n"
                           "                after it was edited\n"
                           "\n"
                           "The circuits are in $SOCKFUSE_STATE; else in the first that can be used of\n"
                           "/run/sockfuse (root), $XDG_RUNTIME_DIR/sockfuse, /run/user/UID/sockfuse,\n"
                           "/dev/shm/sockfuse-UID and /tmp/sockfuse-UID.\n";

/* --- text --------------------------------------------------------------------------------------------------------- */

static const struct column process_columns[] = {
    {"PID", true}, {"PROGRAM", false}, {"SINCE", true}, {"REVISION", false}, {"", false},
};
#define PROCESS_COLUMNS (sizeof process_columns / sizeof *process_columns)

static void print_log_lost(const struct segment *segment)
{
    const uint64_t lost = segment_log_lost(segment);
    if (lost > 0)
        printf("  %" PRIu64 " line%s of the log (SOCKFUSE_LOG) could not be written.\n", lost, lost == 1 ? "" : "s");
}

/* What passed because there was no room for it, by reason. */
static void print_no_room(const struct segment *segment)
{
    const uint64_t circuits = segment_no_room(segment, NO_ROOM_CIRCUITS),
                   connections = segment_no_room(segment, NO_ROOM_CONNECTIONS),
                   processes = segment_no_room(segment, NO_ROOM_PROCESSES);
    if (circuits + connections + processes == 0)
        return;
    const uint64_t sum = circuits + connections + processes;
    printf("  %" PRIu64 " call%s passed unguarded, for there was no room:", sum, sum == 1 ? "" : "s");
    if (circuits > 0)
        printf(" %" PRIu64 " beyond %" PRIu32 " circuits", circuits, segment->capacity.circuits);
    if (connections > 0)
        printf("%s %" PRIu64 " beyond %" PRIu32 " connections", circuits > 0 ? "," : "", connections,
               segment->capacity.calls);
    if (processes > 0)
        printf("%s %" PRIu64 " beyond %" PRIu32 " processes", circuits + connections > 0 ? "," : "", processes,
               segment->capacity.processes);
    printf(" (capacity).\n");
}

/* How what a process runs stands to what the file says now. */
static const char *revision_note(const struct process_view *process, const struct running *running)
{
    const struct policy *policy = running->file;
    if (policy == NULL || policy->path == NULL) /* there is no file, or it can't be read */
        return "";
    if (running_takes(running, process))
        return "runs an earlier version of the policy, takes the file's with its next call";
    return process->revision != policy->revision ? "runs an earlier version of the policy (sockfuse reload)" : "";
}

static void print_processes(const struct running *running)
{
    struct table table;
    uint64_t now_ns = clock_wall_ns();
    table_start(&table, process_columns, PROCESS_COLUMNS);
    for (size_t i = 0; i < running->process_count; i++) {
        const struct process_view *process = &running->processes[i];
        char span[SPAN_TEXT_MAX];
        table_addf(&table, PLAIN, "%" PRIu32, process->pid);
        table_add(&table, PLAIN, process->program);
        table_add(&table, PLAIN, span_format(span_since(process->attached_ns, now_ns), span));
        table_addf(&table, PLAIN, "%08" PRIx32, (uint32_t)(process->revision >> 32));
        table_add(&table, YELLOW, revision_note(process, running));
    }
    fputc('\n', stdout);
    table_print(&table, stdout, 2);
}

/* How the file's present text gets to those that go by an earlier one. */
static void print_behind(unsigned int count, bool was_handed_over)
{
    const bool one = count == 1;
    printf("  The file was edited since: %u program%s go%s by what it said before, which is shown (", count,
           one ? "" : "s", one ? "es" : "");
    if (was_handed_over)
        printf("%s the file's with %s next call).\n", one ? "it takes" : "they take", one ? "its" : "their");
    else
        printf("sockfuse reload brings %s the file's).\n", one ? "it" : "them");
}

/* Whose settings are shown, where that is not plainly the file's. */
static void print_settings(const struct running *running)
{
    const unsigned int behind = running_behind(running);
    if (running->file == NULL) {
        fputs(running->shown == NULL ? "  The policy can't be read now, so its targets and limits are unknown: "
              : running->ended       ? "  The policy can't be read now; shown is what was in force last: "
                                     : "  The policy can't be read now; shown is what running programs go by: ",
              stdout);
        print_safely(running->file_why, stdout);
        fputc('\n', stdout);
    }
    if (behind > 0)
        print_behind(behind, running_taking(running) == behind);
    if (running_differ(running)) {
        fputs("  Running programs go by different revisions:", stdout);
        for (size_t i = 0; i < running->edition_count; i++)
            printf("%s %u by %08" PRIx32, i > 0 ? "," : "", running->editions[i].programs,
                   (uint32_t)(running->editions[i].revision >> 32));
        fputs("; circuits are shown by the first\n", stdout);
    }
    for (size_t i = 0; i < running->edition_count; i++) {
        const struct edition *edition = &running->editions[i];
        if (edition->policy != NULL)
            continue;
        printf("  What revision %08" PRIx32 " says, by which %u go%s, is unknown: ",
               (uint32_t)(edition->revision >> 32), edition->programs, edition->programs == 1 ? "es" : "");
        print_safely(edition->why, stdout);
        fputc('\n', stdout);
    }
}

/* Before the circuits, for these are not what they look like then: a restarted program goes on with them. */
static void print_ended(const struct running *running, const struct rows *rows)
{
    char span[SPAN_TEXT_MAX];
    bool any = false;
    for (size_t i = 0; i < rows->count; i++)
        any = any || rows->at[i].ended != ENDED_NOT;
    fputs("  No process is attached now", stdout);
    if (running->seen_ns != 0)
        printf("; one was last seen to start or end %s ago",
               span_format(span_since(running->seen_ns, clock_wall_ns()), span));
    fputs(any ? ": what follows is how it ended.\n" : ".\n", stdout);
}

static void print_policy(const struct selected *selected, const struct running *running, const struct rows *rows,
                         uint64_t now_ns)
{
    const struct policy *policy = running->file;
    bool coloured = colour_wanted(stdout);
    fputs(colour_start(BOLD, coloured), stdout);
    print_safely(selected->identity, stdout);
    printf("%s%s\n", colour_start(PLAIN, coloured), selected->whose);
    if (running->ended)
        print_ended(running, rows);
    print_settings(running);
    circuits_print(rows, running, now_ns);
    fleet_print(rows, &selected->segment, now_ns);
    print_no_room(&selected->segment);
    print_log_lost(&selected->segment);
    if (segment_apart(&selected->segment) > 0)
        printf("  %" PRIu64 " calls were guarded apart, by circuits of single programs: they could not open this file "
               "for a while.\n",
               segment_apart(&selected->segment));
    if (running->process_count > 0)
        print_processes(running);
    else if (running->ended)
        return;
    else if (policy != NULL && policy->has_process_scope && !policy->has_host_scope)
        printf("  Each process keeps circuits of its own (scope = process), which can't be seen from here.\n");
    else
        printf("  Not in use: no program was started under it yet. Start one: sockfuse run -p FILE -- CMD\n");
}

/* --- the command -------------------------------------------------------------------------------------------------- */

/* One command's run. */
struct view {
    struct json *json; /* NULL: text */
    bool active;       /* what is over is left out */
    unsigned int shown;
    struct monitor *monitor; /* NULL: not --check */
    const char *wanted;      /* a destination or a target's name; NULL: all */
    const char *destination; /* the same as circuits are called */
};

static void print_pages(const struct selected *selected, const struct rows *rows, uint64_t now_ns, struct view *view)
{
    for (size_t i = 0; i < rows->count; i++) {
        if (view->shown++ > 0)
            fputc('\n', stdout);
        circuit_page_print(selected, &rows->at[i], now_ns);
    }
}

/* Leaves out what is over. False: that is all. */
static bool keep_active(struct rows *rows, const struct running *running)
{
    size_t kept = 0;
    bool any = running->process_count > 0;
    for (size_t i = 0; i < rows->count; i++) {
        if (rows->at[i].ended != ENDED_NOT)
            continue;
        any = any || rows->at[i].forced != FORCED_NONE;
        rows->at[kept++] = rows->at[i];
    }
    rows->count = kept;
    return any;
}

/* False: the policy of -p is not in use, and can't be read either. */
static bool show(const struct selected *selected, struct view *view)
{
    struct running running;
    running_collect(&running, selected);
    bool usable = running.file != NULL || selected->segment.map != NULL;
    if (usable) {
        struct rows rows;
        uint64_t now_ns = clock_circuit_ns();
        rows_collect_running(&rows, &selected->segment, &running, now_ns);
        if ((view->active && !keep_active(&rows, &running)) ||
            (view->wanted != NULL && !rows_keep(&rows, view->wanted, view->destination))) {
            /* it is over, or not asked for */
        } else if (view->monitor != NULL) {
            monitor_add(view->monitor, &running, &rows);
            view->shown++;
        } else if (view->json != NULL) {
            status_json(view->json, selected, &running, &rows);
            view->shown++;
        } else if (view->wanted != NULL) {
            print_pages(selected, &rows, now_ns, view);
        } else {
            if (view->shown++ > 0)
                fputc('\n', stdout);
            print_policy(selected, &running, &rows, now_ns);
        }
        rows_free(&rows);
    } else {
        warnx("%s: %s", selected->identity, running.file_why);
    }
    running_free(&running);
    return usable;
}

/* Of what is damaged or closed to us nothing can be shown; that was said. */
static void show_unusable(const struct unusable *unusable, struct view *view)
{
    const bool is_known =
        unusable->was_read && (unusable->peek.kind == PEEK_OTHER_LAYOUT || unusable->peek.kind == PEEK_OTHER_BOOT);
    if (!is_known || view->monitor != NULL || view->wanted != NULL || (view->active && unusable_is_over(unusable)))
        return;
    if (view->json != NULL) {
        unusable_json(view->json, unusable);
        return;
    }
    if (view->shown++ > 0)
        fputc('\n', stdout);
    unusable_print(unusable);
}

static int show_all(const struct whose *choice, struct view *view)
{
    struct selection selection;
    struct json *json = view->json;
    int status = EXIT_SUCCESS;
    if (json != NULL)
        json_start(json, stdout);
    if (!clock_start(environment("SOCKFUSE_CLOCK")))
        warnx("SOCKFUSE_CLOCK: %s holds no eight bytes of time; the real clock serves", environment("SOCKFUSE_CLOCK"));
    select_open(&selection, choice, false);
    if (json != NULL)
        json_open(json, NULL, '[');
    else if (view->monitor == NULL && view->wanted == NULL && selection.count + selection.unusables.count == 0)
        tell_nothing_in_use(&selection, stdout);
    for (size_t i = 0; i < selection.count; i++) {
        if (!select_has_time(&selection.at[i]) || !show(&selection.at[i], view) || !select_was_whole(&selection.at[i]))
            status = EXIT_FAILURE;
    }
    for (size_t i = 0; i < selection.unusables.count; i++)
        show_unusable(&selection.unusables.at[i], view);
    if (json != NULL)
        select_warn_of_builds(&selection);
    if (select_missed(&selection))
        status = EXIT_FAILURE;
    if (json != NULL)
        json_close(json, ']');
    else if (view->monitor != NULL)
        status = monitor_print(view->monitor, status != EXIT_SUCCESS);
    else if (view->active && view->wanted == NULL && view->shown == 0 && selection.count > 0 && status == EXIT_SUCCESS)
        printf("No program runs under a policy now.\n");
    if (view->wanted != NULL && view->shown > 0 && json == NULL && view->monitor == NULL)
        inversions_tell(&selection, view->destination);
    if (view->wanted != NULL && view->shown == 0 && view->monitor == NULL) {
        warnx("%s: no policy in use has such a circuit or target (a policy is named with -p FILE)", view->wanted);
        status = EXIT_FAILURE;
    }
    select_close(&selection);
    return finish_output(status);
}

int command_status(int argc, char **argv)
{
    static const struct option options[] = {
        COMMON_OPTIONS,
        WHOSE_OPTIONS,
        {"active", no_argument, NULL, OPTION_ACTIVE},
        {"check", no_argument, NULL, OPTION_CHECK},
        {"json", no_argument, NULL, OPTION_JSON},
        {NULL, 0, NULL, 0},
    };
    static struct json json;
    struct whose choice = {.policy_file = NULL};
    struct view view = {.json = NULL};
    struct monitor monitor = {0};
    struct destination destination;
    char why[DESTINATION_WHY_MAX];
    int letter;
    while ((letter = getopt_long(argc, argv, "h" WHOSE_LETTERS, options, NULL)) != -1) {
        if (whose_take(&choice, letter, optarg))
            continue;
        switch (letter) {
        case OPTION_ACTIVE:
            view.active = true;
            break;
        case OPTION_CHECK:
            view.monitor = &monitor;
            break;
        case OPTION_JSON:
            view.json = &json;
            break;
        default:
            return common_option("status", help, letter);
        }
    }
    if (optind + 1 < argc)
        return unexpected_word("status", argv[optind + 1]);
    if (view.monitor != NULL && view.json != NULL) {
        warnx("status: --check and --json exclude each other");
        return usage_error("status");
    }
    if (optind == argc)
        return show_all(&choice, &view);
    view.wanted = argv[optind];
    view.destination = destination_read(&destination, view.wanted, why) ? destination.text : view.wanted;
    const int status = show_all(&choice, &view);
    destination_free(&destination);
    return status;
}
