/*
 * check.c - `sockfuse check`: is a policy good, what does it come to, and which target takes a destination.
 *
 * Reads the policy exactly as `run` and the library do. With -v it writes it back as a policy in which every key
 * stands, each with where it came from.
 */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "cli/check_commands.h"
#include "cli/cli.h"
#include "cli/discovery.h"
#include "view/destination.h"
#include "view/tls_library.h"

static const char help[] =
    "Usage: sockfuse check [-v] [--match DEST] FILE...\n"
    "       sockfuse check [-v] [--match DEST] --for PROG\n"
    "Says whether policies are good: each error with its place, on the standard error.\n"
    "\n"
    "  -v, --verbose     write each target with all its keys, and where each value came from\n"
    "      --match DEST  say which target takes DEST, by which pattern, and what its circuit is called;\n"
    "                    DEST is HOST:PORT, ADDRESS:PORT, [V6]:PORT or unix:/PATH\n"
    "      --for PROG    say which file PROG would get when it is started from here, and why, and check that\n"
    "  -h, --help        this text\n"
    "      --version     the version\n"
    "\n"
    "Exit status 0: all are good (and have a target for DEST), 1: one is not, or PROG has none, 2: wrong usage.\n";

/* More addresses of one name are not looked at. */
#define ADDRESSES_MAX 32

/* What --match asks for; of a host's name with the addresses that it has here and now. */
struct question {
    const char *text; /* NULL: no --match */
    struct destination destination;
    struct endpoint addresses[ADDRESSES_MAX];
    size_t address_count;
    bool looked_up;
};

/* --- the question --- */

/* False, after a message: it is no destination. */
static bool read_question(struct question *question, const char *text)
{
    char why[DESTINATION_WHY_MAX];
    question->text = text;
    if (destination_read(&question->destination, text, why))
        return true;
    warnx("--match %s: %s", text, why);
    return false;
}

static bool has_address_patterns(const struct policy *policy)
{
    for (size_t i = 0; i < policy->target_count; i++) {
        for (size_t j = 0; j < policy->targets[i].pattern_count; j++) {
            const struct pattern *pattern = &policy->targets[i].patterns[j];
            if (pattern->kind == PATTERN_NETWORK && pattern->network.family != ENDPOINT_NONE)
                return true;
        }
    }
    return false;
}

/* A program that comes by this name connects to one of these. */
static void look_up(struct question *question)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const int status = getaddrinfo(question->destination.name, NULL, &hints, &found);
    question->looked_up = true;
    if (status != 0) {
        warnx("%s can't be looked up (%s): patterns with addresses are left out", question->destination.name,
              gai_strerror(status));
        return;
    }
    for (const struct addrinfo *at = found; at != NULL && question->address_count < ADDRESSES_MAX; at = at->ai_next) {
        struct endpoint *address = &question->addresses[question->address_count];
        if (!endpoint_from_sockaddr(address, at->ai_addr, at->ai_addrlen))
            continue;
        address->port = question->destination.endpoint.port;
        question->address_count++;
    }
    freeaddrinfo(found);
}

/* --- the answer --- */

static void print_match(const char *file, const struct question *question, const struct endpoint *endpoint,
                        const struct policy_match *match)
{
    char circuit[DESTINATION_MAX], address[DESTINATION_MAX] = "";
    const char *const names[] = {question->destination.name};
    if (policy_destination(match, endpoint, names, circuit, sizeof circuit) == 0)
        snprintf(circuit, sizeof circuit, "(its name is too long: not guarded)");
    if (question->destination.name != NULL && match->name < 0)
        endpoint_format(endpoint, address, sizeof address);
    printf("%s:%u: %s%s%s%s: target [%s], by its pattern %s; circuit %s, mode %s\n", shown(file), match->target->line,
           shown(question->text), address[0] != '\0' ? " (" : "", shown(address), address[0] != '\0' ? ")" : "",
           shown(match->target->name), shown(match->pattern->text), shown(circuit),
           target_mode_name(match->target->mode));
}

/* The addresses of one name may go to several targets: each is told once. False: no target takes it. */
static bool answer(const char *file, const struct policy *policy, struct question *question)
{
    const char *const names[] = {question->destination.name};
    const size_t name_count = question->destination.name != NULL;
    struct policy_match match, told = {0};
    bool any = false;
    if (question->destination.name != NULL && !question->looked_up && has_address_patterns(policy))
        look_up(question);
    for (size_t i = 0; i < question->address_count; i++) {
        const struct endpoint *endpoint = &question->addresses[i];
        if (!policy_match(policy, endpoint, names, name_count, &match))
            continue;
        if (!any || match.target != told.target || match.pattern != told.pattern)
            print_match(file, question, endpoint, &match);
        told = match;
        any = true;
    }
    if (!any && policy_match(policy, &question->destination.endpoint, names, name_count, &match)) {
        print_match(file, question, &question->destination.endpoint, &match);
        any = true;
    }
    if (!any)
        printf("%s: %s: no target takes it%s\n", shown(file), shown(question->text),
               question->destination.name == NULL && policy->has_host_patterns
                   ? " by its address; patterns with host names take programs that looked the name up"
                   : "");
    return any;
}

/* --- the policy written back --- */

static void print_policy(const struct policy *policy)
{
    char *text = policy_write(policy);
    if (text == NULL)
        no_memory();
    for (char *rest = text, *line = strsep(&rest, "\n"); rest != NULL; line = strsep(&rest, "\n"))
        puts(shown(line));
    free(text);
}

/* What is good as a text, and can't be done here. The file may be meant for another machine. */
static void warn_of_tls(const char *file, const struct policy *policy)
{
    const char *why;
    if (policy->agent != NULL && strncmp(policy->agent->settings.fleet, "rediss:", 7) == 0 && tls_library(&why) == NULL)
        warnx("%s:%u: warning: `fleet = rediss:...`: %s", file, policy->agent->line, why);
}

static bool check_file(const char *file, bool verbose, struct question *question)
{
    struct policy_problems problems;
    struct policy *policy = policy_load(file, NULL, &problems);
    bool good = policy != NULL;
    if (good)
        policy_check_order(policy, &problems);
    print_problems(file, &problems);
    if (problems.errors > problems.count)
        warnx("%s: more errors than these %zu: %zu in all", file, problems.count, problems.errors);
    if (good && (verbose || question->text == NULL))
        printf("%s%s: good, %zu target%s%s\n", verbose ? "# " : "", shown(file), policy->target_count,
               policy->target_count == 1 ? "" : "s", policy->agent != NULL ? ", and what the agent is to do" : "");
    if (good)
        warn_of_tls(file, policy);
    if (good)
        check_commands(file, policy);
    if (good && verbose)
        print_policy(policy);
    if (good && question->text != NULL)
        good = answer(file, policy, question);
    policy_problems_free(&problems);
    policy_free(policy);
    return good;
}

/* Which policy a program gets, and whether that one is good. */
static bool check_for(const char *program, bool verbose, struct question *question)
{
    char *file = discovery_explain(program);
    const bool good = file != NULL && check_file(file, verbose, question);
    free(file);
    return good;
}

int command_check(int argc, char **argv)
{
    static const struct option options[] = {
        {"verbose", no_argument, NULL, 'v'},
        {"match", required_argument, NULL, OPTION_MATCH},
        {"for", required_argument, NULL, OPTION_FOR},
        COMMON_OPTIONS,
        {0},
    };
    struct question question = {0};
    const char *program = NULL;
    bool verbose = false, good = true;
    for (int option; (option = getopt_long(argc, argv, "vh", options, NULL)) != -1;) {
        switch (option) {
        case 'v':
            verbose = true;
            break;
        case OPTION_MATCH:
            if (question.text != NULL) {
                warnx("--match can stand only once");
                return usage_error("check");
            }
            if (!read_question(&question, optarg))
                return usage_error("check");
            break;
        case OPTION_FOR:
            program = optarg;
            break;
        default:
            return common_option("check", help, option);
        }
    }
    if (optind == argc && program == NULL) {
        warnx("no policy file is named, and no program with --for");
        return usage_error("check");
    }
    if (optind < argc && program != NULL) {
        warnx("--for finds the policy by itself; leave %s out", argv[optind]);
        return usage_error("check");
    }
    if (program != NULL)
        good = check_for(program, verbose, &question);
    for (int i = optind; i < argc; i++)
        good = check_file(argv[i], verbose, &question) && good;
    destination_free(&question.destination);
    return finish_output(good ? EXIT_SUCCESS : EXIT_FAILURE);
}
