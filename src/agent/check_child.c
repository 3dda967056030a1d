/*
 * check_child.c - makes a health check as the user whose policy asked for it. See check_child.h.
 */
#define _GNU_SOURCE
#include "agent/check_child.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/as_user.h"
#include "agent/trusted.h"
#include "base/clock.h"
#include "policy/check_value.h"
#include "policy/command_words.h"
#include "view/destination.h"
#include "view/output.h"

#define WORDS_MAX (HEALTH_CHECK_SIZE / 2)
#define FACTS_MAX 5u
enum { EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127, EXIT_BY_SIGNAL = 128 };

struct check_child {
    bool is_command;
    void (*done)(void *context, const struct check_result *result);
    void *context;
};

/* --- as that user ------------------------------------------------------------------------------------------------- */

/* What is to be done: of the kind that is in force, and a connection, or what the file has. */
static bool may_do(const struct check_order *order, char value[HEALTH_CHECK_SIZE])
{
    const enum check_kind kind = check_kind(order->value);
    struct trusted trusted;
    if (kind == CHECK_CONNECT) {
        strcpy(value, order->value);
        return true;
    }
    const bool may = trusted_open(&trusted, order->identity, order->target, order->uid) &&
                     check_kind(trusted.target->health_check) == kind;
    if (may)
        memcpy(value, trusted.target->health_check, HEALTH_CHECK_SIZE);
    trusted_free(&trusted);
    return may;
}

static const char *const *find_words(const void *context)
{
    static char value[HEALTH_CHECK_SIZE], words[HEALTH_CHECK_SIZE], *argv[WORDS_MAX + 1];
    if (!may_do(context, value))
        return NULL;
    strcpy(words, check_command(value));
    words_split(words, argv, WORDS_MAX + 1);
    return (const char *const *)argv;
}

static int look_at_peer(const void *context)
{
    const struct check_order *order = context;
    const uint64_t deadline_ns = clock_real_ns() + order->timeout_ns;
    struct check_result result = {.error = EPERM};
    char value[HEALTH_CHECK_SIZE];
    if (may_do(order, value))
        result = check_peer(value, order->destination, deadline_ns);
    return write(STDOUT_FILENO, &result, sizeof result) == (ssize_t)sizeof result ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* --- in the agent ------------------------------------------------------------------------------------------------- */

static struct check_result exit_of(unsigned int status)
{
    return (struct check_result){.passed = status == 0, .exit_status = status};
}

static struct check_result result_of_command(const struct as_user_result *as_user)
{
    switch (as_user->end) {
    case AS_USER_EXITED:
        return exit_of((unsigned int)as_user->code);
    case AS_USER_SIGNALLED:
        return exit_of(EXIT_BY_SIGNAL + (unsigned int)as_user->code);
    case AS_USER_NOT_EXECUTED:
        return exit_of(as_user->code == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE);
    default:
        return exit_of(EXIT_NOT_EXECUTABLE);
    }
}

static void note_end(const struct as_user_result *as_user, void *context)
{
    const struct check_child child = *(struct check_child *)context;
    struct check_result result = {.error = EPROTO};
    free(context);
    if (as_user->end == AS_USER_TIMED_OUT)
        result.error = ETIMEDOUT;
    else if (child.is_command)
        result = result_of_command(as_user);
    else if (as_user->end == AS_USER_EXITED && as_user->output_length == sizeof result)
        memcpy(&result, as_user->output, sizeof result);
    child.done(child.context, &result);
}

/* What a command is told; to be freed, each. */
static void tell(const struct check_order *order, char *facts[FACTS_MAX])
{
    struct destination destination;
    char why[DESTINATION_WHY_MAX], room[DESTINATION_MAX];
    size_t count = 0;
    facts[count++] = format_text("SOCKFUSE_TARGET=%s", order->target);
    facts[count++] = format_text("SOCKFUSE_DESTINATION=%s", order->destination);
    if (destination_read(&destination, order->destination, why) && destination.endpoint.family != ENDPOINT_UNIX) {
        facts[count++] = format_text("SOCKFUSE_PORT=%u", destination.endpoint.port);
        if (destination.name != NULL || endpoint_format_address(&destination.endpoint, room, sizeof room) > 0)
            facts[count++] = format_text("SOCKFUSE_HOST=%s", destination.name != NULL ? destination.name : room);
    }
    destination_free(&destination);
    facts[count] = NULL;
}

struct check_child *check_start(struct ev_loop *loop, const struct check_order *order,
                                void (*done)(void *context, const struct check_result *result), void *context)
{
    struct check_child *child = allocate(1, sizeof *child);
    *child = (struct check_child){check_kind(order->value) == CHECK_COMMAND, done, context};
    char *facts[FACTS_MAX];
    tell(order, facts);
    const struct as_user_order run = {
        .user = order->uid,
        .find_words = child->is_command ? find_words : NULL,
        .job = look_at_peer,
        .job_context = order,
        .environment = (const char *const *)facts,
        .limit_ms = order->timeout_ns / NS_PER_MS,
        .is_silent = child->is_command,
        .output_max = sizeof(struct check_result),
    };
    const bool begun = as_user_run(loop, &run, note_end, child);
    for (char **fact = facts; *fact != NULL; fact++)
        free(*fact);
    if (!begun) {
        free(child);
        return NULL;
    }
    return child;
}

void check_cancel(struct check_child *child)
{
    as_user_cancel(child);
    free(child);
}
