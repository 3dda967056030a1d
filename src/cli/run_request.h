/*
 * run_request.h - what `sockfuse run` is asked for: its words, and what an outer `run` named.
 *
 * For run.c, run_start.c, run_environment.c, own_circuits.c and audit*.c.
 */
#ifndef SOCKFUSE_CLI_RUN_REQUEST_H
#define SOCKFUSE_CLI_RUN_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

/* What the library takes from the environment at the most (patterns, and options). */
#define RUN_LIST_MAX 64

struct run_list {
    const char *at[RUN_LIST_MAX + 1]; /* NULL-terminated */
    size_t count;
};

/* By what a program's connections are guarded. */
enum run_engine {
    ENGINE_PRELOAD, /* the library, in its processes */
    ENGINE_NOTIFY,  /* a supervisor that the kernel asks (notify/notify.h) */
    ENGINE_AUTO,    /* the library, or the supervisor where no library can be */
};

struct run_request {
    const char *policy_file; /* -p */
    const char *log;         /* --log */
    struct run_list patterns, options;
    char **command;
    enum run_engine engine;
    bool strict; /* nothing is started unguarded because its circuits can't be kept */
    bool help, version;
};

/* Reads the words of the command line. False, after a message: they are not what is expected. */
bool run_request_parse(int argc, char **argv, struct run_request *request);

/*
 * Takes from the environment what an outer `run` named there, where this one names nothing. False, after a message: it
 * is too much.
 */
bool run_request_inherit(struct run_request *request);

/* Adds the words of a text, which is cut up in place. False, after a message that names `what`: they are too many. */
bool run_list_split(struct run_list *list, char *text, const char *separators, const char *what);
/* The words of a list with a separator between them; NULL for none. To be freed. */
char *run_list_join(const struct run_list *list, const char *separator);

#endif
