/*
 * audit_stage.c - the runs of an audit. See audit_stage.h.
 */
#define _GNU_SOURCE
#include "cli/audit_stage.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/audit_look.h"
#include "cli/audit_progress.h"
#include "cli/audit_streams.h"
#include "cli/cli.h"
#include "cli/injection.h"
#include "cli/own_circuits.h"
#include "cli/run_start.h"
#include "cli/staged_run.h"

/* So much later than the run without a fault a call may begin. */
#define SPARE_NS (3 * NS_PER_S)

/* --- what all runs have ------------------------------------------------------------------------------------------- */

/* Nothing ends a wait but the program, and every outcome is noted. */
static void ask(struct run_request *request, const struct audit_wish *wish, const char *inject, const char *own)
{
    *request = (struct run_request){
        .options = {{"mode=observe", "record=all", "connect_timeout=30d", "response_timeout=off", "abandon_after=50ms",
                     "enforce_timeouts=no", "fallback=none", "max_connections=0", "circuit=destination", "scope=host",
                     own, inject},
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
    uint64_t soft_ns, hard_ns; /* when it is stopped: with the calls that began before; in any case */
    size_t number;
};

static bool is_enough(void *context, uint64_t elapsed_ns)
{
    struct eye *eye = context;
    audit_progress_show(eye->audit, eye->run, eye->number, elapsed_ns);
    if (eye->run == NULL)
        return elapsed_ns >= eye->hard_ns;
    audit_look_again(&eye->look);
    return elapsed_ns >= eye->hard_ns ||
           eye->look.longest_ns >= eye->audit->limit_ns + audit_slack(eye->audit->limit_ns) ||
           /* What began before is over. */
           (elapsed_ns >= eye->soft_ns && eye->look.longest_ns <= elapsed_ns - eye->soft_ns &&
            audit_count(eye->look.segment, COUNT_ADMITTED) > 0);
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
        .heard = -1,
        .hear = audit_streams_hear,
        .is_enough = is_enough,
        .last_look = last_look,
        .looker = eye,
    };
    run.input = audit_streams_input();
    run.output = audit_streams_output(wish->is_verbose, eye->run == NULL ? &run.heard : NULL);
    const bool is_started = staged_run(&run);
    if (!is_started)
        warn("%s is not started: there is no process for it", wish->command[0]);
    else if (run.left_over > 0)
        warnx("%u processes of %s could not be ended; others go on beside them", run.left_over, wish->command[0]);
    close(run.input);
    close(run.output);
    if (run.heard >= 0)
        close(run.heard);
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
        own_circuits_close(&eye->selected);
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
    char *own = own_circuits_option();
    ask(&request, wish, "inject=none", own);
    request.policy_file = wish->policy_file;
    request.patterns = wish->patterns;
    if (wish->policy_file == NULL && wish->patterns.count == 0)
        request.patterns = own_circuits_everybody();
    const int status = stage(&eye, wish, &request, &audit->bare);
    free(own);
    return status;
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
    static const char nameless[] = "its name can't be written as a pattern", path[] = "it is a UNIX socket",
                      no_http[] = "no HTTP was seen", forbidden[] = "this kernel lets root alone make a socket deaf";
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
    char *own = own_circuits_option();
    ask(&request, wish, inject, own);
    request.patterns = (struct run_list){{pattern}, 1};
    audit_progress_begin(audit, run, number, wish->is_verbose);
    const int status = stage(&eye, wish, &request, &run->course);
    free(inject);
    free(pattern);
    free(own);
    return status;
}
