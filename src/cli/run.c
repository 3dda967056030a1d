/*
 * run.c - `sockfuse run`: starts a program under a policy.
 *
 * Everything that can be wrong is looked at before the program starts: policy, library, state folder, log, and
 * whether the program can be guarded at all. Then the environment is set and the program takes this process's place:
 * same pid, its own signals and exit status.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/injection.h"
#include "cli/library.h"
#include "cli/program.h"
#include "cli/resolve.h"
#include "cli/select.h"
#include "policy/discover.h"
#include "segment/segment.h"

static const char help[] =
    "Usage: sockfuse run [-p FILE] [-t PATTERN]... [-o KEY=VALUE]... [--log FILE] [--strict] [--] CMD [ARGUMENT]...\n"
    "Starts CMD under a policy: calls to its targets fail at once while their circuits are open.\n"
    "\n"
    "  -p, --policy FILE       the policy; without -p and -t: SOCKFUSE_POLICY, else the first of\n"
    "                          ~/.config/sockfuse/CMD.policy, /etc/sockfuse/CMD.policy, and default.policy in both\n"
    "  -t, --target PATTERN    a target on the spot: HOST:PORT, ADDRESS:PORT, NETWORK/BITS:PORT, unix:/PATH\n"
    "  -o, --option KEY=VALUE  overrides a key of the policy for all targets\n"
    "      --log FILE          append every change of a circuit to FILE, or to the standard error with 'stderr'\n"
    "      --strict            where circuits can't be kept (no state folder can be used), start nothing; else CMD\n"
    "                          runs unguarded then, with a warning\n"
    "  -h, --help              this text\n"
    "      --version           the version\n"
    "\n"
    "CMD keeps its process id, signals and exit status. Exit status 125: sockfuse failed, 126: CMD can't be executed,\n"
    "127: CMD was not found.\n";

/* What the library takes from the environment at the most (patterns, and options). */
#define LIST_MAX 64

struct list {
    const char *at[LIST_MAX + 1]; /* NULL-terminated */
    size_t count;
};

struct request {
    const char *policy_file; /* -p */
    const char *log;         /* --log */
    struct list patterns, options;
    char **command;
    bool strict; /* nothing is started unguarded because its circuits can't be kept */
    bool help, version;
};

static bool list_add(struct list *list, const char *word, const char *what)
{
    if (list->count == LIST_MAX) {
        warnx("more than %d %s; write them into a policy file", LIST_MAX, what);
        return false;
    }
    list->at[list->count++] = word;
    return true;
}

/* Adds the words of a text that is cut up in place. */
static bool list_split(struct list *list, char *text, const char *separators, const char *what)
{
    for (char *place, *word = strtok_r(text, separators, &place); word != NULL;
         word = strtok_r(NULL, separators, &place)) {
        if (!list_add(list, word, what))
            return false;
    }
    return true;
}

/* The words of a list with a separator between them; NULL for none. To be freed. */
static char *list_join(const struct list *list, const char *separator)
{
    char *text = NULL;
    for (size_t i = 0; i < list->count; i++) {
        char *longer = format_text("%s%s%s", text != NULL ? text : "", text != NULL ? separator : "", list->at[i]);
        free(text);
        text = longer;
    }
    return text;
}

static bool parse_words(int argc, char **argv, struct request *request)
{
    static const struct option options[] = {
        COMMON_OPTIONS,
        {"policy", required_argument, NULL, 'p'},
        {"target", required_argument, NULL, 't'},
        {"option", required_argument, NULL, 'o'},
        {"log", required_argument, NULL, OPTION_LOG},
        {"strict", no_argument, NULL, OPTION_STRICT},
        {NULL, 0, NULL, 0},
    };
    int letter;
    /* '+': the first word that is no option is CMD, and all that follows is CMD's own. */
    while ((letter = getopt_long(argc, argv, "+hp:t:o:", options, NULL)) != -1) {
        switch (letter) {
        case 'h':
            request->help = true;
            return true;
        case OPTION_VERSION:
            request->version = true;
            return true;
        case 'p':
            request->policy_file = optarg;
            break;
        case 't':
            if (!list_split(&request->patterns, copy_text(optarg), " \t\n", "targets"))
                return false;
            break;
        case 'o':
            if (strchr(optarg, '=') == NULL || strchr(optarg, '\n') != NULL) {
                warnx("-o %s: KEY=VALUE is expected, such as -o reset_timeout=30s", optarg);
                return false;
            }
            if (!list_add(&request->options, optarg, "options"))
                return false;
            break;
        case OPTION_LOG:
            request->log = optarg;
            break;
        case OPTION_STRICT:
            request->strict = true;
            break;
        default:
            return false;
        }
    }
    request->command = argv + optind;
    if (argv[optind] == NULL) {
        warnx("run: which program? CMD is missing");
        return false;
    }
    return true;
}

/* --- the policy --------------------------------------------------------------------------------------------------- */

/* Takes from the environment what an outer `run` named there, where this one names nothing. */
static bool inherit(struct request *request)
{
    const char *patterns = getenv("SOCKFUSE_TARGETS"), *options = getenv("SOCKFUSE_OPTIONS");
    bool nothing_named = request->policy_file == NULL && request->patterns.count == 0;
    if (nothing_named && patterns != NULL) {
        if (!list_split(&request->patterns, copy_text(patterns), " \t\n", "targets"))
            return false;
        const char *file = getenv("SOCKFUSE_POLICY");
        request->policy_file = file != NULL && file[0] != '\0' ? file : NULL;
    }
    if (nothing_named && request->options.count == 0 && options != NULL)
        return list_split(&request->options, copy_text(options), "\n", "options");
    return true;
}

/* Finds and validates the policy; `*file` is where it was read from (to be freed), NULL if it was made on the spot. */
static struct policy *load_policy(const struct request *request, const struct program *program, char **file)
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

/* --- what the program finds --------------------------------------------------------------------------------------- */

static void set_variable(const char *name, const char *value)
{
    int status = value != NULL ? setenv(name, value, 1) : unsetenv(name);
    if (status != 0)
        err(EXIT_RUN_FAILED, "%s can't be set", name);
}

/* A path that means the same after the program has changed its folder. To be freed. */
static char *absolute(const char *path)
{
    if (path[0] == '/')
        return copy_text(path);
    char *folder = getcwd(NULL, 0);
    if (folder == NULL)
        err(EXIT_RUN_FAILED, "the current folder is gone; name %s by its full path", path);
    char *result = format_text("%s/%s", strcmp(folder, "/") == 0 ? "" : folder, path);
    free(folder);
    return result;
}

static void make_absolute(const char *name)
{
    const char *value = getenv(name);
    if (value != NULL && value[0] != '\0' && value[0] != '/') {
        char *path = absolute(value);
        set_variable(name, path);
        free(path);
    }
}

/* Whether the log can be appended to; a pipe that nobody reads yet will do. */
static bool set_log(const char *log)
{
    if (strcmp(log, "stderr") == 0) {
        set_variable("SOCKFUSE_LOG", log);
        return true;
    }
    char *path = absolute(log);
    int descriptor = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    bool usable = descriptor >= 0 || errno == ENXIO;
    if (usable)
        set_variable("SOCKFUSE_LOG", path);
    else
        warn("--log %s can't be written; name another file, or 'stderr'", log);
    if (descriptor >= 0)
        close(descriptor);
    free(path);
    return usable;
}

/*
 * Attaches once, as the program will, to see that it works. A state folder that can't be used must not keep a service
 * from starting: any user can make one of our name, and any file system can be full.
 */
static bool try_segment(const struct policy *policy, const struct request *request)
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
        warnx("%s; %s is not started (--strict): its circuits can't be kept; SOCKFUSE_STATE can name a folder of "
              "your own",
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

static bool is_switched_off(void)
{
    const char *value = getenv("SOCKFUSE");
    return value != NULL && strcasecmp(value, "off") == 0;
}

/*
 * A name for this run, by which its processes number their attempts in a rehearsal; one that is set already is gone on
 * with.
 */
static void name_run(void)
{
    uint64_t name = 0;
    const char *present = getenv("SOCKFUSE_RUN");
    if (present != NULL && present[0] != '\0')
        return;
    if (getrandom(&name, sizeof name, GRND_NONBLOCK) != (ssize_t)sizeof name)
        name = (uint64_t)getpid() << 32 ^ clock_wall_ns();
    char *text = format_text("%016" PRIx64, name);
    set_variable("SOCKFUSE_RUN", text);
    free(text);
}

/* Tells what the library will read: see the table of variables in the manual. */
static void set_environment(const struct request *request, const struct policy *policy, const struct program *program,
                            const char *preload)
{
    char *asan_options = library_asan_options(&program->elf, preload, getenv("ASAN_OPTIONS"));
    char *patterns = list_join(&request->patterns, " "), *options = list_join(&request->options, "\n");
    char *names = preload[0] != '\0' && !is_switched_off() ? resolve_names(policy) : NULL;
    set_variable("LD_PRELOAD", preload[0] != '\0' ? preload : NULL);
    if (asan_options != NULL)
        set_variable("ASAN_OPTIONS", asan_options);
    set_variable("SOCKFUSE_POLICY", policy->path);
    set_variable("SOCKFUSE_TARGETS", patterns);
    set_variable("SOCKFUSE_OPTIONS", options);
    set_variable("SOCKFUSE_NAMES", names);
    name_run();
    free(asan_options);
    free(patterns);
    free(options);
    free(names);
    const char *log = getenv("SOCKFUSE_LOG");
    if (log != NULL && strcmp(log, "stderr") != 0)
        make_absolute("SOCKFUSE_LOG");
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

static int start(struct request *request)
{
    static struct program program;
    static struct library library;
    bool found = program_examine(request->command[0], &program);
    if (!found)
        program = (struct program){0};

    /* Both are read here already, and by their relative names. */
    make_absolute("SOCKFUSE_STATE");
    make_absolute("SOCKFUSE_CLOCK");
    char *file;
    struct policy *policy = inherit(request) ? load_policy(request, &program, &file) : NULL;
    if (policy == NULL)
        return EXIT_RUN_FAILED;
    if (!library_find(&library) || (request->log != NULL && !set_log(request->log)))
        return EXIT_RUN_FAILED;
    /* A program that can't be started must not leave a segment behind; execvp says why. */
    if (!found)
        return execute(request->command);
    bool guarded = try_segment(policy, request);
    if (!guarded && request->strict)
        return EXIT_RUN_FAILED;
    if (!clock_start(getenv("SOCKFUSE_CLOCK")))
        warnx("SOCKFUSE_CLOCK: %s holds no eight bytes of time; the real clock serves", getenv("SOCKFUSE_CLOCK"));

    if (!injection_is_allowed(policy))
        warnx("this kernel lets root alone make a socket deaf: inject = hang, reset, silence, early-close and "
              "http-NNN will do nothing to %s's attempts; run it as root, or rehearse with refuse, delay and slow",
              request->command[0]);
    bool foreign;
    if (program.examined && program.elf.bits != library.elf.bits)
        library_take_narrow(&library);
    char *warning = program_warning(&program, &library.elf, &foreign);
    if (warning != NULL)
        warnx("%s", warning);
    if (is_switched_off())
        warnx("SOCKFUSE=off is set: %s runs unguarded; unset it to guard it", request->command[0]);
    char *preload =
        foreign || !guarded ? library_removed(getenv("LD_PRELOAD")) : library_preloaded(&library, getenv("LD_PRELOAD"));
    set_environment(request, policy, &program, preload);
    return execute(request->command);
}

int command_run(int argc, char **argv)
{
    static struct request request;
    if (!parse_words(argc, argv, &request)) {
        usage_error("run");
        return EXIT_RUN_FAILED;
    }
    if (request.help)
        return print_help(help);
    if (request.version)
        return print_version();
    return start(&request);
}
