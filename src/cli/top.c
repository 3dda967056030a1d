/*
 * top.c - `sockfuse top`: what `status` and `calls` show, live; with keys to force circuits.
 *
 * Signals are taken only while it waits: whatever it is at, ends first. Those that end or stop a program give the
 * terminal back before, and do then what they would have done.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/capture.h"
#include "cli/cli.h"
#include "view/destination.h"
#include "view/duration.h"
#include "cli/forcing.h"
#include "cli/top_keys.h"
#include "cli/top_list.h"
#include "cli/top_look.h"
#include "cli/top_page.h"
#include "cli/top_terminal.h"

static const char help[] =
    "Usage: sockfuse top [--interval TIME] [--sort ORDER] [-p FILE] [DEST]...\n"
    "Shows the circuits and the calls in flight live, the worst circuit first, and forces\n"
    "circuits by keys; ? lists these.\n"
    "\n"
    "DEST is a destination as `sockfuse status` shows it, or a target's name: only these.\n"
    "\n"
    "      --interval TIME  look so often (500ms, 2s); each second by default\n"
    "      --sort ORDER     worst, name, waiting, oldest, rate, p95, failed or refused\n"
    "  -p, --policy FILE    only those of this policy\n" WHOSE_HELP "  -h, --help           this text\n"
    "      --version        the version\n"
    "\n"
    "NO_COLOR turns colours off. The terminal is left as it was, also by SIGINT, SIGTERM,\n"
    "SIGHUP and SIGTSTP; after kill -9 'reset' sets it right.\n";

#define INTERVAL_LEAST_NS (100 * NS_PER_MS)
#define INTERVAL_MOST_NS NS_PER_HOUR
/* Looking takes a fourth of its time at the most, however much there is to see. */
#define REST_PER_LOOK 3u

enum { OPTION_INTERVAL = 768, OPTION_SORT };

/* --- signals ------------------------------------------------------------------------------------------------------ */

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
#define ENDING (sizeof ending / sizeof *ending)

static volatile sig_atomic_t ends, stops, goes_on;

static void note(int number)
{
    if (number == SIGTSTP)
        stops = 1;
    else if (number == SIGCONT)
        goes_on = 1;
    else if (number != SIGWINCH) /* which need only end the wait: the next page has the new size */
        ends = number;
}

static void take(int number, sigset_t *taken)
{
    struct sigaction present, action = {.sa_handler = note};
    /* What is ignored (nohup, a shell without job control) stays so. */
    if (sigaction(number, NULL, &present) == 0 && present.sa_handler == SIG_IGN)
        return;
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, NULL);
    sigaddset(taken, number);
}

/* `waiting` is the mask under which it waits. */
static void take_signals(sigset_t *waiting)
{
    sigset_t taken;
    sigemptyset(&taken);
    for (size_t i = 0; i < ENDING; i++)
        take(ending[i], &taken);
    take(SIGTSTP, &taken);
    take(SIGCONT, &taken);
    take(SIGWINCH, &taken);
    sigprocmask(SIG_BLOCK, &taken, waiting);
    for (size_t i = 0; i < ENDING; i++)
        sigdelset(waiting, ending[i]);
    sigdelset(waiting, SIGTSTP);
    sigdelset(waiting, SIGCONT);
    sigdelset(waiting, SIGWINCH);
}

/* Does what the signal would have done; comes back from a stop. */
static void suffer(int number)
{
    struct sigaction before, standard = {.sa_handler = SIG_DFL};
    sigset_t only, blocked;
    sigemptyset(&only);
    sigaddset(&only, number);
    sigaction(number, &standard, &before);
    kill(getpid(), number);
    sigprocmask(SIG_UNBLOCK, &only, &blocked);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    sigaction(number, &before, NULL);
}

/* --- one page after the other ------------------------------------------------------------------------------------- */

struct top {
    struct top_look look;
    struct top_list list;
    struct top_view view;
    struct canvas canvas;
    uint64_t next_ns; /* look; the real clock */
    sigset_t waiting;
};

static size_t room(const struct top *top)
{
    const int rows = top_page_room(&top->view, top->canvas.height, top->look.sight.row_count);
    return rows > 0 ? (size_t)rows : 0;
}

/* The list, and what is told of its chosen one. */
static void arrange(struct top *top)
{
    top_list_make(&top->list, &top->look.sight, &top->view);
    top_check_questions(&top->view, &top->list);
    const struct top_row *chosen = top_chosen(&top->list, &top->view);
    if (chosen == NULL || chosen->key != top->look.detail.key)
        top_look_closer(&top->look, chosen);
}

static void show(struct top *top)
{
    int width, height;
    terminal_size(&width, &height);
    canvas_clear(&top->canvas, width, height);
    top_page_put(&top->canvas, &top->look.sight, &top->list, &top->view, &top->look.detail);
    terminal_show(&top->canvas);
}

static void look(struct top *top, bool is_tick)
{
    const uint64_t began_ns = clock_real_ns();
    top_look(&top->look, is_tick);
    arrange(top);
    const uint64_t ended_ns = clock_real_ns(), rest_ns = (ended_ns - began_ns) * REST_PER_LOOK;
    if (is_tick)
        top->next_ns = began_ns + top->view.interval_ns;
    if (top->next_ns < ended_ns + rest_ns)
        top->next_ns = ended_ns + rest_ns;
}

static void force(struct top *top)
{
    static struct forcing forcing;
    const struct top_row *chosen = top_chosen(&top->list, &top->view);
    struct selection *selection = &top->look.selection;
    const struct forcing_circuit circuit = {chosen->row->target_name, chosen->row->destination};
    char *before = capture_take(); /* what is said from now on is about this alone */
    free(before);
    if (chosen->row->destination[0] == '\0') {
        top_answer(&top->view, copy_text("No circuit of this target stands yet, so there is nothing to force."));
        return;
    }
    forcing_start(&forcing, top->view.word, top->view.for_ns);
    forcing_act_on(&forcing, &circuit, &selection->at[chosen->place], selection);
    forcing_end(&forcing);
    top_answer(&top->view, capture_take());
    look(top, false);
}

/* False: it is to end. */
static bool take_keys(struct top *top)
{
    for (uint32_t key; (key = terminal_key()) != TOP_KEY_NONE;) {
        switch (top_key(&top->view, key, &top->list, room(top))) {
        case TOP_QUIT:
            return false;
        case TOP_LOOK:
            look(top, false);
            break;
        case TOP_FORCE:
            force(top);
            break;
        case TOP_REDRAW:
            terminal_redraw();
            break;
        default:
            break;
        }
        arrange(top);
    }
    return true;
}

/* Until a key or a signal, or the next look. False: there will be no key any more. */
static bool wait_for_something(struct top *top)
{
    struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
    const uint64_t now_ns = clock_real_ns(), left_ns = top->next_ns > now_ns ? top->next_ns - now_ns : 0;
    const struct timespec left = {.tv_sec = (time_t)(left_ns / NS_PER_S), .tv_nsec = (long)(left_ns % NS_PER_S)};
    if (ppoll(&keys, 1, &left, &top->waiting) <= 0)
        return true;
    /* The terminal is gone: SIGHUP says it too, where it is not ignored. */
    return (keys.revents & (POLLHUP | POLLERR | POLLNVAL)) == 0;
}

static void stop(void)
{
    stops = 0;
    terminal_leave();
    suffer(SIGTSTP);
    goes_on = 1;
}

static void run(struct top *top)
{
    look(top, true);
    for (;;) {
        show(top);
        if (!wait_for_something(top) || ends != 0)
            return;
        if (stops != 0)
            stop();
        if (goes_on != 0) {
            goes_on = 0;
            terminal_return();
        }
        if (!take_keys(top))
            return;
        if (clock_real_ns() >= top->next_ns)
            look(top, true);
    }
}

/* --- the command -------------------------------------------------------------------------------------------------- */

static int refuse(const char *why)
{
    warnx("top: %s", why);
    return EXIT_FAILURE;
}

static int top_run(struct top *top)
{
    char why[TERMINAL_WHY_MAX];
    int output;
    if (terminal_missing() != NULL)
        return refuse(terminal_missing());
    if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
        return refuse("it needs a terminal, for its page and its keys; 'sockfuse status' and 'sockfuse calls' write "
                      "the same anywhere");
    if (!clock_start(environment("SOCKFUSE_CLOCK")))
        warnx("SOCKFUSE_CLOCK: %s holds no eight bytes of time; the real clock serves", environment("SOCKFUSE_CLOCK"));
    if (!top_look_begins(&top->look))
        return EXIT_FAILURE;
    take_signals(&top->waiting);
    if (!capture_start(&output))
        err(EXIT_FAILURE, "top");
    atexit(capture_end); /* after the terminal was given back */
    if (!terminal_start(output, &top->canvas, why)) {
        capture_end();
        warnx("top: %s; 'sockfuse status' needs nothing of it", why);
        return EXIT_FAILURE;
    }
    run(top);
    terminal_end();
    capture_end();
    if (ends != 0)
        suffer(ends);
    return EXIT_SUCCESS;
}

static void top_free(struct top *top, struct destination *destinations, struct top_wish *wishes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        destination_free(&destinations[i]);
    free(destinations);
    free(wishes);
    free(top->view.answer);
    top_list_free(&top->list);
    top_look_free(&top->look);
    canvas_free(&top->canvas);
}

static int top_of(struct top *top, char **words, size_t count)
{
    struct destination *destinations = allocate(count, sizeof *destinations);
    struct top_wish *wishes = allocate(count, sizeof *wishes);
    char why[DESTINATION_WHY_MAX];
    for (size_t i = 0; i < count; i++) {
        const bool is_one = destination_read(&destinations[i], words[i], why);
        wishes[i] = (struct top_wish){words[i], is_one ? destinations[i].text : words[i]};
    }
    top->look.wishes = wishes;
    top->look.wish_count = count;
    const int status = top_run(top);
    top_free(top, destinations, wishes, count);
    return status;
}

static bool read_interval(struct top_view *view, const char *text)
{
    if (span_parse(text, &view->interval_ns) && view->interval_ns >= INTERVAL_LEAST_NS &&
        view->interval_ns <= INTERVAL_MOST_NS)
        return true;
    warnx("--interval %s: a time from 100ms to 1h is expected", text);
    return false;
}

static bool read_sort(struct top_view *view, const char *text)
{
    if (top_sort_named(text, &view->sort))
        return true;
    warnx("--sort %s: there is no such order; worst, name, waiting, oldest, rate, p95, failed, refused", text);
    return false;
}

int command_top(int argc, char **argv)
{
    static const struct option options[] = {
        COMMON_OPTIONS,
        WHOSE_OPTIONS,
        {"interval", required_argument, NULL, OPTION_INTERVAL},
        {"sort", required_argument, NULL, OPTION_SORT},
        {NULL, 0, NULL, 0},
    };
    static struct top top = {.look.is_first = true, .view.interval_ns = NS_PER_S};
    int letter;
    while ((letter = getopt_long(argc, argv, "h" WHOSE_LETTERS, options, NULL)) != -1) {
        if (whose_take(&top.look.choice, letter, optarg))
            continue;
        switch (letter) {
        case OPTION_INTERVAL:
            if (!read_interval(&top.view, optarg))
                return usage_error("top");
            break;
        case OPTION_SORT:
            if (!read_sort(&top.view, optarg))
                return usage_error("top");
            break;
        default:
            return common_option("top", help, letter);
        }
    }
    return top_of(&top, argv + optind, (size_t)(argc - optind));
}
