/*
 * force.c - `sockfuse open`, `close` and `auto`: an operator's word over live circuits.
 *
 * Acts on every policy in use that has the destination, and says for each circuit what it did. The word is obeyed by
 * running processes with their next call. One file for the three, which differ in the word alone.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/destination.h"
#include "cli/rows.h"
#include "cli/select.h"
#include "cli/table.h"
#include "cli/who.h"
#include "segment/circuits.h"
#include "segment/clock.h"
#include "segment/force.h"

static const char help_end[] =
    "\n"
    "DEST is a destination as `sockfuse status` shows it (HOST:PORT, ADDRESS:PORT, [V6]:PORT, unix:/PATH), or a\n"
    "target's name, which stands for all its circuits. Every policy in use that has DEST obeys, and all its running\n"
    "processes at once. The journal notes who did it (sockfuse events).\n"
    "\n"
    "  -p, --policy FILE  only those of this policy, also when it is not in use yet\n"
    "  -h, --help         this text\n"
    "      --version      the version\n"
    "\n"
    "Exit status 0: done, 1: no circuit was found or one can't be reached, 2: wrong usage.\n";

struct word {
    enum forced forced;
    const char *name, *help;
};

static const struct word words[FORCED_WORDS] = {
    [FORCED_NONE] = {FORCED_NONE, "auto",
                     "Usage: sockfuse auto [-p FILE] DEST\n"
                     "Gives a circuit back that `sockfuse open` or `sockfuse close` forced: from now on it\n"
                     "goes by its own rules again.\n"},
    [FORCED_OPEN] = {FORCED_OPEN, "open",
                     "Usage: sockfuse open [-p FILE] DEST\n"
                     "Forces a circuit open: every call to DEST fails at once, until `sockfuse close` or\n"
                     "`sockfuse auto`.\n"},
    [FORCED_CLOSED] = {FORCED_CLOSED, "close",
                       "Usage: sockfuse close [-p FILE] DEST\n"
                       "Forces a circuit closed: no call to DEST is refused, whatever fails, until `sockfuse open` or\n"
                       "`sockfuse auto`. Failures counted so far are forgotten.\n"},
};

/* One command's run. */
struct order {
    const struct word *word;
    const char *text; /* DEST as it was given */
    struct destination destination;
    bool is_destination; /* else it can be a target's name alone */
    struct guard command;
    char user[PROGRAM_NAME_MAX];
    uint64_t now_ns;
    unsigned int done, failed;
};

static void say(const char *destination, const char *target, const char *what, const char *before)
{
    print_safely(destination, stdout);
    if (strcmp(destination, target) != 0) {
        fputs(" (", stdout);
        print_safely(target, stdout);
        fputc(')', stdout);
    }
    printf(": %s%s%s\n", what, before != NULL ? ", was " : "", before != NULL ? before : "");
}

/* The state that calls meet, as status has it. */
static const char *state_now(const struct segment *segment, const struct policy *policy, const char *target,
                             const char *destination, uint64_t now_ns)
{
    struct rows rows;
    const char *name = circuit_state_name(CIRCUIT_CLOSED);
    rows_collect(&rows, segment, policy, now_ns);
    for (size_t i = 0; i < rows.count; i++) {
        if (strcmp(rows.at[i].target_name, target) == 0 && strcmp(rows.at[i].destination, destination) == 0)
            name = circuit_state_name(row_state(&rows.at[i]));
    }
    rows_free(&rows);
    return name;
}

/* --- one circuit -------------------------------------------------------------------------------------------------- */

static void force(struct order *order, struct segment *segment, const struct policy *policy,
                  const struct target *target, const char *target_name, const char *destination)
{
    const enum forced forced = order->word->forced;
    const char *before = state_now(segment, policy, target_name, destination, order->now_ns);
    uint32_t circuit = circuits_find(segment, target_name, destination, order->now_ns);
    if (circuit == CIRCUIT_INDEX_NONE) {
        warnx("%s: there is no place for one more circuit in %s", destination, segment->path);
        order->failed++;
        return;
    }
    order->done++;
    if (target != NULL && target->mode == MODE_OFF)
        warnx("%s: target [%s] has mode = off, so its calls pass unguarded, forced or not", destination, target_name);
    if (force_get(segment, circuit) == forced) {
        say(destination, target_name,
            forced == FORCED_NONE   ? "was not forced"
            : forced == FORCED_OPEN ? "is forced open already"
                                    : "is forced closed already",
            NULL);
        return;
    }
    order->command.segment = segment;
    enum forced former = force_set(&order->command, order->user, circuit, forced,
                                   target != NULL ? target->mode : MODE_ENFORCE, order->now_ns);
    if (forced == FORCED_NONE) {
        const char *after = state_now(segment, policy, target_name, destination, order->now_ns);
        char *what = format_text("given back, now %s", after);
        say(destination, target_name, what, former == FORCED_OPEN ? "forced open" : "forced closed");
        free(what);
    } else {
        say(destination, target_name, forced == FORCED_OPEN ? "forced open" : "forced closed",
            former == FORCED_OPEN     ? "forced open"
            : former == FORCED_CLOSED ? "forced closed"
                                      : before);
    }
}

/* --- one policy --------------------------------------------------------------------------------------------------- */

/* What of one policy is meant: circuits that stand, and one that DEST would have. */
struct meant {
    struct rows rows;
    struct policy_match match; /* target NULL: none */
    char destination[DESTINATION_MAX];
    bool any, hidden, nameless;
};

static bool is_meant(const struct order *order, const struct row *row)
{
    return strcmp(row->target_name, order->text) == 0 ||
           (order->is_destination && strcmp(row->destination, order->destination.text) == 0);
}

static bool is_hidden(const struct target *target, bool called)
{
    return !called && target != NULL && target->scope == SCOPE_PROCESS;
}

static void find_meant(struct meant *meant, const struct order *order, const struct segment *segment,
                       const struct policy *policy)
{
    const char *const names[] = {order->destination.name};
    *meant = (struct meant){.match = {.target = NULL}};
    rows_collect(&meant->rows, segment, policy, order->now_ns);
    for (size_t i = 0; i < meant->rows.count; i++) {
        const struct row *row = &meant->rows.at[i];
        if (!is_meant(order, row))
            continue;
        if (is_hidden(row->target, row->called))
            meant->hidden = true;
        else if (row->destination[0] == '\0')
            meant->nameless = true;
        else
            meant->any = true;
    }
    if (meant->any || meant->hidden || policy == NULL || !order->is_destination ||
        !policy_match(policy, &order->destination.endpoint, names, order->destination.name != NULL, &meant->match))
        return;
    meant->hidden = is_hidden(meant->match.target, false);
    meant->any = !meant->hidden && policy_destination(&meant->match, &order->destination.endpoint, names,
                                                      meant->destination, sizeof meant->destination) > 0;
}

static void obey(struct order *order, const struct meant *meant, struct segment *segment, const struct policy *policy)
{
    if (meant->destination[0] != '\0') {
        force(order, segment, policy, meant->match.target, meant->match.target->name, meant->destination);
        return;
    }
    for (size_t i = 0; i < meant->rows.count; i++) {
        const struct row *row = &meant->rows.at[i];
        if (is_meant(order, row) && row->destination[0] != '\0' && !is_hidden(row->target, row->called))
            force(order, segment, policy, row->target, row->target_name, row->destination);
    }
}

/* The policy's segment, to write in: the one in use, or a fresh one for a policy that -p named. */
static bool open_segment(struct segment *segment, const struct selected *selected, const struct policy *policy,
                         struct state_places *places)
{
    struct segment_error *error = allocate(1, sizeof *error);
    const struct attaching attaching = {
        .identity = selected->identity, .capacity = policy != NULL ? &policy->capacity : NULL, .patient = true};
    bool opened = selected->segment.map != NULL
                      ? segment_open(segment, selected->segment.path, true, error)
                      : state_places_name(places, selected->identity) &&
                            segment_attach_first(segment, places, &attaching, error);
    if (error->text[0] != '\0')
        warnx("%s", error->text);
    free(error);
    return opened;
}

static void act_on(struct order *order, const struct selected *selected, struct state_places *places)
{
    char *why;
    struct policy *policy = policy_of_identity(selected->identity, &why);
    struct meant meant;
    if (policy == NULL)
        warnx("%s: %s; only circuits that stand can be found", selected->identity, why);
    find_meant(&meant, order, &selected->segment, policy);
    if (meant.hidden) {
        warnx("%s: each process of %s keeps this circuit to itself (scope = process), out of reach", order->text,
              selected->identity);
        order->failed++;
    }
    if (meant.nameless && !meant.any) {
        warnx("%s: no circuit of this target stands yet in %s, and its patterns leave open which there can be; name "
              "a destination", order->text, selected->identity);
        order->failed++;
    }
    if (meant.any) {
        struct segment *segment = allocate(1, sizeof *segment);
        if (open_segment(segment, selected, policy, places)) {
            obey(order, &meant, segment, policy);
            segment_detach(segment);
        } else {
            order->failed++;
        }
        free(segment);
    }
    rows_free(&meant.rows);
    policy_free(policy);
    free(why);
}

/* --- the commands ------------------------------------------------------------------------------------------------- */

static int act(struct order *order, const char *policy_file)
{
    struct selection selection;
    char why[DESTINATION_WHY_MAX];
    if (!clock_start(environment("SOCKFUSE_CLOCK")))
        warnx("SOCKFUSE_CLOCK: %s holds no eight bytes of time; the real clock serves", environment("SOCKFUSE_CLOCK"));
    order->is_destination = destination_read(&order->destination, order->text, why);
    order->now_ns = clock_circuit_ns();
    order->command.pid = (uint32_t)getpid();
    strcpy(order->command.program, "sockfuse");
    who_am_i(order->user);
    select_open(&selection, policy_file, false);
    if (selection.count == 0)
        tell_nothing_in_use(&selection, stderr);
    for (size_t i = 0; i < selection.count; i++)
        act_on(order, &selection.at[i], &selection.places);
    if (order->done == 0 && order->failed == 0 && selection.count > 0)
        warnx("%s: no policy in use has such a destination or target; sockfuse status lists them", order->text);
    select_close(&selection);
    destination_free(&order->destination);
    return finish_output(order->done > 0 && order->failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

static int command(int argc, char **argv, enum forced forced)
{
    static const struct option options[] = {
        COMMON_OPTIONS,
        {"policy", required_argument, NULL, 'p'},
        {NULL, 0, NULL, 0},
    };
    static struct order order;
    const char *policy_file = NULL;
    order.word = &words[forced];
    for (int letter; (letter = getopt_long(argc, argv, "hp:", options, NULL)) != -1;) {
        switch (letter) {
        case 'h':
            printf("%s", order.word->help);
            return print_help(help_end);
        case OPTION_VERSION:
            return print_version();
        case 'p':
            policy_file = optarg;
            break;
        default:
            return usage_error(order.word->name);
        }
    }
    if (optind + 1 != argc) {
        warnx("%s: %s", order.word->name, optind == argc ? "which destination? DEST is missing" : "one DEST at a time");
        return usage_error(order.word->name);
    }
    order.text = argv[optind];
    return act(&order, policy_file);
}

int command_open(int argc, char **argv)
{
    return command(argc, argv, FORCED_OPEN);
}

int command_close(int argc, char **argv)
{
    return command(argc, argv, FORCED_CLOSED);
}

int command_auto(int argc, char **argv)
{
    return command(argc, argv, FORCED_NONE);
}
