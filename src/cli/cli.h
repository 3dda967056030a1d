/*
 * cli.h - what the commands of `sockfuse` share: the table of commands, exit codes, and how help and bad usage end.
 *
 * One command, one file: `int command_NAME(int argc, char **argv)`, with getopt_long over argv (argv[0] is
 * "sockfuse", so that getopt's own messages read `sockfuse: unrecognized option …`; the command's words begin at
 * argv[1]). It returns the exit status. Messages go to stderr through warn(3) and warnx(3), each with a place and a
 * remedy; results go to stdout. Nothing here is for the library.
 */
#ifndef SOCKFUSE_CLI_CLI_H
#define SOCKFUSE_CLI_CLI_H

#include "view/output.h"

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary; /* one line for the list of commands */
};

int command_run(int argc, char **argv);
int command_check(int argc, char **argv);
int command_status(int argc, char **argv);
int command_calls(int argc, char **argv);
int command_top(int argc, char **argv);
int command_explain(int argc, char **argv);
int command_events(int argc, char **argv);
int command_observe(int argc, char **argv);
int command_audit(int argc, char **argv);
int command_metrics(int argc, char **argv);
int command_replay(int argc, char **argv);
int command_report(int argc, char **argv);
int command_open(int argc, char **argv);
int command_close(int argc, char **argv);
int command_agent(int argc, char **argv);
int command_auto(int argc, char **argv);
int command_reload(int argc, char **argv);
int command_forget(int argc, char **argv);

enum {
    EXIT_USAGE = 2,        /* unknown options, missing arguments */
    EXIT_RUN_FAILED = 125, /* `run`: sockfuse itself failed; these three as env(1) has them */
    EXIT_RUN_NOT_EXECUTED = 126,
    EXIT_RUN_NOT_FOUND = 127,
};

/* What getopt_long returns for long options without a letter. */
enum {
    OPTION_VERSION = 256,
    OPTION_JSON,
    OPTION_SINCE,
    OPTION_LOG,
    OPTION_MATCH,
    OPTION_FOR,
    OPTION_FLEET,
    OPTION_STRICT,
    OPTION_ENGINE,
    OPTION_ENDED,
    OPTION_ACTIVE,
    OPTION_CHECK,
    OPTION_OLDER,
    OPTION_TRACE,
    OPTION_TREE,
    OPTION_DOT,
    OPTION_FORMAT,
    OPTION_SUGGEST,
    OPTION_FORCE,
    OPTION_KEEP,
    OPTION_LIMIT,
    OPTION_FAULTS
};

/* The first lines of every command's table of long options; the letter is 'h' for the short form. */
#define COMMON_OPTIONS                                                                                                 \
    {"help", no_argument, NULL, 'h'},                                                                                  \
    {                                                                                                                  \
        "version", no_argument, NULL, OPTION_VERSION                                                                   \
    }

/*
 * For -h: writes the command's own help (lines that begin with "Usage: sockfuse NAME …") to stdout; returns the exit
 * status.
 */
int print_help(const char *text);
/* For --version: "sockfuse 0.1.0". */
int print_version(void);

/*
 * For bad usage, after the message (getopt's own or a warnx): points to the command's -h on stderr and returns
 * EXIT_USAGE. `command` is the command's name.
 */
int usage_error(const char *command);

/* What each command does with an option that is none of its own: -h, --version, or bad usage. Returns the status. */
int common_option(const char *command, const char *help, int letter);

/* The same for a word where a command takes none. */
int unexpected_word(const char *command, const char *word);

#endif
