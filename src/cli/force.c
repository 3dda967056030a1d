/*
 * force.c - `sockfuse open`, `close` and `auto`: an operator's word over live circuits.
 *
 * Acts on every policy in use that has the destination, and says for each circuit what it did. The word is obeyed by
 * running processes with their next call. One file for the three, which differ in the word alone.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "view/destination.h"
#include "cli/forcing.h"
#include "view/select.h"
#include "policy/value.h"

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
    "      --fleet        on all hosts of the fleet (scope = fleet): this host's agent tells them\n"
    "  -h, --help         this text\n"
    "      --version      the version\n"
    "\n"
    "Exit status 0: every DEST was reached, 1: one has no circuit, can't be reached, or no program that runs (with\n"
    "--fleet: no host) obeys, 2: wrong usage.\n";
static const char help_for_time[] =
    "      --for TIME     for so long (90s, 10m, 2h); then it goes by its own rules again, by itself\n";

struct word {
    enum forced forced;
    const char *name, *help;
};

static const struct word words[FORCED_WORDS] = {
    [FORCED_NONE] = {FORCED_NONE, "auto",
                     "Usage: sockfuse auto [-p FILE] [--fleet] DEST...\n"
                     "Gives a circuit back that `sockfuse open` or `sockfuse close` forced: from now on it\n"
                     "goes by its own rules again.\n"},
    [FORCED_OPEN] = {FORCED_OPEN, "open",
                     "Usage: sockfuse open [-p FILE] [--for TIME] [--fleet] DEST...\n"
                     "Forces a circuit open: every call to DEST fails at once, until `sockfuse close` or\n"
                     "`sockfuse auto`, or for a time.\n"},
    [FORCED_CLOSED] = {FORCED_CLOSED, "close",
                       "Usage: sockfuse close [-p FILE] [--for TIME] [--fleet] DEST...\n"
                       "Forces a circuit closed: no call to DEST is refused, whatever fails, until `sockfuse open` or\n"
                       "`sockfuse auto`, or for a time. Failures counted so far are forgotten.\n"},
};

/* One command's run. */
struct order {
    const struct word *word;
    uint64_t for_ns; /* 0: without an end */
    bool fleet;
};

static int act(const struct order *order, const struct whose *choice, char **destinations)
{
    static struct forcing forcing;
    struct selection selection;
    bool good = true;
    if (!clock_start(environment("SOCKFUSE_CLOCK")))
        warnx("SOCKFUSE_CLOCK: %s holds no eight bytes of time; the real clock serves", environment("SOCKFUSE_CLOCK"));
    forcing_start(&forcing, order->word->forced, order->for_ns);
    forcing.fleet = order->fleet;
    select_open(&selection, choice, false);
    select_warn_of_builds(&selection);
    const bool missed = select_missed(&selection);
    if (selection.count == 0)
        tell_nothing_in_use(&selection, stderr);
    for (forcing.is_first = true; *destinations != NULL; destinations++, forcing.is_first = false)
        good = forcing_act(&forcing, *destinations, &selection) && good;
    select_close(&selection);
    forcing_end(&forcing);
    return finish_output(good && !missed ? EXIT_SUCCESS : EXIT_FAILURE);
}

static bool read_time(struct order *order, const char *text)
{
    char why[DESTINATION_WHY_MAX];
    if (value_parse(&forcing_time, text, &order->for_ns, why, sizeof why))
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
        {"fleet", no_argument, NULL, OPTION_FLEET},
        {NULL, 0, NULL, 0},
    };
    struct order order = {.for_ns = 0};
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
        case OPTION_FLEET:
            order.fleet = true;
            break;
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
