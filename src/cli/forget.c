/*
 * forget.c - `sockfuse forget`: removes what is over.
 *
 * A policy's circuits outlive its programs, and go only by this; a destination's circuit begins anew, also under
 * running programs, as if it had never been called. What living programs use as a whole, or an operator has forced, is
 * left alone.
 */
#include <err.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "view/destination.h"
#include "cli/reach.h"
#include "view/rows.h"
#include "view/select.h"
#include "view/selected_policy.h"
#include "view/table.h"
#include "segment/circuits.h"
#include "segment/processes.h"
#include "segment/removal.h"

static const char help[] =
    "Usage: sockfuse forget -p FILE\n"
    "       sockfuse forget [-p FILE] DEST...\n"
    "       sockfuse forget [-p FILE] --ended\n"
    "Removes what is over: all circuits of a policy that no running program uses; the circuit of a destination, which\n"
    "begins anew, closed and without a history; or everything that no running program uses any more.\n"
    "\n"
    "DEST is a destination as `sockfuse status` shows it, or a target's name, which stands for all its circuits. It "
    "is\n"
    "forgotten also while programs run: calls in flight go on, and their ends count no more. A circuit that is forced\n"
    "is left alone (give it back first: sockfuse auto).\n"
    "\n"
    "  -p, --policy FILE  the policy; with DEST or --ended: only this one\n" WHOSE_HELP
    "      --ended        the circuits of every policy that no running program uses, and in which none is forced\n"
    "  -h, --help         this text\n"
    "      --version      the version\n"
    "\n"
    "Exit status 0: done, 1: there was none, or it is in use, 2: wrong usage.\n";

/* One command's run. */
struct order {
    struct whose choice;
    bool ended;
    unsigned int done, failed;
};

/* --- a policy's circuits --- */

static unsigned int count_circuits(const struct segment *segment)
{
    struct circuit_texts texts;
    unsigned int count = 0;
    for (uint32_t cursor = 0; circuits_next(segment, &cursor, &texts) != CIRCUIT_INDEX_NONE;)
        count++;
    return count;
}

static void refuse_used(struct order *order, const struct selected *selected, const struct segment *segment)
{
    /* What is asked for by `--ended` is what nobody uses. */
    if (order->ended)
        return;
    struct naming users = {0};
    struct reach reach;
    reach_collect(&reach, segment);
    for (size_t i = 0; i < reach.count; i++)
        naming_add(&users, &reach.at[i], NULL);
    warnx("%s%s: running programs use it: %s; its circuits are not forgotten", selected->identity, selected->whose,
          naming_text(&users));
    naming_free(&users);
    reach_free(&reach);
    order->failed++;
}

/* A word was given for the program that starts next: it waits, and is not over. */
static bool is_told(const struct selected *selected)
{
    struct rows rows;
    bool is_forced = false;
    rows_collect(&rows, &selected->segment, NULL, clock_circuit_ns());
    for (size_t i = 0; i < rows.count && !is_forced; i++)
        is_forced = rows.at[i].forced != FORCED_NONE;
    rows_free(&rows);
    return is_forced;
}

static void forget_policy(struct order *order, const struct selected *selected)
{
    struct segment *segment = allocate(1, sizeof *segment);
    struct segment_error *error = allocate(1, sizeof *error);
    unsigned int count = count_circuits(&selected->segment);
    const bool stays = order->ended && is_told(selected);
    enum removal removal = REMOVAL_FAILED;
    if (stays)
        removal = REMOVAL_IN_USE;
    else if (select_to_write(segment, selected, error))
        removal = select_remove(selected, segment, error);
    if (stays && !process_any(&selected->segment, UINT32_MAX))
        warnx("%s%s: no program runs, but an operator has forced circuits; sockfuse auto gives them back",
              selected->identity, selected->whose);
    switch (removal) {
    case REMOVAL_DONE:
        print_safely(selected->identity, stdout);
        printf("%s: forgotten, with %u circuit%s\n", selected->whose, count, count == 1 ? "" : "s");
        order->done++;
        break;
    case REMOVAL_IN_USE:
        refuse_used(order, selected, segment);
        break;
    case REMOVAL_FAILED:
        warnx("%s", error->text);
        order->failed++;
        break;
    }
    select_detach(segment);
    free(segment);
    free(error);
}

/* --- what can't be read --- */

static const char *name_of(const struct unusable *unusable)
{
    return unusable_identity(unusable) != NULL ? unusable_identity(unusable) : unusable->path;
}

/* Of another build or another boot: it goes if nobody can be using it. */
static void forget_unusable(struct order *order, const struct unusable *unusable)
{
    struct segment_error *error = allocate(1, sizeof *error);
    if (!unusable_is_over(unusable)) {
        /* What is asked for by `--ended` is what nobody uses. */
        if (order->ended && unusable->users.count > 0) {
            free(error);
            return;
        }
        if (unusable->was_read && unusable->peek.kind == PEEK_OTHER_LAYOUT)
            unusable_warn(unusable); /* the others were told of */
        order->failed++;
    } else if (segment_remove_file(unusable->path, unusable->peek.device, unusable->peek.inode, error)) {
        char *whose = unusable_whose(unusable);
        print_safely(name_of(unusable), stdout);
        printf("%s: forgotten, circuits %s\n", whose,
               unusable->peek.kind == PEEK_OTHER_BOOT ? "from before the last boot" : "of another build");
        free(whose);
        order->done++;
    } else {
        warnx("%s", error->text);
        order->failed++;
    }
    free(error);
}

/* --- one circuit --- */

static void forget_circuit(struct order *order, struct segment *segment, const struct row *row, const char *which)
{
    uint32_t circuit = circuits_stand(segment, row->target_name, row->destination);
    if (row->forced != FORCED_NONE) {
        warnx("%s: an operator has forced it %s; sockfuse auto gives it back", row->destination,
              forced_name(row->forced));
        order->failed++;
        return;
    }
    bool in_use = process_any(segment, UINT32_MAX);
    if (circuit == CIRCUIT_INDEX_NONE || !circuits_forget(segment, circuit, in_use, clock_circuit_ns())) {
        warnx("%s: it was just given to another destination", row->destination);
        order->failed++;
        return;
    }
    print_safely(row->destination, stdout);
    if (strcmp(row->destination, row->target_name) != 0) {
        fputs(" (", stdout);
        print_safely(row->target_name, stdout);
        fputc(')', stdout);
    }
    printf("%s: forgotten, was %s%s\n", which, circuit_state_name(row_state(row)),
           in_use && row->in_flight > 0 ? "; its calls in flight go on, and count no more" : "");
    order->done++;
}

static bool is_meant(const struct row *row, const char *text, const struct destination *destination)
{
    return row->called && (strcmp(row->target_name, text) == 0 ||
                           (destination != NULL && strcmp(row->destination, destination->text) == 0));
}

static void forget_destination(struct order *order, const struct selected *selected, const char *text,
                               const struct destination *destination)
{
    char *why;
    struct policy *policy = policy_of_selected(selected, &why);
    struct segment *segment = allocate(1, sizeof *segment);
    struct segment_error *error = allocate(1, sizeof *error);
    struct rows rows;
    rows_collect(&rows, &selected->segment, policy, clock_circuit_ns());
    for (size_t i = 0; i < rows.count; i++) {
        if (!is_meant(&rows.at[i], text, destination))
            continue;
        if (segment->map == NULL && !select_to_write(segment, selected, error)) {
            warnx("%s", error->text);
            order->failed++;
            break;
        }
        forget_circuit(order, segment, &rows.at[i], selected->which);
    }
    select_detach(segment);
    rows_free(&rows);
    policy_free(policy);
    free(segment);
    free(error);
    free(why);
}

static void forget_all_of(struct order *order, const struct selection *selection, const char *text)
{
    struct destination destination;
    char why[DESTINATION_WHY_MAX];
    bool is_destination = destination_read(&destination, text, why);
    const unsigned int before = order->done + order->failed;
    for (size_t i = 0; i < selection->count; i++)
        if (selection->at[i].segment.map != NULL && select_has_time(&selection->at[i])) {
            forget_destination(order, &selection->at[i], text, is_destination ? &destination : NULL);
            order->failed += !select_was_whole(&selection->at[i]);
        }
    if (order->done + order->failed == before) {
        warnx("%s: no policy in use has a circuit of such a destination or target; sockfuse status lists them", text);
        order->failed++;
    }
    destination_free(&destination);
}

/* --- the command --- */

static int forget(struct order *order, char **destinations)
{
    struct selection selection;
    if (!clock_start(environment("SOCKFUSE_CLOCK")))
        warnx("SOCKFUSE_CLOCK: %s holds no eight bytes of time; the real clock serves", environment("SOCKFUSE_CLOCK"));
    select_open(&selection, &order->choice, false);
    for (size_t i = 0; i < selection.count && destinations[0] == NULL; i++)
        if (selection.at[i].segment.map != NULL && select_has_time(&selection.at[i])) {
            forget_policy(order, &selection.at[i]);
            order->failed += !select_was_whole(&selection.at[i]);
        }
    if (destinations[0] == NULL) {
        for (size_t i = 0; i < selection.unusables.count; i++)
            forget_unusable(order, &selection.unusables.at[i]);
        order->failed += (unsigned int)selection.unreadable;
    } else if (select_missed(&selection)) {
        select_warn_of_builds(&selection);
        order->failed++;
    }
    for (; destinations[0] != NULL; destinations++)
        forget_all_of(order, &selection, destinations[0]);
    if (order->done + order->failed == 0 && order->ended)
        printf("Nothing is over: %s.\n", selection.count + selection.unusables.count > 0
                                             ? "running programs use all there is"
                                             : "there are no circuits");
    else if (order->done + order->failed == 0) {
        warnx("%s: it has no circuits", order->choice.policy_file);
        order->failed++;
    }
    select_close(&selection);
    return finish_output(order->failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

int command_forget(int argc, char **argv)
{
    static const struct option options[] = {
        COMMON_OPTIONS,
        WHOSE_OPTIONS,
        {"ended", no_argument, NULL, OPTION_ENDED},
        {NULL, 0, NULL, 0},
    };
    struct order order = {0};
    for (int letter; (letter = getopt_long(argc, argv, "h" WHOSE_LETTERS, options, NULL)) != -1;) {
        if (whose_take(&order.choice, letter, optarg))
            continue;
        switch (letter) {
        case OPTION_ENDED:
            order.ended = true;
            break;
        default:
            return common_option("forget", help, letter);
        }
    }
    bool any = optind < argc;
    if ((any && order.ended) || (!any && !order.ended && order.choice.policy_file == NULL)) {
        warnx("forget: %s", any ? "either DEST or --ended" : "what? -p FILE, a DEST, or --ended is missing");
        return usage_error("forget");
    }
    return forget(&order, argv + optind);
}
