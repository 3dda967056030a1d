/*
 * observe.c - `sockfuse observe`: what a program and its children did to whom, at its end; or what a policy's circuits
 * have learnt so far.
 *
 * CMD runs under a policy made on the spot, which takes every destination, refuses nothing, and is this run's alone. It
 * is this process's child; the segment is read when it has ended, and removed.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/command_end.h"
#include "view/duration.h"
#include "view/json.h"
#include "cli/observation.h"
#include "cli/own_circuits.h"
#include "view/result_file.h"
#include "cli/run_request.h"
#include "cli/run_start.h"
#include "view/running.h"
#include "view/select.h"
#include "view/status_json.h"
#include "cli/suggestion.h"
#include "view/table.h"
#include "cli/unended.h"
#include "cli/watched_child.h"

static const char help[] =
    "Usage: sockfuse observe [--suggest FILE] [--force] [-o FILE] [--json] [--keep] [--] CMD [ARGUMENT]...\n"
    "       sockfuse observe -p FILE [--suggest FILE] [--force] [-o FILE] [--json]\n"
    "Runs CMD, refuses nothing, and says at its end what it and its children did to whom: no\n"
    "policy is needed. With -p: what the circuits of a policy in use have learnt so far.\n"
    "\n"
    "  -o, --output FILE   write the table there (without it: standard error; with -p standard\n"
    "                      output)\n"
    "      --json          as one JSON object\n"
    "      --suggest FILE  write a policy whose limits, thresholds and pauses come from what was\n"
    "                      seen, each with its reason\n"
    "      --force         replace a policy that is there\n"
    "      --keep          leave the circuits of CMD for sockfuse status and the others\n"
    "  -p, --policy FILE   of this policy, and run nothing\n" WHOSE_HELP "  -h, --help          this text\n"
    "      --version       the version\n"
    "\n"
    "  CALLS         attempts, and further requests on their connections\n"
    "  OK            of these, those that were answered\n"
    "  FAILED        by the peer's fault, as circuits judge it\n"
    "  NEUTRAL       ended so that they say nothing of the peer\n"
    "  LATE          of either kind, but after their circuit had opened or closed\n"
    "  UNENDED       have no end that was seen: they wait still, or their process was killed\n"
    "  REFUSED       by circuits that refuse (-p)\n"
    "  WAITED        the time that all calls together have waited, those without an end until now\n"
    "  AT ONCE       the most that waited at the same time, as far as it was seen\n"
    "  CONNECT       until the connection stood; ANSWER: until the first byte of the answer\n"
    "\n"
    "Meanwhile sockfuse status and calls show it from another terminal. Exit status: CMD's own;\n"
    "125: sockfuse failed, 126: CMD can't be executed, 127: CMD was not found.\n";

struct wish {
    struct whose choice;
    const char *output, *suggestion; /* NULL: not asked for */
    bool as_json, keep, force;
    char **command; /* NULL: of -p */
};

/* What is written about one segment. */
struct subject {
    const struct selected *selected;
    struct running running;
    struct rows rows;
};

static void subject_read(struct subject *subject, const struct selected *selected)
{
    subject->selected = selected;
    running_collect(&subject->running, selected);
    rows_collect_running(&subject->rows, &selected->segment, &subject->running, clock_circuit_ns());
}

static void subject_free(struct subject *subject)
{
    rows_free(&subject->rows);
    running_free(&subject->running);
}

/* --- what is written ---------------------------------------------------------------------------------------------- */

static void print_no_room(const struct segment *segment, FILE *out)
{
    const uint64_t unseen = segment_unguarded(segment);
    if (unseen > 0)
        fprintf(out, "%" PRIu64 " call%s not seen: there was no room (sockfuse status --json says for what).\n", unseen,
                unseen == 1 ? " was" : "s were");
}

static void print_subject(struct subject *subject, FILE *out)
{
    observation_sort(&subject->rows);
    if (subject->rows.count > 0)
        observation_print(&subject->rows, out);
    else
        fputs("No calls were seen.\n", out);
    print_no_room(&subject->selected->segment, out);
}

static void write_all(const struct wish *wish, struct subject *subjects, size_t count, const struct command_end *end,
                      FILE *out)
{
    struct json json;
    if (wish->as_json) {
        json_start(&json, out);
        json_open(&json, NULL, '{');
        command_end_json(&json, end);
        json_open(&json, "policies", '[');
        for (size_t i = 0; i < count; i++)
            status_json(&json, subjects[i].selected, &subjects[i].running, &subjects[i].rows);
        json_close(&json, ']');
        json_close(&json, '}');
        return;
    }
    if (end != NULL)
        command_end_print(end, out);
    for (size_t i = 0; i < count; i++) {
        if (wish->command == NULL)
            fprintf(out, "%s%s%s\n", i > 0 ? "\n" : "", shown(subjects[i].selected->identity),
                    subjects[i].selected->whose);
        print_subject(&subjects[i], out);
    }
}

/* False: it could not be written there, which was said. */
static bool deliver_table(const struct wish *wish, struct subject *subjects, size_t count,
                          const struct command_end *end)
{
    struct result_file result;
    if (!result_open(&result, wish->output, RESULT_MODE_USUAL))
        return false;
    write_all(wish, subjects, count, end, result.out);
    return result_close(&result);
}

/*
 * What was seen of a command goes to standard error if it can't go to its file. False: not all was written where it was
 * to be, which was said.
 */
static bool deliver(const struct wish *wish, struct subject *subjects, size_t count, const struct command_end *end)
{
    const bool is_filed = wish->output != NULL && deliver_table(wish, subjects, count, end);
    bool good = is_filed || wish->output == NULL;
    if (!is_filed && end != NULL) {
        setvbuf(stderr, NULL, _IOFBF, BUFSIZ);
        write_all(wish, subjects, count, end, stderr);
        fflush(stderr);
        setvbuf(stderr, NULL, _IONBF, 0);
    } else if (wish->output == NULL) {
        write_all(wish, subjects, count, NULL, stdout);
    }
    if (wish->suggestion != NULL && count > 0) {
        observation_sort(&subjects[0].rows);
        good = suggestion_write(wish->suggestion, wish->force, &subjects[0].rows,
                                wish->command != NULL ? wish->command[0] : subjects[0].selected->identity) &&
               good;
    }
    return good;
}

/* --- a command ---------------------------------------------------------------------------------------------------- */

static void look(void *unended)
{
    unended_look(unended, clock_circuit_ns());
}

static int become(void *start)
{
    return run_start_execute(start);
}

static int observe_command(const struct wish *wish)
{
    static struct run_request request;
    static struct run_start start;
    struct selected selected = {.identity = NULL};
    struct command_end end = {.command = wish->command};
    struct subject subject;
    own_circuits_ask(&request, wish->command);
    int status = run_start_prepare(&start, &request);
    if (status != EXIT_SUCCESS || !start.is_found)
        return status != EXIT_SUCCESS ? status : run_start_execute(&start);
    const bool is_seen = start.is_guarded && own_circuits_open(&selected, start.policy);
    struct unended *unended = is_seen ? unended_start(&selected.segment) : NULL;
    const struct watch watch = {.look = look, .context = unended, .every_ms = UNENDED_LOOK_MS};
    const uint64_t began_ns = clock_real_ns();
    pid_t pid;
    if (!watched_child_run(become, &start, is_seen ? &watch : NULL, &pid, &end.status)) {
        warn("%s is not started: there is no process for it", wish->command[0]);
        return EXIT_RUN_FAILED;
    }
    end.elapsed_ns = clock_real_ns() - began_ns;
    const uint64_t ended_ns = clock_circuit_ns();
    if (!is_seen) {
        warnx("nothing was seen of %s: its circuits could not be kept", wish->command[0]);
        return watched_child_end_as(end.status);
    }
    subject_read(&subject, &selected);
    unended_add(unended, &subject.rows, &selected.segment, pid, ended_ns);
    unended_free(unended);
    deliver(wish, &subject, 1, &end);
    own_circuits_give_back(&selected, start.policy, wish->keep, subject.running.process_count);
    subject_free(&subject);
    return watched_child_end_as(end.status);
}

/* --- a policy in use ---------------------------------------------------------------------------------------------- */

/* A policy that is not there is a mistake. */
static void tell_unused(const struct selection *selection, const struct wish *wish)
{
    struct running running;
    if (selection->count == 0)
        return; /* why was said */
    running_collect(&running, &selection->at[0]);
    if (running.file == NULL)
        warnx("%s: %s", selection->at[0].identity, running.file_why);
    else
        warnx("%s is not in use: its circuits have learnt nothing yet", wish->choice.policy_file);
    running_free(&running);
}

static int observe_policy(const struct wish *wish)
{
    struct selection selection;
    if (!clock_start(environment("SOCKFUSE_CLOCK")))
        warnx("SOCKFUSE_CLOCK: %s holds no eight bytes of time; the real clock serves", environment("SOCKFUSE_CLOCK"));
    select_open(&selection, &wish->choice, false);
    select_warn_of_builds(&selection);
    struct subject *subjects = allocate(selection.count, sizeof *subjects);
    size_t count = 0;
    bool good = !select_missed(&selection);
    for (size_t i = 0; i < selection.count; i++) {
        if (selection.at[i].segment.map == NULL)
            continue;
        if (select_has_time(&selection.at[i])) {
            struct subject *subject = &subjects[count++];
            subject_read(subject, &selection.at[i]);
            unended_add(NULL, &subject->rows, &selection.at[i].segment, 0, clock_circuit_ns());
        } else {
            good = false;
        }
        good = select_was_whole(&selection.at[i]) && good;
    }
    if (count == 0) {
        tell_unused(&selection, wish);
        good = false;
    } else if (count > 1 && wish->suggestion != NULL) {
        warnx("--suggest: several runs use %s; name one by its whole name, as sockfuse status shows it",
              wish->choice.policy_file);
        good = false;
    } else {
        good = deliver(wish, subjects, count, NULL) && good;
    }
    for (size_t i = 0; i < count; i++)
        subject_free(&subjects[i]);
    free(subjects);
    select_close(&selection);
    return finish_output(good ? EXIT_SUCCESS : EXIT_FAILURE);
}

/* --- the words ---------------------------------------------------------------------------------------------------- */

/* What goes together, and can be done in the end: better now than after an hour. False: it was said. */
static bool settle_wish(const struct wish *wish)
{
    if (wish->command == NULL && wish->choice.policy_file == NULL) {
        warnx("observe: which program? CMD is missing (or -p FILE, for a policy in use)");
        return false;
    }
    if (wish->command != NULL && (wish->choice.policy_file != NULL || wish->choice.user != NULL || wish->choice.mine)) {
        warnx("observe: -p, --user and --mine are about a policy in use; CMD needs none");
        return false;
    }
    if (wish->command == NULL && wish->keep) {
        warnx("observe: --keep is about CMD's own circuits");
        return false;
    }
    if (wish->output != NULL && wish->suggestion != NULL && strcmp(wish->output, wish->suggestion) == 0) {
        warnx("observe: -o and --suggest name the same file");
        return false;
    }
    return true;
}

/* False: a command's files can't be written, which was said. */
static bool may_deliver(const struct wish *wish)
{
    if (wish->suggestion != NULL && !suggestion_may_write(wish->suggestion, wish->force))
        return false;
    if (wish->command == NULL || ((wish->output == NULL || result_may_open(wish->output)) &&
                                  (wish->suggestion == NULL || result_may_open(wish->suggestion))))
        return true;
    warnx("%s is not started; name a file in a folder that can be written", wish->command[0]);
    return false;
}

int command_observe(int argc, char **argv)
{
    static const struct option options[] = {
        COMMON_OPTIONS,
        WHOSE_OPTIONS,
        {"output", required_argument, NULL, 'o'},
        {"json", no_argument, NULL, OPTION_JSON},
        {"suggest", required_argument, NULL, OPTION_SUGGEST},
        {"force", no_argument, NULL, OPTION_FORCE},
        {"keep", no_argument, NULL, OPTION_KEEP},
        {NULL, 0, NULL, 0},
    };
    struct wish wish = {.command = NULL};
    int letter;
    while ((letter = getopt_long(argc, argv, "+ho:" WHOSE_LETTERS, options, NULL)) != -1) {
        if (whose_take(&wish.choice, letter, optarg))
            continue;
        switch (letter) {
        case 'h':
            return print_help(help);
        case OPTION_VERSION:
            return print_version();
        case 'o':
            wish.output = optarg;
            break;
        case OPTION_JSON:
            wish.as_json = true;
            break;
        case OPTION_SUGGEST:
            wish.suggestion = optarg;
            break;
        case OPTION_FORCE:
            wish.force = true;
            break;
        case OPTION_KEEP:
            wish.keep = true;
            break;
        default:
            usage_error("observe");
            return EXIT_RUN_FAILED;
        }
    }
    wish.command = argv[optind] != NULL ? argv + optind : NULL;
    if (!settle_wish(&wish)) {
        usage_error("observe");
        return EXIT_RUN_FAILED;
    }
    if (!may_deliver(&wish))
        return EXIT_RUN_FAILED;
    return wish.command != NULL ? observe_command(&wish) : observe_policy(&wish);
}
