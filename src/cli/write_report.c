/*
 * write_report.c - `sockfuse report`: what happened as one page for a browser, or as a trace.
 *
 * From the segments in use (their journals, and what `status --json` writes), or from files of `events --json`. A file
 * that is there stays until its successor is whole.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/date.h"
#include "cli/cli.h"
#include "view/duration.h"
#include "view/page.h"
#include "view/result_file.h"
#include "view/story.h"
#include "view/story_chain.h"
#include "view/story_json.h"
#include "view/story_present.h"
#include "view/story_sources.h"
#include "view/story_trace.h"

static const char help[] =
    "Usage: sockfuse report [-o FILE] [--json] [--trace FILE] [--since TIME] [-p FILE] [EVENTS]...\n"
    "Writes one page that opens from disk: each circuit's states, failures, waiting calls and\n"
    "refusals over time, and what each incident cost. It is about the policies in use, or about\n"
    "EVENTS, files as 'events --json' writes them (-: standard input).\n"
    "\n"
    "  -o, --output FILE  where the page goes (without it: standard output)\n"
    "      --json         only what the page shows, as one JSON document\n"
    "      --trace FILE   write the calls and incidents as a trace for Perfetto or Chrome, and no\n"
    "                     page but with -o\n"
    "      --since TIME   only what happened since TIME: 5m (ago), or 2026-02-03T04:05:06Z\n"
    "  -p, --policy FILE  only that of this policy\n" WHOSE_HELP "  -h, --help         this text\n"
    "      --version      the version\n";

struct wish {
    struct whose choice;
    const char *page_path, *trace_path; /* NULL: not asked for; "-": standard output */
    bool as_json;                       /* only the page's data */
    uint64_t since_ns;                  /* wall clock */
    char **files;
    size_t file_count;
};

/* --- what it is of ------------------------------------------------------------------------------------------------ */

static bool tell_files(struct story *story, const struct wish *wish, struct present *present)
{
    bool whole = true;
    for (size_t i = 0; i < wish->file_count; i++)
        whole = story_read_file(story, wish->files[i], (unsigned int)i, wish->since_ns) && whole;
    story_end(story, wish->since_ns, 0);
    story_find_incidents(story);
    present->chains = story_chains(story, NULL);
    return whole;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

/* What the page shows: src/report/README.md. */
static char *write_document(const struct story *story, const struct wish *wish, const struct present *present,
                            size_t *length)
{
    struct json json;
    char *text = NULL, time[32];
    FILE *out = open_text(&text, length);
    time_rfc3339(clock_wall_ns(), time, sizeof time);
    json_start(&json, out);
    json_open(&json, NULL, '{');
    json_unsigned(&json, "format", 1);
    json_string(&json, "made", time);
    json_string(&json, "version", SOCKFUSE_VERSION);
    json_open(&json, "files", '[');
    for (size_t i = 0; i < wish->file_count; i++)
        json_string(&json, NULL, wish->files[i]);
    json_close(&json, ']');
    story_json(&json, story);
    if (present->status != NULL) {
        json_written(&json, "status", present->status);
        json_written(&json, "in_flight", present->calls);
        json_written(&json, "latencies", present->latencies);
        if (present->cascade != NULL)
            json_written(&json, "cascade", present->cascade);
    }
    json_written(&json, "chains", present->chains);
    json_close(&json, '}');
    close_text(out);
    return text;
}

/* The page, or the document alone. */
static bool write_page(const struct page *page, const struct story *story, const struct wish *wish,
                       const struct present *present)
{
    struct result_file result;
    size_t length;
    char *text = write_document(story, wish, present, &length);
    bool good = result_open(&result, wish->page_path, RESULT_MODE_USUAL);
    if (good) {
        if (wish->as_json) {
            write_output(text, length, result.out);
            write_output("\n", 1, result.out);
        } else {
            page_write(page, text, length, result.out);
        }
        good = result_close(&result);
    }
    free(text);
    return good;
}

static bool write_trace(const struct story *story, const char *path)
{
    struct result_file result;
    if (!result_open(&result, path, RESULT_MODE_USUAL))
        return false;
    story_trace(story, result.out);
    return result_close(&result);
}

/* Of files that can't be read nothing is written, nor of a policy that is not there; of segments, what could be. */
static int report(const struct wish *wish)
{
    struct page page = {.text = NULL};
    struct present present = {.status = NULL};
    struct story story;
    if (wish->page_path != NULL && !wish->as_json && !page_load(&page))
        return EXIT_FAILURE;
    story_start(&story);
    bool good = wish->file_count > 0 ? tell_files(&story, wish, &present)
                                     : story_tell_present(&story, &wish->choice, wish->since_ns, &present);
    if (good || present.status != NULL) {
        if (wish->page_path != NULL)
            good = write_page(&page, &story, wish, &present) && good;
        if (wish->trace_path != NULL)
            good = write_trace(&story, wish->trace_path) && good;
    }
    story_free(&story);
    page_free(&page);
    present_free(&present);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* What goes together; false: it was said. */
static bool settle_wish(struct wish *wish)
{
    if (wish->file_count > 0 && (wish->choice.policy_file != NULL || wish->choice.user != NULL || wish->choice.mine)) {
        warnx("report: -p, --user and --mine choose among the policies in use; EVENTS are reported whole");
        return false;
    }
    if (wish->page_path == NULL && (wish->as_json || wish->trace_path == NULL)) {
        if (!wish->as_json && isatty(STDOUT_FILENO)) {
            warnx("report: a page is nothing for a terminal; -o FILE.html names a file for it");
            return false;
        }
        wish->page_path = "-";
    }
    if (wish->page_path != NULL && wish->trace_path != NULL && strcmp(wish->page_path, wish->trace_path) == 0) {
        warnx("report: -o and --trace name the same file");
        return false;
    }
    return true;
}

int command_report(int argc, char **argv)
{
    static const struct option options[] = {
        COMMON_OPTIONS,
        WHOSE_OPTIONS,
        {"output", required_argument, NULL, 'o'},
        {"json", no_argument, NULL, OPTION_JSON},
        {"trace", required_argument, NULL, OPTION_TRACE},
        {"since", required_argument, NULL, OPTION_SINCE},
        {NULL, 0, NULL, 0},
    };
    struct wish wish = {0};
    int letter;
    while ((letter = getopt_long(argc, argv, "ho:" WHOSE_LETTERS, options, NULL)) != -1) {
        if (whose_take(&wish.choice, letter, optarg))
            continue;
        switch (letter) {
        case 'h':
            return print_help(help);
        case OPTION_VERSION:
            return print_version();
        case 'o':
            wish.page_path = optarg;
            break;
        case OPTION_JSON:
            wish.as_json = true;
            break;
        case OPTION_TRACE:
            wish.trace_path = optarg;
            break;
        case OPTION_SINCE:
            if (!since_parse(optarg, clock_wall_ns(), &wish.since_ns)) {
                warnx("--since %s: a span such as 5m, or a time such as 2026-02-03T04:05:06Z is expected", optarg);
                return usage_error("report");
            }
            break;
        default:
            return usage_error("report");
        }
    }
    wish.files = argv + optind;
    wish.file_count = (size_t)(argc - optind);
    if (!settle_wish(&wish))
        return usage_error("report");
    if (!clock_start(environment("SOCKFUSE_CLOCK")))
        warnx("SOCKFUSE_CLOCK: %s holds no eight bytes of time; the real clock serves", environment("SOCKFUSE_CLOCK"));
    return report(&wish);
}
