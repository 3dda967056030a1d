/*
 * startup.c - from being loaded to being ready, and the taking of an edited policy later.
 *
 * The constructor runs inside somebody else's process: whatever is wrong, the program runs on, unguarded, with one line
 * on stderr. Only the constructor allocates, does I/O or reads the environment.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/libc.h"
#include "base/bare.h"
#include "base/clock.h"
#include "base/frame.h"
#include "base/log.h"
#include "base/text.h"
#include "base/undisturbed.h"
#include "connection/connection.h"
#include "connection/descriptors.h"
#include "connection/engine.h"
#include "connection/lineage.h"
#include "connection/memory.h"
#include "connection/names.h"
#include "connection/socket_swap.h"
#include "preload/host_program.h"
#include "preload/real.h"
#include "preload/wrapper.h"
#include "segment/processes.h"
#include "segment/seldom.h"

#define ERROR_BYTES sizeof(struct segment_error)
#define OPTIONS_MAX 64u /* patterns or options that the environment can hold */

struct engine engine;

/*
 * In the program `sockfuse` alone. What looks at the processes of a policy is none of them: where a whole login shell
 * is guarded, a command would count itself among those that it reached.
 */
__attribute__((weak, visibility("default"))) extern const char sockfuse_command[];

static const char *environment(const char *name)
{
    return secure_getenv(name);
}

/* The policy was found by the program's name: every command of a shell may find the same, and complain of the same. */
static bool is_discovered;

/* Who named a policy hears of each process; of what was discovered, one process a minute speaks for all. */
OWN_FRAME static void say(const char *line, size_t length)
{
    struct undisturbed before;
    struct seldom seldom;
    if (!is_discovered) {
        log_append(LOG_STDERR, line, length); /* or there is nobody to tell */
        return;
    }
    undisturbed_begin(&before);
    if (seldom_begin(&seldom, environment, line, length, clock_wall_ns()))
        seldom_end(&seldom, log_append(LOG_STDERR, line, length));
    undisturbed_end(&before);
}

/* One line, one write, and only once: the host's stderr is not ours. */
OWN_FRAME static void complain(const char *what, const char *more)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    char line[896];
    struct text text;
    if (atomic_flag_test_and_set(&said))
        return;
    text_start(&text, line, sizeof line - 1);
    text_add(&text, "sockfuse: ");
    text_add_printable(&text, what); /* a file's name may be anything */
    text_add(&text, more);
    line[text.length] = '\n';
    say(line, text.length + 1);
}

/* "a b" or "a\nb" as a NULL-terminated list, in place. */
static const char *const *split(char *words, const char *separators, const char **list)
{
    char *rest = NULL;
    size_t count = 0;
    for (char *word = strtok_r(words, separators, &rest); word && count < OPTIONS_MAX;
         word = strtok_r(NULL, separators, &rest))
        list[count++] = word;
    list[count] = NULL;
    return count ? list : NULL;
}

/* One address of a name, as `run` resolved it. */
static void preset_address(struct policy *policy, uint32_t answer, const char *name, const char *text)
{
    struct endpoint address;
    if (endpoint_parse_address(&address, text)) {
        names_note(answer, name, &address);
        policy_resolve_fallbacks(policy, name, &address);
    }
}

/* The policy's own names as `run` resolved them ("name=address,address name=…"):
 * for programs with a resolver of their own. */
static void preset_names(struct policy *policy)
{
    const char *words = environment("SOCKFUSE_NAMES");
    char *copy = words ? strdup(words) : NULL, *rest = NULL;
    for (char *word = copy ? strtok_r(copy, " ", &rest) : NULL; word; word = strtok_r(NULL, " ", &rest)) {
        char *addresses = strchr(word, '='), *more = NULL;
        uint32_t answer = names_new_answer();
        if (!addresses)
            continue;
        *addresses++ = '\0';
        for (char *address = strtok_r(addresses, ",", &more); address; address = strtok_r(NULL, ",", &more))
            preset_address(policy, answer, word, address);
    }
    free(copy);
}

static void complain_of_policy(const char *file, const struct policy_problem *problem)
{
    const size_t size = PATH_MAX + 512;
    char *place = malloc(size);
    struct text text;
    if (!place) {
        complain(file, " can't be read; this program runs unguarded");
        return;
    }
    text_start(&text, place, size);
    text_add(&text, file);
    text_add(&text, ":");
    if (problem && problem->line) {
        text_add_unsigned(&text, problem->line);
        text_add(&text, ":");
    }
    text_add(&text, " ");
    text_add(&text, problem ? problem->text : "can't be read");
    complain(place, "; this program runs unguarded");
    free(place);
}

static struct policy *load(const char *file, const char *const *patterns, const char *const *options)
{
    struct policy_problems problems = {0};
    struct policy *policy;
    engine.loaded_ns = clock_real_ns();
    if (file)
        policy = policy_load_with_patterns(file, patterns, options, &problems);
    else
        policy = policy_from_patterns(patterns, options, &problems);
    if (!policy) {
        const struct policy_problem *first = NULL;
        for (size_t i = 0; i < problems.count && !first; i++)
            if (problems.at[i].is_error)
                first = &problems.at[i];
        complain_of_policy(file ? file : "SOCKFUSE_TARGETS", first);
    }
    policy_problems_free(&problems);
    return policy;
}

/* The policy for this program, or NULL. `run` names its targets and options in the environment. */
static struct policy *find_policy(int argc, char *const *argv)
{
    static const char *patterns[OPTIONS_MAX + 1], *options[OPTIONS_MAX + 1];
    const char *const *with_patterns = NULL, *const *with_options = NULL;
    const char *words;
    char *copies[2] = {NULL, NULL};
    /* Not calloc: to clear such room is to be given its pages. What needs much room later is to find that free again. */
    struct discovery *found = malloc(sizeof *found > ERROR_BYTES ? sizeof *found : ERROR_BYTES);
    if (!found)
        return NULL;
    found->path[0] = '\0';
    found->name = NULL;
    found->named = false;
    if ((words = environment("SOCKFUSE_TARGETS")) && (copies[0] = strdup(words)))
        with_patterns = split(copies[0], " \t\n", patterns);
    if ((words = environment("SOCKFUSE_OPTIONS")) && (copies[1] = strdup(words)))
        with_options = split(copies[1], "\n", options);
    struct policy *policy = NULL;
    /* Targets named on the spot stand alone unless a file is named beside them. */
    bool has_file =
        (!with_patterns || environment("SOCKFUSE_POLICY")) && program_discover(argc, argv, environment, found);
    engine.keeps_policy = !has_file;
    is_discovered = has_file && !found->named;
    if (has_file || with_patterns)
        policy = load(has_file ? found->path : NULL, with_patterns, with_options);
    free(copies[0]);
    free(copies[1]);
    free(found);
    return policy;
}

/* Reads time from libc itself, beneath preloads that bend it:
 * circuits are shared with processes that have no such preload. Until then it comes by system calls. */
static void use_own_clock(void)
{
    int (*gettime)(clockid_t, struct timespec *) = clock_gettime;
    clock_use(NULL);
    if (!real_is_anothers(&gettime))
        return;
    void *libc = real.dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    void *found = libc ? dlsym(libc, "clock_gettime") : NULL;
    if (!found)
        return;
    memcpy(&gettime, &found, sizeof gettime);
    clock_use(gettime);
}

/* A relative name means the folder that the program started in, wherever it goes later. */
static void set_log(const char *log)
{
    size_t at = 0, size = PATH_MAX;
    char *place = malloc(size);
    engine.log = place;
    if (!place)
        return;
    place[0] = '\0';
    if (log[0] != '/' && strcmp(log, LOG_STDERR) != 0 && log[0] != '\0') {
        if (!getcwd(place, size))
            return;
        at = strlen(place);
        if (at + 1 < size)
            place[at++] = '/';
    }
    if (strlen(log) < size - at)
        strcpy(place + at, log);
    else
        place[0] = '\0'; /* too long to be opened */
}

/*
 * At the start and not with the first connect: by then a service may have given up the right to open the file (setuid,
 * chroot, seccomp); and commands reach, and name, who runs. What it costs is in src/README.md, "A start".
 */
static bool attach(const struct policy *policy, struct segment_error *error)
{
    if (policy->has_host_scope && !station_start(SCOPE_HOST, environment, error)) {
        complain(error->text, "; this program runs unguarded");
        return false;
    }
    if (error->text[0])
        complain(error->text, ""); /* a bad file was replaced */
    if (policy->has_process_scope)
        station_start(SCOPE_PROCESS, environment, error);
    return true;
}

/* Never 0 for a text; 0 for none. */
static uint32_t hash_of(const char *text)
{
    uint32_t hash = UINT32_C(0x811c9dc5); /* FNV-1a */
    for (const char *at = text; at && *at; at++)
        hash = (hash ^ (unsigned char)*at) * UINT32_C(0x01000193);
    return !text || !*text ? 0 : hash ? hash : 1;
}

/* Everything between "there is a policy" and "ready". */
static bool become_ready(struct policy *policy)
{
    real_resolve();
    if (real_is_another_copy())
        return false;
    swap_is_possible = real_is_anothers(&real.connect);
    lineage_start();
    memory_start();
    preset_names(policy);
    engine.run = hash_of(environment("SOCKFUSE_RUN"));
    if (!clock_replace(environment("SOCKFUSE_CLOCK")))
        complain("SOCKFUSE_CLOCK names no file of 8 bytes", "; the real clock is used");
    const char *log = environment("SOCKFUSE_LOG");
    if (log)
        set_log(log);
    struct segment_error *error = malloc(sizeof *error);
    if (error)
        error->text[0] = '\0';
    bool attached = error && attach(policy, error);
    free(error);
    return attached;
}

/* Where main returned and the status is not told, a call that still waits for its answer is nobody's fault. */
#if LIBC_HAS_ON_EXIT
static void at_exit(void)
{
    on_exit(connection_exit_handler, NULL);
}
#else
static void exits(void)
{
    connection_exit_handler(wrapper_exit_status(), NULL);
}

static void at_exit(void)
{
    atexit(exits);
}
#endif

/* A process that no policy is for looks for one, and that is all it costs:
 * the real functions are then found as they are called. */
__attribute__((constructor)) static void start(int argc, char **argv)
{
#if !LIBC_HANDS_ARGUMENTS
    argc = program_arguments(&argv);
#endif
    const char *off = secure_getenv("SOCKFUSE");
    if (getauxval(AT_SECURE) || (off && !strcmp(off, "off")) || sockfuse_command != NULL)
        return;
    int keep = errno;
    clock_use(bare_gettime);
    log_begin(); /* before anything is opened here, which might get the number */
    strncpy(engine.program, program_name(), sizeof engine.program - 1);
    struct policy *policy = find_policy(argc, argv);
    engine_put_policy(policy);
    if (policy && policy->target_count)
        strncpy(engine.program, program_known_as(argc, argv), sizeof engine.program - 1);
    bool is_ready = policy && policy->target_count && become_ready(policy);
    use_own_clock();
    if (is_ready) {
        at_exit();
        atomic_store_explicit(&engine.ready, true, memory_order_release);
    }
    errno = keep;
}

/* --- later --- */

void engine_note_no_place(enum target_scope scope)
{
    struct station *station = engine_station_now(scope);
    if (station)
        segment_note_no_room(&station->segment, NO_ROOM_PROCESSES);
}

void engine_take_policy(const struct policy *policy)
{
    if (policy->has_process_scope && !engine_station_now(SCOPE_PROCESS))
        station_start_later(SCOPE_PROCESS);
    engine_put_policy(policy); /* whoever finds it finds the station that it needs */
    for (unsigned int scope = SCOPE_HOST; scope <= SCOPE_PROCESS; scope++) {
        struct station *station = engine_station((enum target_scope)scope);
        if (station)
            process_runs(&station->segment, station->guard.holder, policy->revision, false);
    }
}
