/*
 * cli.c - the little that all commands share: help, version and bad usage.
 *
 * See cli.h.
 */
#include "cli/cli.h"

#include <stdlib.h>

#ifndef SOCKFUSE_VERSION
#define SOCKFUSE_VERSION "unknown"
#endif

int print_help(const char *text)
{
    fputs(text, stdout);
    return finish_output(EXIT_SUCCESS);
}

int print_version(void)
{
    puts("sockfuse " SOCKFUSE_VERSION);
    return finish_output(EXIT_SUCCESS);
}

int usage_error(const char *command)
{
    fprintf(stderr, "Try 'sockfuse %s -h'.\n", command);
    return EXIT_USAGE;
}

int common_option(const char *command, const char *help, int letter)
{
    switch (letter) {
    case 'h':
        return print_help(help);
    case OPTION_VERSION:
        return print_version();
    default:
        return usage_error(command);
    }
}

int unexpected_word(const char *command, const char *word)
{
    warnx("%s: unexpected word '%s'; a policy is named with -p FILE", command, word);
    return usage_error(command);
}
