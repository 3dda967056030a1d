/*
 * reload.c - `sockfuse reload`: running programs take an edited policy, all of it or nothing.
 *
 * The file is validated here, as `check` does; what is handed over has no error in it. The programs take it with their
 * next call, on a new connection or on a kept one; circuits keep their state. What was given on a command line stays:
 * targets of -t are taken up again behind the file's, and options of -o over it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/reach.h"
#include "cli/resolve.h"
#include "view/rights.h"
#include "view/select.h"
#include "view/selected_policy.h"
#include "view/table.h"
#include "cli/who.h"
#include "guard/report.h"
#include "policy/flat.h"
#include "policy/identity.h"
#include "segment/editions.h"
#include "segment/handover.h"
#include "segment/processes.h"

static const char help[] =
    "Usage: sockfuse reload [-p FILE]\n"
    "Running programs take the edited policy with their next call: when they connect, or send a new request on a kept\n"
    "connection, which from then on goes by the target of the same name. A call that waits for its answer ends as it\n"
    "began. Circuits keep their state and history. A file with an error is handed to nobody: everything stays as it\n"
    "is.\n"
    "\n"
    "  -p, --policy FILE  only this policy; else all that are in use\n" WHOSE_HELP "  -h, --help         this text\n"
    "      --version      the version\n"
    "\n"
    "Targets of run -t and options of run -o stay in force over the edited file. Programs whose targets keep their\n"
    "circuits all to themselves (scope = process) keep their policy until they are started anew. `sockfuse status`\n"
    "shows which revision each program runs.\n"
    "\n"
    "Says how many programs run it now (it waits a second for them at most), and which have not taken it, and why.\n"
    "\n"
    "Exit status 0: done, 1: a policy has errors or can't be handed over, or no running program was reached, 2: wrong\n"
    "usage.\n";

static bool is_of_file(const char *identity)
{
    return identity[0] == '/';
}

/* The file of an identity; to be freed. */
static char *file_of(const struct policy *policy, const char *text)
{
    struct identity identity;
    if (policy != NULL && policy->path != NULL)
        return copy_text(policy->path);
    if (!identity_read(&identity, text))
        no_memory();
    char *file = copy_text(identity.path != NULL ? identity.path : text);
    identity_free(&identity);
    return file;
}

/* Several runs of one file, with other options each, suffer from the same mistake; it is said once. */
static bool is_told(const char *file, const struct policy_problems *problems)
{
    static char *last;
    char *present = copy_text(file);
    for (size_t i = 0; i < problems->count; i++) {
        char *longer = format_text("%s\n%u %s", present, problems->at[i].line, problems->at[i].text);
        free(present);
        present = longer;
    }
    const bool is_one = problems->count > 0 && last != NULL && strcmp(last, present) == 0;
    free(last);
    last = present;
    return is_one;
}

/* Hosts of `fallback` are resolved here: a running program's own resolver was asked for those of the old policy. */
static void resolve_fallbacks(struct policy *policy)
{
    char *words = resolve_names(policy), *place = NULL;
    for (char *word = words != NULL ? strtok_r(words, " ", &place) : NULL; word != NULL;
         word = strtok_r(NULL, " ", &place)) {
        char *addresses = strchr(word, '='), *more = NULL;
        if (addresses == NULL)
            continue;
        *addresses++ = '\0';
        for (char *text = strtok_r(addresses, ",", &more); text != NULL; text = strtok_r(NULL, ",", &more)) {
            struct endpoint endpoint;
            char *with_port = format_text(strchr(text, ':') != NULL ? "[%s]:1" : "%s:1", text);
            if (endpoint_parse(&endpoint, with_port))
                policy_resolve_fallbacks(policy, word, &endpoint);
            free(with_port);
        }
    }
    free(words);
}

/* What became of it in one policy's programs. */
struct told {
    const struct reach *reach;
    uint32_t number;
    uint64_t revision;
};

/* " ... : pid 12 (curl)" of those that take it later, if there are any; returns how many. */
static size_t tell_later(const struct told *told, bool stopped)
{
    struct naming names = {0};
    for (size_t i = 0; i < told->reach->count; i++) {
        const struct attached *process = &told->reach->at[i];
        if (!reach_runs(process, told->revision) && reach_why_not(process, told->number) == NULL &&
            process->is_stopped == stopped)
            naming_add(&names, process, process->is_waiting ? "in a call" : NULL);
    }
    size_t count = names.count;
    if (count > 0)
        printf("  %zu %s: %s\n", count,
               stopped      ? count == 1 ? "is stopped, and takes it with its next call when it goes on"
                                         : "are stopped, and take it with their next call when they go on"
               : count == 1 ? "takes it with its next call"
                            : "take it with their next call",
               naming_text(&names));
    naming_free(&names);
    return count;
}

/* Who has not taken it and will not, and why. */
static void tell_never(const struct told *told)
{
    for (size_t i = 0; i < told->reach->count; i++) {
        const struct attached *process = &told->reach->at[i];
        const char *why = reach_runs(process, told->revision) ? NULL : reach_why_not(process, told->number);
        struct naming name = {0};
        if (why == NULL)
            continue;
        naming_add(&name, process, NULL);
        printf("  not taken by %s: %s\n", naming_text(&name), why);
        naming_free(&name);
    }
}

/* Who runs it, who may, and who will not. Returns how many it reached. */
static size_t tell(const struct segment *segment, const struct policy *policy, const struct selected *selected)
{
    /* How long others' programs are waited for, all together: what they say of themselves may be a lie. */
    static uint64_t left_for_others_ns = 5 * NS_PER_S;
    uint64_t left_ns = NS_PER_S;
    struct reach reach;
    struct told told = {&reach, atomic_load_explicit(handover_number(segment), memory_order_relaxed), policy->revision};
    size_t running = 0;
    reach_wait_for_reload(&reach, segment, told.number, told.revision,
                          selected->is_foreign ? &left_for_others_ns : &left_ns);
    for (size_t i = 0; i < reach.count; i++)
        running += reach_runs(&reach.at[i], told.revision);
    print_safely(policy->identity, stdout);
    printf("%s: revision %016" PRIx64 " handed over; ", selected->whose, policy->revision);
    if (reach.count == 0)
        printf("no program runs under it now\n");
    else if (running == reach.count)
        printf("%s run%s it now\n", programs(running), running == 1 ? "s" : "");
    else
        printf("%zu of %s run%s it now\n", running, programs(reach.count), running == 1 ? "s" : "");
    size_t later = tell_later(&told, false) + tell_later(&told, true);
    tell_never(&told);
    reach_free(&reach);
    return running + later;
}

/* False: it can't be handed over. */
static bool hand_over(const struct selected *selected, const struct policy *policy, size_t *reached)
{
    static struct guard command;
    struct segment *segment = allocate(1, sizeof *segment);
    struct segment_error *error = allocate(1, sizeof *error);
    char user[PROGRAM_NAME_MAX];
    size_t size;
    void *bytes = policy_flatten(policy, &size);
    bool done = false;
    if (bytes == NULL)
        warnx("%s: the policy is too large to be handed over", policy->identity);
    else if (!select_to_write(segment, selected, error))
        warnx("%s", error->text);
    else {
        editions_keep(segment, policy->revision, policy->text, true);
        done = (selected->is_foreign ? handover_write_soon : handover_write)(segment, bytes, size, error);
        if (!done)
            warnx("%s", error->text);
    }
    if (done) {
        who_am_i(user);
        command.segment = segment;
        command.pid = (uint32_t)getpid();
        strcpy(command.program, "sockfuse");
        report_reload(&command, user, policy->revision, clock_circuit_ns());
        *reached += tell(segment, policy, selected);
    }
    if (segment->map != NULL)
        select_detach(segment);
    free(bytes);
    free(error);
    free(segment);
    return done;
}

/* False: it has errors, or can't be handed over. */
static bool reload(const struct selected *selected, size_t *reached)
{
    struct policy_problems problems = {0};
    struct policy *policy = policy_load_selected(selected, &problems);
    char *file = file_of(policy, selected->identity);
    bool done = policy != NULL;
    if (policy != NULL)
        policy_check_order(policy, &problems);
    if (!is_told(file, &problems))
        print_problems(file, &problems);
    if (policy == NULL && problems.count == 0)
        warnx("%s%s: it can't be read with that user's rights", file, selected->whose);
    if (policy == NULL) {
        warnx("%s%s: nothing is changed: its programs run on with the policy that they have", selected->identity,
              selected->whose);
    } else if (selected->segment.map == NULL) {
        print_safely(file, stdout);
        printf(": good, and nothing to do: no program runs under it%s\n",
               policy->has_process_scope && !policy->has_host_scope ? ", or each keeps its circuits to itself" : "");
    } else {
        /* Nobody's names are asked for with more rights than he has. */
        if (!selected->is_foreign || rights_take(selected->uid)) {
            resolve_fallbacks(policy);
            if (selected->is_foreign)
                rights_return();
        }
        done = hand_over(selected, policy, reached);
    }
    policy_problems_free(&problems);
    policy_free(policy);
    free(file);
    return done;
}

static int reload_all(const struct whose *choice)
{
    struct selection selection;
    size_t count = 0, reached = 0;
    bool good = true;
    if (!clock_start(environment("SOCKFUSE_CLOCK")))
        warnx("SOCKFUSE_CLOCK: %s holds no eight bytes of time; the real clock serves", environment("SOCKFUSE_CLOCK"));
    select_open(&selection, choice, false);
    select_warn_of_builds(&selection);
    good = !select_missed(&selection);
    for (size_t i = 0; i < selection.count; i++) {
        /* Targets of -t alone can't be edited. */
        if (!is_of_file(selection.at[i].identity))
            continue;
        good = select_has_time(&selection.at[i]) && reload(&selection.at[i], &reached) && good;
        good = select_was_whole(&selection.at[i]) && good;
        count++;
    }
    if (count == 0 && good)
        warnx("no policy file is in use: there is nothing to reload");
    flush_output(); /* what was done stands before what was not */
    if (count > 0 && good && reached == 0)
        warnx("no running program was reached");
    select_close(&selection);
    return finish_output(good && reached > 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

int command_reload(int argc, char **argv)
{
    static const struct option options[] = {
        COMMON_OPTIONS,
        WHOSE_OPTIONS,
        {NULL, 0, NULL, 0},
    };
    struct whose choice = {.policy_file = NULL};
    for (int letter; (letter = getopt_long(argc, argv, "h" WHOSE_LETTERS, options, NULL)) != -1;) {
        if (!whose_take(&choice, letter, optarg))
            return common_option("reload", help, letter);
    }
    if (optind < argc)
        return unexpected_word("reload", argv[optind]);
    return reload_all(&choice);
}
