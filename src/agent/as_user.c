/*
 * as_user.c - something done as another user. See as_user.h; the agent's side: one pipe and one child each.
 */
#define _GNU_SOURCE
#include "agent/as_user.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/runner.h"
#include "view/output.h"

struct run {
    struct run *next;
    uid_t user;
    pid_t runner;
    ev_io reading;
    ev_child ending;
    char *said; /* of the runner: a struct report, and what was said */
    size_t length, room;
    bool is_read, has_ended;
    void (*done)(const struct as_user_result *result, void *context);
    void *context;
};

static struct run *runs;

static void take_out(const struct run *run)
{
    struct run **at = &runs;
    while (*at != run)
        at = &(*at)->next;
    *at = run->next;
}

static void finish(struct run *run)
{
    struct report report = {.end = AS_USER_LOST};
    if (run->length >= sizeof report)
        memcpy(&report, run->said, sizeof report);
    const bool is_whole = run->length >= sizeof report && report.length == run->length - sizeof report;
    const struct as_user_result result = {
        .end = is_whole ? (enum as_user_end)report.end : AS_USER_LOST,
        .code = is_whole ? report.code : 0,
        .took_ms = report.took_ms,
        .output = is_whole ? run->said + sizeof report : "",
        .output_length = is_whole ? report.length : 0,
    };
    take_out(run);
    if (run->done != NULL)
        run->done(&result, run->context);
    free(run->said);
    free(run);
}

static void read_report(struct ev_loop *loop, ev_io *reading, int events)
{
    struct run *run = reading->data;
    (void)events;
    for (;;) {
        if (run->room - run->length < 2) {
            run->room = run->room == 0 ? 4096 : run->room * 2;
            char *said = realloc(run->said, run->room);
            if (said == NULL)
                no_memory();
            run->said = said;
        }
        const ssize_t got = read(reading->fd, run->said + run->length, run->room - run->length - 1);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (got <= 0)
            break;
        run->length += (size_t)got;
        run->said[run->length] = '\0';
    }
    ev_io_stop(loop, reading);
    close(reading->fd);
    run->is_read = true;
    if (run->has_ended)
        finish(run);
}

static void note_end(struct ev_loop *loop, ev_child *ending, int events)
{
    struct run *run = ending->data;
    (void)events;
    ev_child_stop(loop, ending);
    run->has_ended = true;
    if (run->is_read)
        finish(run);
}

bool as_user_run(struct ev_loop *loop, const struct as_user_order *order,
                 void (*done)(const struct as_user_result *result, void *context), void *context)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    struct run *run = allocate(1, sizeof *run);
    *run = (struct run){.next = runs, .user = order->user, .done = done, .context = context};
    run->runner = fork();
    if (run->runner == 0)
        runner_live(order, ends[1]);
    const int code = errno;
    close(ends[1]);
    if (run->runner < 0) {
        close(ends[0]);
        free(run);
        errno = code;
        return false;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    ev_io_init(&run->reading, read_report, ends[0], EV_READ);
    ev_child_init(&run->ending, note_end, run->runner, 0);
    run->reading.data = run->ending.data = run;
    ev_io_start(loop, &run->reading);
    ev_child_start(loop, &run->ending);
    runs = run;
    return true;
}

void as_user_cancel(const void *context)
{
    for (struct run *run = runs; run != NULL; run = run->next) {
        if (run->context != context)
            continue;
        run->done = NULL;
        if (run->ending.rpid == 0) /* else it was waited for, and its number may be another's */
            kill(run->runner, SIGTERM);
    }
}

unsigned int as_user_running(void)
{
    unsigned int count = 0;
    for (const struct run *run = runs; run != NULL; run = run->next)
        count++;
    return count;
}

unsigned int as_user_running_of(uid_t user)
{
    unsigned int count = 0;
    for (const struct run *run = runs; run != NULL; run = run->next)
        count += run->user == user;
    return count;
}
