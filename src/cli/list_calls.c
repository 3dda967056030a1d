/*
 * list_calls.c - `sockfuse calls`: every call in flight, longest first; with -f as it goes on.
 *
 * Reads the tables of calls of all selected segments (inflight.h) and changes nothing.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "view/calls_output.h"
#include "view/calls_tree.h"
#include "cli/cli.h"
#include "view/destination.h"
#include "view/duration.h"
#include "cli/follow.h"
#include "view/inflight.h"
#include "view/json.h"
#include "view/running.h"
#include "view/screen.h"
#include "view/select.h"
#include "view/selected_policy.h"
#include "view/table.h"
#include "view/waiting_thread.h"

static const char help[] =
    "Usage: sockfuse calls [-f] [--tree] [--older TIME] [--json] [--dot] [-p FILE] [DEST]\n"
    "Shows who waits for whom right now: every call in flight, the longest wait first.\n"
    "\n"
    "DEST is a destination as `sockfuse status` shows it, or a target's name.\n"
    "\n"
    "  -f, --follow       on a terminal: goes on, once a second; else a line for each\n"
    "                     call that has waited for as long as --older says (1s)\n"
    "      --older TIME   only calls that have waited at least so long (500ms, 2s)\n"
    "      --tree         the cascade: a destination on this host is joined to the program\n"
    "                     that listens there, whose own calls follow. The last line names\n"
    "                     the root: for which others wait, and which waits for nobody\n"
    "      --dot          the same for Graphviz\n"
    "      --json         one JSON array, with --tree an object; with -f one object a line\n"
    "  -p, --policy FILE  only those of this policy\n" WHOSE_HELP "  -h, --help         this text\n"
    "      --version      the version\n"
    "\n"
    "  PHASE              connect: until the connection stands; greeting: it stands, nothing\n"
    "                     was sent or received; answer: until the first byte of it\n"
    "  SINCE              for how long it has waited in this phase\n"
    "  LIMIT              connect_timeout or response_timeout, where there is one\n"
    "  OVERDUE            it waits beyond its limit\n"
    "\n"
    "Which thread waits is not known. Calls under scope = process can't be seen.\n";

#define LOOK_MS 100
#define SCREEN_MS 1000
/* Every so many looks: look for new segments, and for files that were replaced. */
#define LOOKS_PER_SEARCH 10
#define FOLLOW_OLDER_NS NS_PER_S

struct view {
    struct whose choice;
    struct inflight_wish wish;
    bool follow, as_json, as_tree, as_dot, has_older;
};

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* The calls of all segments. False: not all could be read as they are. */
static bool collect(struct inflight *inflight, const struct selection *selection, const struct view *view)
{
    const uint64_t now_ns = clock_circuit_ns();
    bool whole = true;
    *inflight = (struct inflight){0};
    for (size_t i = 0; i < selection->count; i++) {
        const struct selected *selected = &selection->at[i];
        if (selected->segment.map == NULL)
            continue;
        if (select_has_time(selected))
            inflight_add(inflight, &selected->segment, selected, now_ns);
        else
            whole = false;
        whole = select_was_whole(selected) && whole;
    }
    /* Before any is left out: that a process has another call to the same address counts. */
    if (!view->as_tree)
        inflight_find_threads(inflight);
    const struct inflight_wish all = {.older_ns = view->wish.older_ns};
    /* A tree is narrowed when it stands: what a destination's program waits for belongs to it. */
    inflight_keep(inflight, view->as_tree ? &all : &view->wish);
    inflight_find_users(inflight);
    inflight_sort(inflight);
    return whole;
}

/* Whether any policy in use has such a circuit. */
static bool is_known(const struct selection *selection, const struct inflight_wish *wish)
{
    struct circuit_texts texts;
    for (size_t i = 0; i < selection->count; i++) {
        const struct segment *segment = &selection->at[i].segment;
        for (uint32_t cursor = 0;
             segment->map != NULL && circuits_next(segment, &cursor, &texts) != CIRCUIT_INDEX_NONE;)
            if (strcmp(texts.target, wish->text) == 0 || strcmp(texts.destination, wish->destination) == 0)
                return true;
    }
    return false;
}

/* What can't be seen is said: a policy's file tells it. */
static void tell_hidden(const struct selection *selection)
{
    for (size_t i = 0; i < selection->count; i++) {
        struct running running;
        running_collect(&running, &selection->at[i]);
        if (running.shown != NULL && running.shown->has_process_scope)
            warnx("%s%s: calls under scope = process are kept by each process to itself, and not shown",
                  selection->at[i].identity, selection->at[i].whose);
        running_free(&running);
    }
}

/* --- going on ----------------------------------------------------------------------------------------------------- */

/* A call that was told of: it is told again in another phase, for that is another wait. */
struct told {
    uint64_t device, inode;
    uint32_t place, number, phase;
};
struct told_list {
    struct told *at;
    size_t count;
};

static int compare_told(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct told));
}

static struct told key_of(const struct inflight_call *call)
{
    struct told key;
    memset(&key, 0, sizeof key); /* compared as bytes */
    key.device = call->of->segment.device;
    key.inode = call->of->segment.inode;
    key.place = call->place;
    key.number = call->number;
    key.phase = call->phase;
    return key;
}

static void print_one(const struct inflight_call *call, bool as_json)
{
    struct json json;
    const uint64_t wall_ns = clock_wall_ns();
    if (!as_json) {
        calls_print_line(call, wall_ns, stdout);
        return;
    }
    json_start_line(&json, stdout);
    calls_json(&json, call, wall_ns);
}

/* A line for each call that was not told of at the look before; those that were are kept for the next. */
static void tell_new(const struct inflight *inflight, struct told_list *told, bool as_json)
{
    struct told_list now = {allocate(inflight->count, sizeof *now.at), inflight->count};
    for (size_t i = 0; i < inflight->count; i++) {
        now.at[i] = key_of(&inflight->at[i]);
        if (told->count == 0 || bsearch(&now.at[i], told->at, told->count, sizeof *told->at, compare_told) == NULL)
            print_one(&inflight->at[i], as_json);
    }
    qsort(now.at, now.count, sizeof *now.at, compare_told);
    free(told->at);
    *told = now;
}

/* --- going on, on a terminal -------------------------------------------------------------------------------------- */

static struct calls_tree tree_of(const struct view *view)
{
    return (struct calls_tree){{view->wish.text, view->wish.destination}, view->as_json, view->as_dot};
}

static void show_screen(const struct inflight *inflight, const struct selection *selection, const struct view *view)
{
    char *text = NULL;
    size_t size = 0;
    FILE *page = open_text(&text, &size);
    colour_page(page);
    const struct calls_tree tree = tree_of(view);
    calls_print_sum(inflight, page);
    if (inflight->count > 0) {
        fputc('\n', page);
        if (view->as_tree)
            calls_tree_print(inflight, selection, &tree, page);
        else
            calls_print_table(inflight, page, 0);
    }
    colour_page(NULL);
    close_text(page);
    screen_show(text);
    free(text);
}

static bool follow(struct selection *selection, const struct view *view)
{
    const bool on_screen = !view->as_json && isatty(STDOUT_FILENO) == 1;
    struct told_list told = {0};
    bool whole = true;
    for (unsigned int looks = 1;; looks++) {
        struct inflight inflight;
        whole = collect(&inflight, selection, view) && whole;
        if (on_screen)
            show_screen(&inflight, selection, view);
        else
            tell_new(&inflight, &told, view->as_json);
        inflight_free(&inflight);
        flush_output();
        if (!follow_wait(on_screen ? SCREEN_MS : LOOK_MS))
            break;
        if (on_screen || looks % LOOKS_PER_SEARCH == 0) {
            select_close(selection);
            select_open(selection, &view->choice, true);
        }
    }
    free(told.at);
    return whole;
}

/* --- the command -------------------------------------------------------------------------------------------------- */

/* False: not all could be read as they are. */
static bool show_once(const struct selection *selection, const struct view *view)
{
    struct inflight inflight;
    struct json json;
    bool whole = collect(&inflight, selection, view);
    const struct calls_tree tree = tree_of(view);
    if (view->as_tree) {
        whole = calls_tree_show(&inflight, selection, &tree) && whole;
    } else if (view->as_json) {
        const uint64_t wall_ns = clock_wall_ns();
        json_start(&json, stdout);
        json_open(&json, NULL, '[');
        for (size_t i = 0; i < inflight.count; i++)
            calls_json(&json, &inflight.at[i], wall_ns);
        json_close(&json, ']');
    } else {
        calls_print_table(&inflight, stdout, 0);
    }
    inflight_free(&inflight);
    return whole;
}

static void tell_unused(const struct selection *selection, const struct view *view)
{
    /* What a program reads holds calls alone. */
    FILE *out = view->follow || view->as_dot ? stderr : stdout;
    if (view->choice.policy_file == NULL)
        tell_nothing_in_use(selection, out);
    else
        fprintf(out, "%s is not in use: there are no calls under it.\n", shown(view->choice.policy_file));
}

static int show(const struct view *view)
{
    struct selection selection;
    bool used = false;
    if (!clock_start(environment("SOCKFUSE_CLOCK")))
        warnx("SOCKFUSE_CLOCK: %s holds no eight bytes of time; the real clock serves", environment("SOCKFUSE_CLOCK"));
    select_open(&selection, &view->choice, false);
    select_warn_of_builds(&selection);
    bool missed = select_missed(&selection);
    for (size_t i = 0; i < selection.count; i++)
        used = used || selection.at[i].segment.map != NULL;
    bool good = policies_are_known(&selection);
    tell_hidden(&selection);
    if (good && !used && !view->as_json)
        tell_unused(&selection, view);
    else if (used && !view->follow && view->wish.text != NULL && !is_known(&selection, &view->wish)) {
        warnx("%s: no policy in use has a circuit of that destination or target; sockfuse status lists them",
              view->wish.text);
        good = false;
    }
    if (good && view->follow)
        good = follow(&selection, view);
    else if (good && (used || view->as_json || view->as_dot))
        good = show_once(&selection, view);
    missed = missed || select_missed(&selection);
    select_close(&selection);
    return finish_output(good && !missed ? EXIT_SUCCESS : EXIT_FAILURE);
}

static int show_wished(struct view *view, const char *text)
{
    struct destination destination = {.name = NULL};
    char why[DESTINATION_WHY_MAX];
    if (text != NULL) {
        /* What is no destination can be a target's name. */
        view->wish.text = text;
        view->wish.destination = destination_read(&destination, text, why) ? destination.text : text;
    }
    const int status = show(view);
    destination_free(&destination);
    return status;
}

int command_calls(int argc, char **argv)
{
    static const struct option options[] = {
        COMMON_OPTIONS,
        WHOSE_OPTIONS,
        {"follow", no_argument, NULL, 'f'},
        {"json", no_argument, NULL, OPTION_JSON},
        {"older", required_argument, NULL, OPTION_OLDER},
        {"tree", no_argument, NULL, OPTION_TREE},
        {"dot", no_argument, NULL, OPTION_DOT},
        {NULL, 0, NULL, 0},
    };
    struct view view = {.follow = false};
    int letter;
    while ((letter = getopt_long(argc, argv, "hf" WHOSE_LETTERS, options, NULL)) != -1) {
        if (whose_take(&view.choice, letter, optarg))
            continue;
        switch (letter) {
        case 'f':
            view.follow = true;
            break;
        case OPTION_JSON:
            view.as_json = true;
            break;
        case OPTION_TREE:
            view.as_tree = true;
            break;
        case OPTION_DOT:
            view.as_tree = view.as_dot = true;
            break;
        case OPTION_OLDER:
            if (!span_parse(optarg, &view.wish.older_ns)) {
                warnx("--older %s: a span such as 500ms or 2s is expected", optarg);
                return usage_error("calls");
            }
            view.has_older = true;
            break;
        default:
            return common_option("calls", help, letter);
        }
    }
    if (argc - optind > 1)
        return unexpected_word("calls", argv[optind + 1]);
    if (view.as_tree && view.follow && (view.as_dot || view.as_json || isatty(STDOUT_FILENO) != 1)) {
        warnx("calls: a tree goes on (-f) on a terminal only");
        return usage_error("calls");
    }
    if (view.as_dot && view.as_json) {
        warnx("calls: --dot and --json are two forms of one thing; one of them can be asked for");
        return usage_error("calls");
    }
    if (view.follow && !view.has_older && (view.as_json || isatty(STDOUT_FILENO) != 1))
        view.wish.older_ns = FOLLOW_OLDER_NS;
    return show_wished(&view, argv[optind]);
}
