/*
 * force.c - `sockfuse open`, `close` and `auto`: an operator's word over live circuits.
 *
 * Acts on every policy in use that has the destination, and says for each circuit what it did. The word is obeyed by
 * running processes with their next call. One file for the three, which differ in the word alone.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/audience.h"
#include "cli/cli.h"
#include "cli/destination.h"
#include "cli/duration.h"
#include "cli/meant.h"
#include "cli/rows.h"
#include "cli/select.h"
#include "cli/table.h"
#include "cli/who.h"
#include "guard/operator.h"
#include "policy/value.h"
#include "segment/circuits.h"

static const char help_end[] =
    "\n"
    "DEST is a destination as `sockfuse status` shows it (HOST:PORT, ADDRESS:PORT, [V6]:PORT, unix:/PATH), or a\n"
    "target's name, which stands for all its circuits. Every policy in use that has DEST obeys, and all its running\n"
    "processes at once; how many these are is said, and who of them is not reached, and why. The journal notes who\n"
    "did it (sockfuse events).\n"
    "\n"
    "  -p, --policy FILE  only those of this policy. One that is not in use yet is told beforehand: the first program\n"
    "                     that starts under it obeys; since nobody runs, the exit status is 1 all the same\n" WHOSE_HELP
    "%s"
    "  -h, --help         this text\n"
    "      --version      the version\n"
    "\n"
    "Exit status 0: every DEST was reached, 1: one has no circuit, can't be reached, or no program that runs obeys,\n"
    "2: wrong usage.\n";
static const char help_for_time[] =
    "      --for TIME     for so long (90s, 10m, 2h); then it goes by its own rules again, by itself\n";

struct word {
    enum forced forced;
    const char *name, *help;
};

static const struct word words[FORCED_WORDS] = {
    [FORCED_NONE] = {FORCED_NONE, "auto",
                     "Usage: sockfuse auto [-p FILE] DEST...\n"
                     "Gives a circuit back that `sockfuse open` or `sockfuse close` forced: from now on it\n"
                     "goes by its own rules again.\n"},
    [FORCED_OPEN] = {FORCED_OPEN, "open",
                     "Usage: sockfuse open [-p FILE] [--for TIME] DEST...\n"
                     "Forces a circuit open: every call to DEST fails at once, until `sockfuse close` or\n"
                     "`sockfuse auto`, or for a time.\n"},
    [FORCED_CLOSED] = {FORCED_CLOSED, "close",
                       "Usage: sockfuse close [-p FILE] [--for TIME] DEST...\n"
                       "Forces a circuit closed: no call to DEST is refused, whatever fails, until `sockfuse open` or\n"
                       "`sockfuse auto`, or for a time. Failures counted so far are forgotten.\n"},
};

static const struct value_rule time_rule = {.type = VALUE_DURATION, .minimum = NS_PER_MS, .maximum = 365 * NS_PER_DAY};

/* One command's run. */
struct order {
    const struct word *word;
    uint64_t for_ns; /* 0: without an end */
    struct guard command;
    char user[PROGRAM_NAME_MAX];
    uint64_t now_ns;
    char **acted; /* circuits that were seen to: of two DEST that mean the same one is done */
    size_t acted_count;
    /* Of the present DEST: */
    const char *text; /* as it was given */
    struct destination destination;
    bool is_first;
    bool is_destination;              /* else it can be a target's name alone */
    unsigned int done, failed, again; /* circuits */
    size_t reached;                   /* processes */
};

/* --- one circuit -------------------------------------------------------------------------------------------------- */

static void say(const struct audience *audience, const char *destination, const char *target, const char *what,
                const char *before)
{
    print_safely(destination, stdout);
    if (strcmp(destination, target) != 0) {
        fputs(" (", stdout);
        print_safely(target, stdout);
        fputc(')', stdout);
    }
    printf("%s: %s%s%s", audience->which, what, before != NULL ? ", was " : "", before != NULL ? before : "");
}

/* The state that calls meet, as status has it. */
static const char *state_now(const struct audience *audience, const char *target, const char *destination,
                             uint64_t now_ns)
{
    struct rows rows;
    const char *name = circuit_state_name(CIRCUIT_CLOSED);
    rows_collect_running(&rows, audience->segment, audience->running, now_ns);
    for (size_t i = 0; i < rows.count; i++) {
        if (strcmp(rows.at[i].target_name, target) == 0 && strcmp(rows.at[i].destination, destination) == 0)
            name = circuit_state_name(row_state(&rows.at[i]));
    }
    rows_free(&rows);
    return name;
}

/* Whether the circuit was seen to before. */
static bool is_again(struct order *order, const struct audience *audience, const char *target, const char *destination)
{
    char *key = format_text("%s\n%s\n%s", audience->segment->path, target, destination);
    for (size_t i = 0; i < order->acted_count; i++) {
        if (strcmp(order->acted[i], key) == 0) {
            free(key);
            order->again++;
            return true;
        }
    }
    order->acted = grow(order->acted, order->acted_count, sizeof *order->acted);
    order->acted[order->acted_count++] = key;
    return false;
}

static struct force force_wanted(const struct order *order)
{
    return (struct force){order->word->forced, order->for_ns != 0 ? order->now_ns + order->for_ns : 0};
}

/* "forced open", or with what is left of its time; to be freed. */
static char *describe(struct force force, uint64_t now_ns)
{
    char span[SPAN_TEXT_MAX];
    const char *word = force.word == FORCED_OPEN ? "forced open" : "forced closed";
    return force.end_ns != 0 ? format_text("%s for %s more", word, span_format(force.end_ns - now_ns, span))
                             : copy_text(word);
}

/* Sets the word, and says what it was and is. */
static void set_word(struct order *order, const struct audience *audience, uint32_t circuit, enum target_mode mode,
                     const char *target_name, const char *destination)
{
    const struct force wanted = force_wanted(order), present = force_read(audience->segment, circuit, order->now_ns);
    char *before = present.word != FORCED_NONE
                       ? describe(present, order->now_ns)
                       : copy_text(state_now(audience, target_name, destination, order->now_ns));
    char *what, span[VALUE_TEXT_MAX];
    const char *name = wanted.word == FORCED_OPEN ? "forced open" : "forced closed";
    if (present.word == wanted.word && present.end_ns == 0 && wanted.end_ns == 0) {
        what = wanted.word == FORCED_NONE ? copy_text("was not forced") : format_text("is %s already", name);
        say(audience, destination, target_name, what, NULL);
    } else {
        order->command.segment = audience->segment;
        force_set(&order->command, order->user, circuit, wanted, mode, order->now_ns);
        if (wanted.word == FORCED_NONE) {
            what = format_text("given back, now %s", state_now(audience, target_name, destination, order->now_ns));
        } else if (wanted.end_ns != 0) {
            value_format(&time_rule, order->for_ns, span, sizeof span);
            what = format_text("%s for %s", name, span);
        } else {
            what = copy_text(name);
        }
        say(audience, destination, target_name, what, before);
    }
    free(what);
    free(before);
}

static void force(struct order *order, struct audience *audience, const struct meant_circuit *circuit_meant)
{
    const char *target_name = circuit_meant->target_name, *destination = circuit_meant->destination;
    if (is_again(order, audience, target_name, destination))
        return;
    uint32_t circuit = circuits_find(audience->segment, target_name, destination, order->now_ns);
    if (circuit == CIRCUIT_INDEX_NONE) {
        warnx("%s: there is no place for one more circuit in %s", destination, audience->segment->path);
        order->failed++;
        return;
    }
    order->done++;
    set_word(order, audience, circuit, circuit_meant->mode, target_name, destination);
    audience_gather(audience);
    size_t reached = audience_tell(audience, destination, target_name);
    order->reached += reached;
    if (reached == 0) {
        fflush(stdout);
        audience_tell_nobody(audience, destination, order->word->forced != FORCED_NONE);
    }
}

/* --- one policy --------------------------------------------------------------------------------------------------- */

static void obey(struct order *order, const struct meant *meant, struct audience *audience)
{
    for (size_t i = 0; i < meant->count && select_has_time(audience->selected); i++)
        force(order, audience, &meant->at[i]);
}

/* The policy's segment, to write in: the one in use, or a fresh one for a policy that -p named. */
static bool open_segment(struct segment *segment, const struct selected *selected, const struct policy *policy,
                         struct state_places *places)
{
    struct segment_error *error = allocate(1, sizeof *error);
    const struct attaching attaching = {
        .identity = selected->identity, .capacity = policy != NULL ? &policy->capacity : NULL, .patient = true};
    bool opened = selected->segment.map != NULL ? select_to_write(segment, selected, error)
                                                : state_places_name(places, selected->identity) &&
                                                      segment_attach_first(segment, places, &attaching, error);
    if (error->text[0] != '\0')
        warnx("%s", error->text);
    free(error);
    return opened;
}

static void act_in(struct order *order, const struct meant *meant, struct audience *audience,
                   struct selection *selection)
{
    struct segment *segment = allocate(1, sizeof *segment);
    if (open_segment(segment, audience->selected, audience->running->file, &selection->places)) {
        audience->segment = segment;
        audience->others_unusable = select_missed(selection);
        obey(order, meant, audience);
        select_detach(segment);
    } else {
        order->failed++;
    }
    free(segment);
}

static void act_on(struct order *order, const struct selected *selected, struct selection *selection)
{
    struct running running;
    struct audience audience;
    struct meant meant;
    running_collect(&running, selected);
    if (running.file == NULL && order->is_first)
        warnx("%s: %s; only circuits of running programs can be found", selected->identity, running.file_why);
    audience_know(&audience, selected, &running);
    meant_find(&meant, order->text, order->is_destination ? &order->destination : NULL, &audience, order->now_ns);
    if (meant.hidden && meant.count == 0) {
        warnx("%s: each process of %s keeps this circuit to itself (scope = process), out of reach", order->text,
              selected->identity);
        order->failed++;
    }
    if (meant.nameless && meant.count == 0) {
        warnx(order->is_destination
                  ? "%s: each of its addresses has a circuit of its own in %s (circuit = address); name an address"
                  : "%s: no circuit of this target stands yet in %s, and its patterns leave open which there can be; "
                    "name a destination",
              order->text, selected->identity);
        order->failed++;
    }
    if (meant.count > 0)
        act_in(order, &meant, &audience, selection);
    meant_free(&meant);
    audience_free(&audience);
    running_free(&running);
}

/* --- the commands ------------------------------------------------------------------------------------------------- */

/* False: it was not done. */
static bool act_on_destination(struct order *order, struct selection *selection)
{
    char why[DESTINATION_WHY_MAX];
    order->done = order->failed = order->again = 0;
    order->reached = 0;
    order->is_destination = destination_read(&order->destination, order->text, why);
    for (size_t i = 0; i < selection->count; i++) {
        if (select_has_time(&selection->at[i]))
            act_on(order, &selection->at[i], selection);
        order->failed += !select_has_time(&selection->at[i]) || !select_was_whole(&selection->at[i]);
    }
    if (order->done + order->failed + order->again == 0 && selection->count > 0)
        warnx("%s: no policy in use has such a destination or target; sockfuse status lists them", order->text);
    destination_free(&order->destination);
    /* What was seen to before was counted there. */
    return order->failed == 0 && (order->done > 0 ? order->reached > 0 : order->again > 0);
}

static int act(struct order *order, const struct whose *choice, char **destinations)
{
    struct selection selection;
    bool good = true;
    if (!clock_start(environment("SOCKFUSE_CLOCK")))
        warnx("SOCKFUSE_CLOCK: %s holds no eight bytes of time; the real clock serves", environment("SOCKFUSE_CLOCK"));
    order->now_ns = clock_circuit_ns();
    order->command.pid = (uint32_t)getpid();
    strcpy(order->command.program, "sockfuse");
    who_am_i(order->user);
    select_open(&selection, choice, false);
    select_warn_of_builds(&selection);
    const bool missed = select_missed(&selection);
    if (selection.count == 0)
        tell_nothing_in_use(&selection, stderr);
    for (order->is_first = true; *destinations != NULL; destinations++, order->is_first = false) {
        order->text = *destinations;
        good = act_on_destination(order, &selection) && good;
    }
    select_close(&selection);
    for (size_t i = 0; i < order->acted_count; i++)
        free(order->acted[i]);
    free(order->acted);
    return finish_output(good && !missed ? EXIT_SUCCESS : EXIT_FAILURE);
}

static bool read_time(struct order *order, const char *text)
{
    char why[DESTINATION_WHY_MAX];
    if (value_parse(&time_rule, text, &order->for_ns, why, sizeof why))
        return true;
    warnx("%s --for %s: %s", order->word->name, text, why);
    return false;
}

static int help(const struct word *word)
{
    char *end = format_text(help_end, word->forced != FORCED_NONE ? help_for_time : "");
    printf("%s", word->help);
    int status = print_help(end);
    free(end);
    return status;
}

static int command(int argc, char **argv, enum forced forced)
{
    static const struct option options[] = {
        COMMON_OPTIONS,
        WHOSE_OPTIONS,
        {"for", required_argument, NULL, OPTION_FOR},
        {NULL, 0, NULL, 0},
    };
    static struct order order;
    struct whose choice = {.policy_file = NULL};
    order.word = &words[forced];
    for (int letter; (letter = getopt_long(argc, argv, "h" WHOSE_LETTERS, options, NULL)) != -1;) {
        if (whose_take(&choice, letter, optarg))
            continue;
        switch (letter) {
        case 'h':
            return help(order.word);
        case OPTION_VERSION:
            return print_version();
        case OPTION_FOR:
            if (forced == FORCED_NONE) {
                warnx("auto: --for is for open and close; what is given back stays so");
                return usage_error(order.word->name);
            }
            if (!read_time(&order, optarg))
                return usage_error(order.word->name);
            break;
        default:
            return usage_error(order.word->name);
        }
    }
    if (optind == argc) {
        warnx("%s: which destination? DEST is missing", order.word->name);
        return usage_error(order.word->name);
    }
    return act(&order, &choice, argv + optind);
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
