/*
 * explain.c - `sockfuse explain DEST`: why a circuit is as it is, what comes next, what stands in the way.
 *
 * Reads the segment and changes nothing; see explanation.h.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "view/destination.h"
#include "view/explanation.h"
#include "view/json.h"
#include "view/rows.h"
#include "view/running.h"
#include "view/select.h"

static const char help[] =
    "Usage: sockfuse explain [--json] [-p FILE] DEST\n"
    "Says why a circuit is as it is: the calls that opened it last, by which rule; what\n"
    "one failure more or less in a row would have come to; the probes that failed since;\n"
    "what comes next, and what stands in the way.\n"
    "\n"
    "DEST is a destination as `sockfuse status` shows it, or a target's name.\n"
    "\n"
    "      --json         one JSON array, an object for each circuit\n"
    "  -p, --policy FILE  only those of this policy\n" WHOSE_HELP "  -h, --help         this text\n"
    "      --version      the version\n"
    "\n"
    "  TIME               as of when it counted: of a call beyond its limit, that limit\n"
    "  PHASE              connect: until the connection stands; greeting: it stands, nothing\n"
    "                     was sent or received; answer: until the first byte of it\n"
    "  AFTER              for how long the call had waited\n"
    "  ADDRESS            to which of the destination's addresses it went\n"
    "\n"
    "Kept are the last 12 failures of a closed circuit, until it fails after it has closed\n"
    "again, and the last 4 of probes. Circuits under scope = process can't be seen.\n";

/* One command's run. */
struct view {
    struct json *json;       /* NULL: text */
    const char *wanted;      /* a destination or a target's name */
    const char *destination; /* the same as circuits are called */
    unsigned int shown;
};

static void show_row(const struct selected *selected, const struct running *running, const struct row *row,
                     uint64_t now_ns, struct view *view)
{
    struct explanation *explanation = allocate(1, sizeof *explanation);
    explanation_make(explanation, selected, running, row, now_ns);
    if (view->json != NULL) {
        explanation_json(view->json, explanation);
    } else {
        if (view->shown > 0)
            fputc('\n', stdout);
        explanation_print(explanation);
    }
    view->shown++;
    explanation_free(explanation);
    free(explanation);
}

/* False: the policy of -p is not in use, and can't be read either. */
static bool show(const struct selected *selected, struct view *view)
{
    struct running running;
    running_collect(&running, selected);
    const bool usable = running.file != NULL || selected->segment.map != NULL;
    if (usable) {
        struct rows rows;
        const uint64_t now_ns = clock_circuit_ns();
        rows_collect_running(&rows, &selected->segment, &running, now_ns);
        for (size_t i = 0; rows_keep(&rows, view->wanted, view->destination) && i < rows.count; i++)
            show_row(selected, &running, &rows.at[i], now_ns, view);
        if (rows.count > 0 && running.shown != NULL && running.shown->has_process_scope)
            warnx("%s%s: circuits under scope = process are kept by each process to itself, and not shown",
                  selected->identity, selected->whose);
        rows_free(&rows);
    } else {
        warnx("%s: %s", selected->identity, running.file_why);
    }
    running_free(&running);
    return usable;
}

static int show_all(const struct whose *choice, struct view *view)
{
    struct selection selection;
    int status = EXIT_SUCCESS;
    if (!clock_start(environment("SOCKFUSE_CLOCK")))
        warnx("SOCKFUSE_CLOCK: %s holds no eight bytes of time; the real clock serves", environment("SOCKFUSE_CLOCK"));
    select_open(&selection, choice, false);
    if (view->json != NULL) {
        json_start(view->json, stdout);
        json_open(view->json, NULL, '[');
    }
    for (size_t i = 0; i < selection.count; i++)
        if (!select_has_time(&selection.at[i]) || !show(&selection.at[i], view) || !select_was_whole(&selection.at[i]))
            status = EXIT_FAILURE;
    select_warn_of_builds(&selection);
    if (select_missed(&selection))
        status = EXIT_FAILURE;
    if (view->json != NULL)
        json_close(view->json, ']');
    if (view->shown == 0) {
        warnx("%s: no policy in use has such a circuit or target (a policy is named with -p FILE)", view->wanted);
        status = EXIT_FAILURE;
    }
    select_close(&selection);
    return finish_output(status);
}

int command_explain(int argc, char **argv)
{
    static const struct option options[] = {
        COMMON_OPTIONS,
        WHOSE_OPTIONS,
        {"json", no_argument, NULL, OPTION_JSON},
        {NULL, 0, NULL, 0},
    };
    static struct json json;
    struct whose choice = {.policy_file = NULL};
    struct view view = {.json = NULL};
    struct destination destination;
    char why[DESTINATION_WHY_MAX];
    int letter;
    while ((letter = getopt_long(argc, argv, "h" WHOSE_LETTERS, options, NULL)) != -1) {
        if (whose_take(&choice, letter, optarg))
            continue;
        if (letter != OPTION_JSON)
            return common_option("explain", help, letter);
        view.json = &json;
    }
    if (optind == argc) {
        warnx("explain: which destination? 'sockfuse status' has them");
        return usage_error("explain");
    }
    if (optind + 1 < argc)
        return unexpected_word("explain", argv[optind + 1]);
    view.wanted = argv[optind];
    view.destination = destination_read(&destination, view.wanted, why) ? destination.text : view.wanted;
    const int status = show_all(&choice, &view);
    destination_free(&destination);
    return status;
}
