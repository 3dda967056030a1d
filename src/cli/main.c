/*
 * main.c - the command `sockfuse`: the table of its commands, and which one the first word names.
 *
 * A new command is one file, one declaration in cli.h and one line in the table. Without a word it does the most useful
 * thing: `status` when a policy is in use, else this help.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "view/select.h"
#include "policy/distance.h"

static const struct command commands[] = {
    {"run", command_run, "start a program under a policy"},
    {"observe", command_observe, "run a program, refuse nothing, and say at its end what it did to whom"},
    {"audit", command_audit, "run a program under faults, and say after how long it gives up"},
    {"check", command_check, "validate a policy file, and say which target takes a destination"},
    {"status", command_status, "show the circuits and who is attached"},
    {"calls", command_calls, "show the calls in flight: who waits for whom, since when"},
    {"top", command_top, "show circuits and calls live, and force circuits by keys"},
    {"explain", command_explain, "say why a circuit is open, what comes next, what stands in the way"},
    {"open", command_open, "force a circuit open: calls to it fail at once"},
    {"close", command_close, "force a circuit closed: no call is refused"},
    {"auto", command_auto, "give a forced circuit back to its own rules"},
    {"reload", command_reload, "hand an edited policy to running programs"},
    {"forget", command_forget, "remove what is over: circuits of a policy, of a destination, or all"},
    {"events", command_events, "show the journal: failures, openings, probes, closings"},
    {"metrics", command_metrics, "write states, counts and latencies for Prometheus"},
    {"replay", command_replay, "say what other policies would have made of recorded outcomes"},
    {"report", command_report, "write what happened as a page for a browser, or as a trace"},
    {"agent", command_agent, "do what needs somebody who waits: sweep, alert (a daemon, optional)"},
};
#define COMMANDS (sizeof commands / sizeof *commands)

static const struct command *command_named(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

static int print_overview(FILE *out)
{
    fprintf(out, "Usage: sockfuse COMMAND [OPTION]...\n"
                 "A circuit breaker for the sockets of any program, without changing the program.\n\n");
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].summary);
    fprintf(out, "\nWithout COMMAND: status, or this help when no policy is in use.\n"
                 "Every command explains itself with -h. A first try:\n\n"
                 "  sockfuse run -t example.com:80 -- curl http://example.com/\n"
                 "  sockfuse status\n");
    return out == stdout ? finish_output(EXIT_SUCCESS) : EXIT_SUCCESS;
}

/* The command that somebody who mistyped probably meant, or only began to type; NULL: none is near. */
static const char *nearest_command(const char *word)
{
    struct nearest nearest = nearest_to(word);
    for (size_t i = 0; i < COMMANDS; i++) {
        if (word[0] != '\0' && strncmp(word, commands[i].name, strlen(word)) == 0)
            return commands[i].name;
        nearest_offer(&nearest, commands[i].name);
    }
    return nearest_meant(&nearest);
}

static int unknown_command(const char *name)
{
    const char *nearest = nearest_command(name);
    if (nearest != NULL)
        warnx("unknown command '%s'; did you mean '%s'?", name, nearest);
    else
        warnx("unknown command '%s'; 'sockfuse -h' lists the commands", name);
    return EXIT_USAGE;
}

/* `sockfuse help NAME` is `sockfuse NAME -h`. */
static int help_for(int argc, char **argv)
{
    if (argc == 0)
        return print_overview(stdout);
    const struct command *command = command_named(argv[0]);
    if (command == NULL)
        return unknown_command(argv[0]);
    char *words[] = {program_invocation_short_name, (char[]){"-h"}, NULL};
    return command->run(2, words);
}

/*
 * All messages begin with the same word, however the program was called; getopt_long takes it from argv[0]. Exported:
 * by this symbol the library knows the command, which it leaves alone wherever it is preloaded (startup.c).
 */
extern char sockfuse_command[];
__attribute__((visibility("default"))) char sockfuse_command[] = "sockfuse";

int main(int argc, char **argv)
{
    char *const own_name = sockfuse_command;
    program_invocation_short_name = own_name;

    if (argc < 2) {
        char *words[] = {own_name, NULL};
        return anything_in_use() ? command_status(1, words) : print_overview(stdout);
    }
    const char *word = argv[1];
    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0)
        return print_overview(stdout);
    if (strcmp(word, "--version") == 0)
        return print_version();
    if (strcmp(word, "help") == 0)
        return help_for(argc - 2, argv + 2);
    if (word[0] == '-') {
        warnx("unrecognized option '%s'; options stand behind the command, 'sockfuse -h' lists the commands", word);
        return EXIT_USAGE;
    }
    const struct command *command = command_named(word);
    if (command == NULL)
        return unknown_command(word);
    argv[1] = own_name;
    return command->run(argc - 1, argv + 1);
}
