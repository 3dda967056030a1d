/*
 * run_start.c - what has to be right before a program starts under a policy. See run_start.h.
 */
#define _GNU_SOURCE
#include "cli/run_start.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/injection.h"
#include "view/library.h"
#include "cli/resolve.h"
#include "cli/run_environment.h"
#include "view/select.h"
#include "notify/notify.h"
#include "policy/discover.h"
#include "segment/segment.h"

/* Finds and validates the policy; `*file` is where it was read from (to be freed), NULL if it was made on the spot. */
static struct policy *load_policy(const struct run_request *request, const struct program *program, char **file)
{
    const char *command = request->command[0];
    struct discovery found;
    *file = NULL;
    if (request->policy_file != NULL) {
        *file = copy_text(request->policy_file);
    } else if (request->patterns.count == 0) {
        const char *names[PROGRAM_NAMES_MAX];
        program_names(command, program, names);
        if (!policy_discover(names, environment, &found)) {
            warnx("there is no policy for %s; name one with -p FILE, or a target with -t HOST:PORT; 'sockfuse check "
                  "--for %s' says where it was looked for",
                  names[0], command);
            return NULL;
        }
        *file = copy_text(found.path);
    }
    struct policy_problems problems = {0};
    const char *const *options = request->options.count > 0 ? request->options.at : NULL;
    struct policy *policy;
    if (*file == NULL)
        policy = policy_from_patterns(request->patterns.at, options, &problems);
    else if (request->patterns.count > 0)
        policy = policy_load_with_patterns(*file, request->patterns.at, options, &problems);
    else
        policy = policy_load(*file, options, &problems);
    if (policy != NULL)
        policy_check_order(policy, &problems);
    print_problems(*file, &problems);
    if (policy == NULL) {
        if (problems.errors == 0)
            warnx("%s: the policy can't be read", *file != NULL ? *file : "-t");
        warnx("%s is not started: its policy has errors%s%s", command, *file != NULL ? "; see sockfuse check " : "",
              *file != NULL ? *file : "");
    }
    policy_problems_free(&problems);
    return policy;
}

/*
 * Attaches once, as the program will, to see that it works. A state folder that can't be used must not keep a service
 * from starting: any user can make one of our name, and any file system can be full.
 */
static bool try_segment(const struct policy *policy, const struct run_request *request)
{
    if (!policy->has_host_scope)
        return true;
    struct state_places places;
    find_places(&places);
    struct segment *segment = allocate(1, sizeof *segment);
    struct segment_error *error = allocate(1, sizeof *error);
    const struct attaching attaching = {policy->identity, &policy->capacity, .patient = true};
    if (!state_places_name(&places, policy->identity))
        errx(EXIT_RUN_FAILED, "the name of the state folder is too long; set SOCKFUSE_STATE to a shorter one");
    bool attached = segment_attach_first(segment, &places, &attaching, error);
    if (attached) {
        if (error->text[0] != '\0')
            warnx("%s", error->text);
        segment_detach(segment);
    } else if (request->strict) {
        warnx("%s; %s is not started: its circuits can't be kept; SOCKFUSE_STATE can name a folder of your own",
              error->text, request->command[0]);
    } else {
        warnx("%s; %s runs unguarded; SOCKFUSE_STATE can name a folder of your own, and run --strict starts nothing "
              "unguarded",
              error->text, request->command[0]);
    }
    state_places_free(&places);
    free(segment);
    free(error);
    return attached;
}

/* By which engine: the library where it can be had, if nothing else was asked for. Says what can't be guarded at all. */
static void choose_engine(struct run_start *start, struct library *library, bool *foreign)
{
    const enum run_engine engine = start->request->engine;
    if (start->program.examined)
        library_take_fitting(library, &start->program.elf);
    start->warning = program_warning(&start->program, &library->elf, foreign);
    const bool can = start->is_guarded && !run_is_switched_off() && !program_is_privileged(&start->program);
    start->is_asked = can && (engine == ENGINE_NOTIFY || (engine == ENGINE_AUTO && start->warning != NULL));
    if (start->warning != NULL && !start->is_asked)
        warnx("%s", start->warning);
    else if (engine == ENGINE_NOTIFY && !can && start->is_guarded && !run_is_switched_off())
        warnx("%s gets privileges of its own, and nobody may look at such a process: it runs unguarded by --engine "
              "notify",
              start->request->command[0]);
    start->is_unseen = (start->warning != NULL && !start->is_asked) || run_is_switched_off();
}

/* Behind it the kernel asks about this process's connects, and about those of all that it starts. */
static void begin_asking(const struct run_start *start)
{
    static struct notify_start begun;
    const char *command = start->request->command[0];
    char *names = resolve_names(start->policy);
    const struct notify_wish wish = {.policy = start->policy, .names = names, .log = getenv("SOCKFUSE_LOG")};
    const bool is_begun = notify_start(&wish, &begun);
    if (!is_begun && start->warning != NULL)
        warnx("%s; nor by the kernel's word: %s", start->warning, begun.reason);
    else if (!is_begun)
        warnx("%s can't be guarded by --engine notify: %s", command, begun.reason);
    if (begun.gave_up_more)
        warnx("%s and what it starts get no privileges of set-user-ID programs (sudo, su): without CAP_SYS_ADMIN the "
              "kernel asks for that; --engine preload goes without it",
              command);
    free(names);
}

static int execute(char **command)
{
    execvp(command[0], command);
    int error = errno;
    if (error == ENOENT) {
        warn("%s", command[0]);
        return EXIT_RUN_NOT_FOUND;
    }
    warn("%s can't be executed", command[0]);
    return EXIT_RUN_NOT_EXECUTED;
}

int run_start_prepare(struct run_start *start, struct run_request *request)
{
    static struct library library;
    char *file;
    start->request = request;
    start->is_found = program_examine(request->command[0], &start->program);
    if (!start->is_found)
        start->program = (struct program){0};

    /* Both are read here already, and by their relative names. */
    make_absolute("SOCKFUSE_STATE");
    make_absolute("SOCKFUSE_CLOCK");
    start->policy = run_request_inherit(request) ? load_policy(request, &start->program, &file) : NULL;
    if (start->policy == NULL)
        return EXIT_RUN_FAILED;
    if (!library_find(&library) || (request->log != NULL && !run_environment_set_log(request->log)))
        return EXIT_RUN_FAILED;
    /* A program that can't be started must not leave a segment behind; execvp says why. */
    if (!start->is_found)
        return EXIT_SUCCESS;
    start->is_guarded = try_segment(start->policy, request);
    if (!start->is_guarded && request->strict)
        return EXIT_RUN_FAILED;
    if (!clock_start(getenv("SOCKFUSE_CLOCK")))
        warnx("SOCKFUSE_CLOCK: %s holds no eight bytes of time; the real clock serves", getenv("SOCKFUSE_CLOCK"));

    if (!injection_is_allowed(start->policy))
        warnx("this kernel lets root alone make a socket deaf: inject = hang, reset, silence, early-close and "
              "http-NNN will do nothing to %s's attempts; run it as root, or rehearse with refuse, delay and slow",
              request->command[0]);
    bool foreign;
    choose_engine(start, &library, &foreign);
    if (run_is_switched_off())
        warnx("SOCKFUSE=off is set: %s runs unguarded; unset it to guard it", request->command[0]);
    const bool is_left_out = foreign || !start->is_guarded || (start->is_asked && request->engine == ENGINE_NOTIFY);
    start->preload =
        is_left_out ? library_removed(getenv("LD_PRELOAD")) : library_preloaded(&library, getenv("LD_PRELOAD"));
    return EXIT_SUCCESS;
}

int run_start_execute(struct run_start *start)
{
    if (start->is_found)
        run_environment_set(start->request, start->policy, &start->program, start->preload);
    if (start->is_asked)
        begin_asking(start);
    return execute(start->request->command);
}
