/*
 * metrics.c - `sockfuse metrics`: what the circuits count, for Prometheus.
 *
 * What can be read is written even if something else can't be: a gauge says so, and the exit status.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "view/metrics_collect.h"
#include "view/metrics_text.h"
#include "view/result_file.h"
#include "view/select.h"

static const char help[] =
    "Usage: sockfuse metrics [-o FILE] [--format FORMAT] [-p FILE]\n"
    "Writes the state, counts and latencies of all circuits as metrics: OpenMetrics text, for\n"
    "Prometheus and whatever else reads it.\n"
    "\n"
    "  -o, --output FILE  replace this file, all at once: for the textfile collector of\n"
    "                     node_exporter\n"
    "      --format NAME  openmetrics; or prometheus, its older text format, in which the\n"
    "                     collector sees types and help of counters too\n"
    "  -p, --policy FILE  only those of this policy\n" WHOSE_HELP "  -h, --help         this text\n"
    "      --version      the version\n";

/* What the collector reads runs as another user. */
#define MODE_FOR_ALL ((mode_t)0644)

struct wish {
    struct whose choice;
    const char *path;
    enum metrics_format format;
};

static bool collect(struct metrics *metrics, const struct selection *selection)
{
    bool whole = true;
    for (size_t i = 0; i < selection->count; i++) {
        const struct selected *selected = &selection->at[i];
        const bool is_read = select_has_time(selected) && metrics_add(metrics, selected, clock_circuit_ns());
        if (!is_read || !select_was_whole(selected)) {
            metrics->unreadable++;
            whole = false;
        }
    }
    metrics->unreadable += unusables_missed(&selection->unusables) + selection->unreadable;
    metrics_merge(metrics);
    return whole;
}

static int write_all(const struct wish *wish)
{
    struct selection selection;
    struct metrics metrics = {.circuits = NULL};
    struct result_file result;
    if (!clock_start(environment("SOCKFUSE_CLOCK")))
        warnx("SOCKFUSE_CLOCK: %s holds no eight bytes of time; the real clock serves", environment("SOCKFUSE_CLOCK"));
    select_open(&selection, &wish->choice, false);
    bool good = collect(&metrics, &selection);
    select_warn_of_builds(&selection);
    good = !select_missed(&selection) && good;
    select_close(&selection);
    if (result_open(&result, wish->path, MODE_FOR_ALL)) {
        metrics_write(&metrics, wish->format, result.out);
        good = result_close(&result) && good;
    } else {
        good = false;
    }
    metrics_free(&metrics);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

static bool take_format(struct wish *wish, const char *name)
{
    const bool is_open = strcmp(name, "openmetrics") == 0, is_known = is_open || strcmp(name, "prometheus") == 0;
    if (!is_known)
        warnx("--format %s: openmetrics or prometheus is expected", name);
    wish->format = is_open ? METRICS_OPENMETRICS : METRICS_PROMETHEUS;
    return is_known;
}

int command_metrics(int argc, char **argv)
{
    static const struct option options[] = {
        COMMON_OPTIONS,
        WHOSE_OPTIONS,
        {"output", required_argument, NULL, 'o'},
        {"format", required_argument, NULL, OPTION_FORMAT},
        {NULL, 0, NULL, 0},
    };
    struct wish wish = {.path = "-", .format = METRICS_OPENMETRICS};
    int letter;
    while ((letter = getopt_long(argc, argv, "ho:" WHOSE_LETTERS, options, NULL)) != -1) {
        if (whose_take(&wish.choice, letter, optarg))
            continue;
        switch (letter) {
        case 'o':
            wish.path = optarg;
            break;
        case OPTION_FORMAT:
            if (!take_format(&wish, optarg))
                return usage_error("metrics");
            break;
        default:
            return common_option("metrics", help, letter);
        }
    }
    return optind < argc ? unexpected_word("metrics", argv[optind]) : write_all(&wish);
}
