/*
 * agent_main.c - the agent: `sockfuse agent` executes it. Options, start, reload, stop.
 *
 * One thread and one loop (libev). What could keep it waiting happens in a child with a time limit. Nothing
 * that it tells guarded programs lasts: it may be killed at any moment, and started again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <ev.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/agent_settings.h"
#include "agent/alert.h"
#include "agent/fleet_watch.h"
#include "agent/health.h"
#include "agent/service.h"
#include "agent/sweep.h"
#include "agent/watched.h"
#include "agent/web_server.h"
#include "base/clock.h"
#include "view/output.h"

#ifndef SOCKFUSE_VERSION
#define SOCKFUSE_VERSION "unknown"
#endif

static const char help[] =
    "Usage: sockfuse agent [-c FILE] [-p FILE]... [-o KEY=VALUE]... [--listen PLACE] [--allow NAME]\n"
    "Does what needs somebody who waits, for all policies in use: charges calls that hang while nobody\n"
    "else calls, gives back what the dead left, alerts. Optional: without it all else works as before.\n"
    "It stays in the foreground, and ends by SIGTERM; SIGHUP reads its settings anew.\n"
    "\n"
    "  -c, --config FILE  its settings: the section [agent] of FILE; else that of a policy of -p, or\n"
    "                     agent.conf in ~/.config/sockfuse or /etc/sockfuse\n"
    "  -p, --policy FILE  only those of this policy; may be given several times\n"
    "  -o, --option KEY=VALUE\n"
    "                     a key of [agent], over what the file says\n"
    "      --listen PLACE answers HTTP at PLACE: 127.0.0.1:9464, unix:/PATH, or off (-o listen=PLACE)\n"
    "      --allow NAME   lets others than this host ask by that name (-o allow=NAME)\n" WHOSE_HELP
    "  -h, --help         this text\n"
    "      --version      the version\n"
    "\n"
    "Exit status 0: it was stopped, 1: it could not begin, 2: wrong usage.\n";

enum { EXIT_USAGE = 2, OPTION_VERSION = 256, OPTION_LISTEN, OPTION_ALLOW };

static const struct option options[] = {
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, OPTION_VERSION},
    {"config", required_argument, NULL, 'c'},
    {"option", required_argument, NULL, 'o'},
    {"listen", required_argument, NULL, OPTION_LISTEN},
    {"allow", required_argument, NULL, OPTION_ALLOW},
    WHOSE_OPTIONS,
    {NULL, 0, NULL, 0},
};

static struct {
    struct agent_sources sources;
    struct agent_settings settings;
    struct whose *choices;
    const char **policies, **overrides;
    size_t policy_count, override_count;
} agent;

/*
 * By this symbol the library knows the agent, as it knows the command, and leaves it alone wherever it is preloaded
 * (startup.c): its own connections are not guarded.
 */
extern char sockfuse_command[];
__attribute__((visibility("default"))) char sockfuse_command[] = "sockfuse-agent";

static int usage_error(void)
{
    fprintf(stderr, "Try 'sockfuse agent -h' for more information.\n");
    return EXIT_USAGE;
}

static void add_override(const char *text)
{
    agent.overrides = grow(agent.overrides, agent.override_count, sizeof *agent.overrides);
    agent.overrides[agent.override_count++] = text;
}

/* -1: go on; else the exit status. */
static int read_options(int argc, char **argv)
{
    struct whose whose = {.policy_file = NULL};
    for (int letter; (letter = getopt_long(argc, argv, "hc:o:" WHOSE_LETTERS, options, NULL)) != -1;) {
        if (letter == 'p') {
            agent.policies = grow(agent.policies, agent.policy_count, sizeof *agent.policies);
            agent.policies[agent.policy_count++] = optarg;
        } else if (letter == 'o') {
            add_override(optarg);
        } else if (letter == OPTION_LISTEN) {
            add_override(format_text("listen=%s", optarg));
        } else if (letter == OPTION_ALLOW) {
            add_override(format_text("allow=%s", optarg));
        } else if (letter == 'c') {
            agent.sources.file = optarg;
        } else if (letter == 'h') {
            fputs(help, stdout);
            return finish_output(EXIT_SUCCESS);
        } else if (letter == OPTION_VERSION) {
            puts("sockfuse " SOCKFUSE_VERSION);
            return finish_output(EXIT_SUCCESS);
        } else if (!whose_take(&whose, letter, optarg)) {
            return usage_error();
        }
    }
    if (optind < argc) {
        warnx("agent: unexpected word '%s'", argv[optind]);
        return usage_error();
    }
    agent.overrides = grow(agent.overrides, agent.override_count, sizeof *agent.overrides);
    agent.overrides[agent.override_count] = NULL;
    agent.sources.overrides = agent.overrides;
    agent.sources.count = agent.policy_count > 0 ? agent.policy_count : 1;
    agent.choices = allocate(agent.sources.count, sizeof *agent.choices);
    for (size_t i = 0; i < agent.sources.count; i++) {
        agent.choices[i] = whose;
        agent.choices[i].policy_file = agent.policy_count > 0 ? agent.policies[i] : NULL;
    }
    agent.sources.choices = agent.choices;
    return -1;
}

static void stop(struct ev_loop *loop, ev_signal *signal, int events)
{
    (void)signal, (void)events;
    ev_break(loop, EVBREAK_ALL);
}

static void reload(struct ev_loop *loop, ev_signal *signal, int events)
{
    struct agent_settings settings;
    (void)loop, (void)signal, (void)events;
    service_reloading();
    if (agent_settings_read(&settings, &agent.sources)) {
        agent.settings = settings;
        watched_set(&agent.settings);
        fleet_watch_set(&agent.settings);
        web_server_set(&agent.settings);
    } else {
        warnx("the settings stay as they were");
    }
    service_reloaded();
}

/* Its descriptors 0 to 2 lead somewhere, so that nothing it opens is taken for them. */
static void have_standard_streams(void)
{
    if (fcntl(STDIN_FILENO, F_GETFD) < 0 || fcntl(STDOUT_FILENO, F_GETFD) < 0 || fcntl(STDERR_FILENO, F_GETFD) < 0)
        for (int fd = 0; fd >= 0 && fd <= STDERR_FILENO;)
            fd = open("/dev/null", O_RDWR);
}

static int run(void)
{
    struct ev_loop *loop = ev_default_loop(EVFLAG_NOENV);
    ev_signal ends[2], hangup;
    const int end_signals[] = {SIGTERM, SIGINT};
    const struct watching watching = {
        .choices = agent.choices, .count = agent.sources.count, .settings = &agent.settings};
    if (loop == NULL)
        errx(EXIT_FAILURE, "there is no event loop: libev finds nothing that works here");
    for (size_t i = 0; i < 2; i++) {
        ev_signal_init(&ends[i], stop, end_signals[i]);
        ev_signal_start(loop, &ends[i]);
    }
    ev_signal_init(&hangup, reload, SIGHUP);
    ev_signal_start(loop, &hangup);
    sweep_register(&agent.settings);
    health_register(loop);
    fleet_watch_start(loop, &agent.settings);
    alert_register(loop);
    if (!web_server_start(loop, &agent.settings, agent.choices, agent.sources.count))
        return EXIT_FAILURE;
    watched_start(loop, &watching);
    warnx("watches %zu polic%s in use", watched_count(), watched_count() == 1 ? "y" : "ies");
    service_ready(loop);
    ev_run(loop, 0);
    service_stopping();
    alert_finish();
    watched_stop();
    fleet_watch_stop();
    web_server_stop();
    ev_loop_destroy(loop);
    return finish_output(EXIT_SUCCESS);
}

int main(int argc, char **argv)
{
    char own_name[] = "sockfuse";
    have_standard_streams();
    argv[0] = own_name; /* getopt_long's messages begin with it */
    program_invocation_short_name = sockfuse_command;
    const int status = read_options(argc, argv);
    if (status >= 0)
        return status;
    signal(SIGPIPE, SIG_IGN);
    setenv("SOCKFUSE", "off", true);
    service_know();
    if (!clock_start(environment("SOCKFUSE_CLOCK")))
        warnx("SOCKFUSE_CLOCK: %s holds no eight bytes of time; the real clock serves", environment("SOCKFUSE_CLOCK"));
    if (!agent_settings_read(&agent.settings, &agent.sources))
        return EXIT_FAILURE;
    return run();
}
