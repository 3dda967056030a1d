/*
 * audit_stage.c - the runs of an audit. See audit_stage.h.
 */
#define _GNU_SOURCE
#include "cli/audit_stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/audit_look.h"
#include "cli/audit_progress.h"
#include "cli/cli.h"
#include "cli/injection.h"
#include "cli/own_circuits.h"
#include "cli/run_start.h"
#include "cli/staged_run.h"

/* What the command writes without a fault is kept in memory; who writes more than that is listened to anew. */
#define KEPT_MAX (INT64_C(4) << 20)
#define SPARE_NS (3 * NS_PER_S)
#define TOLD_BYTES 2048
#define TOLD_LINES 6

static int kept = -1;

/* --- its descriptors ---------------------------------------------------------------------------------------------- */

static int open_null(void)
{
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0)
        err(EXIT_RUN_FAILED, "/dev/null");
    return null;
}

/* A file is read by each run, from where it stands; all else could be read once only. */
static int open_input(void)
{
    struct stat status;
    if (fstat(STDIN_FILENO, &status) == 0 && S_ISREG(status.st_mode)) {
        const int file = open("/proc/self/fd/0", O_RDONLY | O_CLOEXEC);
        if (file >= 0 && lseek(file, lseek(STDIN_FILENO, 0, SEEK_CUR), SEEK_SET) >= 0)
            return file;
        warn("standard input can't be opened again; /dev/null serves");
        if (file >= 0)
            close(file);
    }
    return open_null();
}

bool audit_stage_lost_input(void)
{
    struct stat status;
    return isatty(STDIN_FILENO) == 1 ||
           (fstat(STDIN_FILENO, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode)));
}

static int open_output(const struct audit_wish *wish, bool is_kept)
{
    if (wish->is_verbose)
        return fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (is_kept && (kept = memfd_create("output", MFD_CLOEXEC)) >= 0 && fcntl(kept, F_SETFL, O_APPEND) == 0)
        return fcntl(kept, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return open_null();
}

static void bound_kept_output(void)
{
    struct stat status;
    if (kept >= 0 && fstat(kept, &status) == 0 && status.st_size > KEPT_MAX && ftruncate(kept, 0) != 0)
        kept = -1;
}

void audit_stage_tell_output(void)
{
    struct stat status;
    char text[TOLD_BYTES + 1];
    if (kept < 0 || fstat(kept, &status) != 0 || status.st_size == 0)
        return;
    const off_t from = status.st_size > TOLD_BYTES ? status.st_size - TOLD_BYTES : 0;
    const ssize_t got = pread(kept, text, TOLD_BYTES, from);
    text[got > 0 ? got : 0] = '\0';
    char *lines[TOLD_LINES] = {NULL};
    size_t count = 0;
    for (char *place, *line = strtok_r(text, "\r\n", &place); line != NULL; line = strtok_r(NULL, "\r\n", &place))
        lines[count++ % TOLD_LINES] = line;
    for (size_t i = count > TOLD_LINES ? count - TOLD_LINES : 0; i < count; i++)
        warnx("  %s", lines[i % TOLD_LINES]);
}

/* --- what all runs have ------------------------------------------------------------------------------------------- */

/* Nothing ends a wait but the program, and every outcome is noted. */
static void ask(struct run_request *request, const struct audit_wish *wish, const char *inject)
{
    *request = (struct run_request){
        .options = {{"mode=observe", "record=all", "connect_timeout=30d", "response_timeout=off", "abandon_after=50ms",
                     "enforce_timeouts=no", "fallback=none", "max_connections=0", "circuit=destination", "scope=host",
                     own_circuits_option(), inject},
                    12},
        .command = wish->command,
        .strict = true,
    };
}

static int become(void *start)
{
    return run_start_execute(start);
}

/* What a run is looked at with. */
struct eye {
    struct audit *audit;
    struct audit_run *run; /* NULL: without a fault */
    struct audit_look look;
    struct selected selected;
    uint64_t soft_ns, hard_ns; /* when it is stopped, if the destination was called and no call waits; in any case */
    size_t number;
};

static bool is_enough(void *context, uint64_t elapsed_ns)
{
    struct eye *eye = context;
    audit_progress_show(eye->audit, eye->run, eye->number, elapsed_ns);
    bound_kept_output();
    if (eye->run == NULL)
        return elapsed_ns >= eye->hard_ns;
    audit_look_again(&eye->look);
    return elapsed_ns >= eye->hard_ns ||
           eye->look.longest_ns >= eye->audit->limit_ns + audit_slack(eye->audit->limit_ns) ||
           (elapsed_ns >= eye->soft_ns && eye->look.longest_ns == 0 && audit_calls(eye->look.segment) > 0);
}

static void last_look(void *context)
{
    struct eye *eye = context;
    audit_progress_end();
    if (eye->run == NULL)
        audit_look_at_bare(&eye->selected.segment, eye->audit);
    else
        audit_look_at_end(&eye->look, eye->run);
}

static int go(struct eye *eye, const struct audit_wish *wish, struct run_start *start, struct audit_course *course)
{
    struct staged_run run = {
        .become = become,
        .start = start,
        .input = open_input(),
        .output = open_output(wish, eye->run == NULL),
        .is_enough = is_enough,
        .last_look = last_look,
        .looker = eye,
    };
    const bool is_started = staged_run(&run);
    if (!is_started)
        warn("%s is not started: there is no process for it", wish->command[0]);
    else if (run.left_over > 0)
        warnx("%u processes of %s could not be ended; others go on beside them", run.left_over, wish->command[0]);
    close(run.input);
    close(run.output);
    *course = (struct audit_course){
        .status = run.status,
        .elapsed_ns = run.elapsed_ns,
        .has_ended = run.has_ended,
        .left_some = run.left_some && !run.is_interrupted,
        .was_made = is_started && !run.is_interrupted,
    };
    return is_started ? EXIT_SUCCESS : EXIT_RUN_FAILED;
}

/* Makes ready, runs, and leaves nothing behind. */
static int stage(struct eye *eye, const struct audit_wish *wish, struct run_request *request,
                 struct audit_course *course)
{
    struct run_start *start = allocate(1, sizeof *start);
    int status = run_start_prepare(start, request);
    if (status == EXIT_SUCCESS && !start->is_found)
        status = run_start_execute(start); /* it says why not */
    else if (status == EXIT_SUCCESS &&
             (start->is_unseen || !start->is_guarded || !own_circuits_open(&eye->selected, start->policy))) {
        warnx("nothing can be seen of %s: it is not audited", wish->command[0]);
        status = EXIT_RUN_FAILED;
    } else if (status == EXIT_SUCCESS) {
        eye->look.segment = &eye->selected.segment;
        status = go(eye, wish, start, course);
        own_circuits_give_back(&eye->selected, start->policy, false, 0);
        segment_detach(&eye->selected.segment);
    }
    if (start->policy != NULL)
        policy_free(start->policy);
    free(start->preload);
    free(start);
    return status;
}

/* --- without a fault ---------------------------------------------------------------------------------------------- */

int audit_stage_bare(struct audit *audit, const struct audit_wish *wish)
{
    static struct run_request request;
    struct eye eye = {.audit = audit, .hard_ns = audit->limit_ns};
    ask(&request, wish, "inject=none");
    request.policy_file = wish->policy_file;
    request.patterns = wish->patterns;
    if (wish->policy_file == NULL && wish->patterns.count == 0)
        request.patterns = (struct run_list){{"*.:*", "*:*", "unix:*"}, 3};
    return stage(&eye, wish, &request, &audit->bare);
}

/* --- with one ----------------------------------------------------------------------------------------------------- */

/* The pattern that takes this destination alone. NULL: there is none. To be freed. */
static char *pattern_of(const char *destination)
{
    char *text = NULL;
    size_t size;
    if (strpbrk(destination, " \t\n") != NULL)
        return NULL;
    FILE *out = open_text(&text, &size);
    for (const char *at = destination; *at != '\0'; at++) {
        if (strncmp(destination, "unix:", 5) == 0 && strchr("*?[\\", *at) != NULL)
            fputc('\\', out);
        fputc(*at, out);
    }
    close_text(out);
    struct policy_problems problems = {0};
    struct policy *policy = policy_from_patterns((const char *const[]){text, NULL}, NULL, &problems);
    const bool is_good = policy != NULL;
    policy_problems_free(&problems);
    if (is_good)
        policy_free(policy);
    else
        free(text);
    return is_good ? text : NULL;
}

static bool may_make_deaf(void)
{
    struct policy_problems problems = {0};
    struct policy *policy = policy_from_patterns((const char *const[]){"localhost:1", NULL},
                                                 (const char *const[]){"inject=hang", NULL}, &problems);
    const bool may = policy == NULL || injection_is_allowed(policy);
    policy_problems_free(&problems);
    if (policy != NULL)
        policy_free(policy);
    return may;
}

const char *audit_stage_left_out(const struct audit_destination *destination, const char *fault)
{
    static const char nameless[] = "its name can't be written as a pattern",
                      path[] = "a UNIX socket takes refuse alone", no_http[] = "no HTTP was seen",
                      forbidden[] = "this kernel lets root alone make a socket deaf";
    static int may = -1;
    char *pattern = pattern_of(destination->name);
    free(pattern);
    if (pattern == NULL)
        return nameless;
    if (strcmp(fault, "refuse") == 0)
        return NULL;
    if (destination->is_path)
        return path;
    if (may < 0)
        may = may_make_deaf();
    if (may == 0)
        return forbidden;
    return strncmp(fault, "http-", 5) == 0 && !destination->is_http ? no_http : NULL;
}

uint64_t audit_stage_bound(const struct audit *audit)
{
    /* What is called late waits for the limit all the same; and on a busy machine no run is as fast as another. */
    const uint64_t before_ns = audit->is_endless ? audit->limit_ns : audit->bare.elapsed_ns * 2;
    return before_ns + SPARE_NS + audit->limit_ns + audit_slack(audit->limit_ns);
}

int audit_stage_fault(struct audit *audit, const struct audit_wish *wish, struct audit_run *run, size_t number)
{
    static struct run_request request;
    struct eye eye = {
        .audit = audit,
        .run = run,
        .look = {.limit_ns = audit->limit_ns},
        .soft_ns = audit->is_endless ? audit->limit_ns : UINT64_MAX,
        .hard_ns = audit_stage_bound(audit),
        .number = number,
    };
    char *inject = format_text("inject=%s", run->fault), *pattern = pattern_of(run->destination->name);
    ask(&request, wish, inject);
    request.patterns = (struct run_list){{pattern}, 1};
    audit_progress_begin(audit, run, number, wish->is_verbose);
    const int status = stage(&eye, wish, &request, &run->course);
    free(inject);
    free(pattern);
    return status;
}
