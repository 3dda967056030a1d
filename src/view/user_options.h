/*
 * user_options.h - whose circuits a command is about, and of which policy: -p, --user and --mine.
 *
 * A command puts WHOSE_OPTIONS into its table of long options, WHOSE_LETTERS among its letters and WHOSE_HELP into
 * its help, and hands what getopt_long returns to whose_take first.
 */
#ifndef SOCKFUSE_VIEW_USER_OPTIONS_H
#define SOCKFUSE_VIEW_USER_OPTIONS_H

#include <getopt.h>
#include <stdbool.h>
#include <sys/types.h>

struct whose {
    const char *policy_file; /* of -p, or NULL: any */
    const char *user;        /* of --user, or NULL */
    uid_t uid;               /* of that user */
    bool mine;               /* --mine */
};

enum { OPTION_USER = 512, OPTION_MINE };

#define WHOSE_OPTIONS                                                                                                  \
    {"policy", required_argument, NULL, 'p'}, {"user", required_argument, NULL, OPTION_USER},                          \
    {                                                                                                                  \
        "mine", no_argument, NULL, OPTION_MINE                                                                         \
    }
#define WHOSE_LETTERS "p:"
/* Behind the line on -p, which each command words for itself. */
#define WHOSE_HELP                                                                                                     \
    "      --user NAME    only those of this user, by name or number; for root, who\n"                                 \
    "                     else means all users'\n"                                                                     \
    "      --mine         only those of the user who gives the command\n"

/*
 * Takes an option of WHOSE_OPTIONS; false: it is none of them. Ends the command if the user is unknown, or is another
 * one and the caller not root.
 */
bool whose_take(struct whose *choice, int letter, const char *argument);

/* Whether all users' circuits are meant: by root, unless he said otherwise. */
bool whose_is_everybody(const struct whose *choice);

/* Whether those of this user are meant. */
bool whose_has(const struct whose *choice, uid_t user);

#endif
