/*
 * web_making.c - answers that take a while. See web_making.h.
 */
#define _GNU_SOURCE
#include "agent/web_making.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/signals_as_new.h"
#include "view/library.h"
#include "view/output.h"

#define SECONDS_MAX 10.0
#define BYTES_MAX ((size_t)64 << 20)
#define PIECE ((size_t)1 << 16)
#define WORDS_MAX 12

static const struct {
    const char *words[3];
    const char *end; /* of all that it says, but for ends of lines */
} commands[WEB_KINDS] = {
    [WEB_METRICS] = {{"metrics", NULL}, "\n# EOF"},
    [WEB_STATUS] = {{"status", "--json", NULL}, "]"},
    [WEB_CALLS] = {{"calls", "--json", NULL}, "]"},
    [WEB_REPORT] = {{"report", "--json", NULL}, "}"},
};

struct making {
    enum web_kind kind;
    pid_t pid; /* 0: none */
    int from;
    char *bytes;
    size_t length, size;
    const char *why; /* it was ended by us */
    char reason[64];
    ev_io readable;
    ev_timer limit;
    ev_child ended;
};

static struct {
    struct ev_loop *loop;
    web_made *made;
    char *command;
    const char *words[WORDS_MAX]; /* behind the command's own */
    size_t word_count;
    struct making at[WEB_KINDS];
} works;

/* --- in the child ------------------------------------------------------------------------------------------------- */

static _Noreturn void become(const struct making *making, int to)
{
    char *words[WORDS_MAX + 6];
    size_t count = 0;
    const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    signals_as_new();
    setpgid(0, 0);
    words[count++] = works.command;
    for (const char *const *word = commands[making->kind].words; *word != NULL; word++)
        words[count++] = (char *)(uintptr_t)*word;
    for (size_t i = 0; i < works.word_count; i++)
        words[count++] = (char *)(uintptr_t)works.words[i];
    words[count] = NULL;
    if (nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 && dup2(to, STDOUT_FILENO) >= 0 &&
        dup2(nothing, STDERR_FILENO) >= 0)
        execv(works.command, words);
    _exit(127);
}

/* --- in the agent ------------------------------------------------------------------------------------------------- */

static void forget(struct making *making)
{
    ev_io_stop(works.loop, &making->readable);
    ev_timer_stop(works.loop, &making->limit);
    ev_child_stop(works.loop, &making->ended);
    if (making->from >= 0)
        close(making->from);
    making->from = -1;
    making->pid = 0;
}

/* Once libev has waited for it, its number may be another's, though we are told a little later. */
static void kill_all_of(const struct making *making)
{
    if (making->ended.rpid != 0)
        return;
    kill(-making->pid, SIGKILL);
    kill(making->pid, SIGKILL);
}

static bool is_whole(const struct making *making)
{
    const size_t length = strlen(commands[making->kind].end);
    size_t said = making->length;
    while (said > 0 && making->bytes[said - 1] == '\n')
        said--;
    return said >= length && memcmp(making->bytes + said - length, commands[making->kind].end, length) == 0;
}

/* NULL: it said all. By status 1 it says that not all could be read, which is no reason to keep the rest back. */
static const char *why_it_failed(struct making *making, int status)
{
    if (making->why != NULL)
        return making->why;
    if (!WIFEXITED(status))
        snprintf(making->reason, sizeof making->reason, "sockfuse %s was ended by signal %d",
                 commands[making->kind].words[0], WTERMSIG(status));
    else if (WEXITSTATUS(status) == 127)
        return "the command sockfuse can't be executed";
    else if (WEXITSTATUS(status) > 1 || !is_whole(making))
        snprintf(making->reason, sizeof making->reason, "sockfuse %s failed with exit status %d",
                 commands[making->kind].words[0], WEXITSTATUS(status));
    else
        return NULL;
    return making->reason;
}

static void finish(struct making *making, int status)
{
    char *bytes = making->bytes;
    const char *why = why_it_failed(making, status);
    const size_t length = making->length;
    making->bytes = NULL;
    forget(making);
    if (why != NULL) {
        free(bytes);
        bytes = NULL;
    }
    works.made(making->kind, bytes, bytes != NULL ? length : 0, why);
}

/* All that it has written; true: it writes no more. */
static bool drain(struct making *making)
{
    for (;;) {
        if (making->size - making->length < PIECE) {
            char *larger = realloc(making->bytes, making->size + 4 * PIECE);
            if (larger == NULL)
                return true;
            making->bytes = larger;
            making->size += 4 * PIECE;
        }
        const ssize_t got = read(making->from, making->bytes + making->length, making->size - making->length);
        if (got <= 0)
            return got == 0 || (errno != EAGAIN && errno != EINTR);
        making->length += (size_t)got;
        if (making->length > BYTES_MAX) {
            making->why = "it would be too long";
            kill_all_of(making);
            return true;
        }
    }
}

static void hear(struct ev_loop *loop, ev_io *readable, int events)
{
    (void)events;
    if (drain(readable->data))
        ev_io_stop(loop, readable);
}

static void take_end(struct ev_loop *loop, ev_child *ended, int events)
{
    struct making *making = ended->data;
    (void)loop, (void)events;
    if (making->why == NULL)
        drain(making);
    finish(making, ended->rstatus);
}

static void cut_short(struct ev_loop *loop, ev_timer *limit, int events)
{
    struct making *making = limit->data;
    (void)loop, (void)events;
    making->why = "it took too long";
    kill_all_of(making);
}

void web_making_begin(enum web_kind kind)
{
    struct making *making = &works.at[kind];
    int ends[2];
    if (making->pid != 0)
        return;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        works.made(kind, NULL, 0, "no descriptor is left");
        return;
    }
    *making = (struct making){.kind = kind, .from = ends[0]};
    making->pid = fork();
    if (making->pid == 0)
        become(making, ends[1]);
    close(ends[1]);
    if (making->pid < 0) {
        close(ends[0]);
        *making = (struct making){.from = -1};
        works.made(kind, NULL, 0, "no process can be started");
        return;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    ev_io_init(&making->readable, hear, making->from, EV_READ);
    ev_timer_init(&making->limit, cut_short, SECONDS_MAX, 0);
    ev_child_init(&making->ended, take_end, making->pid, 0);
    making->readable.data = making->limit.data = making->ended.data = making;
    ev_io_start(works.loop, &making->readable);
    ev_timer_start(works.loop, &making->limit);
    ev_child_start(works.loop, &making->ended);
}

/* The command that executes this agent (cli/start_agent.c): it stands beside it, or in PREFIX/bin. */
static char *find_command(void)
{
    char folder[PATH_MAX];
    library_own_folder(folder, sizeof folder);
    char *beside = format_text("%s/sockfuse", folder);
    if (access(beside, X_OK) == 0)
        return beside;
    free(beside);
    return format_text("%s/../../bin/sockfuse", folder);
}

void web_making_start(struct ev_loop *loop, const struct whose *choice, web_made *made)
{
    works.loop = loop;
    works.made = made;
    works.command = find_command();
    works.word_count = 0;
    if (choice->policy_file != NULL) {
        works.words[works.word_count++] = "-p";
        works.words[works.word_count++] = choice->policy_file;
    }
    if (choice->user != NULL) {
        works.words[works.word_count++] = "--user";
        works.words[works.word_count++] = choice->user;
    }
    if (choice->mine)
        works.words[works.word_count++] = "--mine";
}

void web_making_stop(void)
{
    for (size_t i = 0; i < WEB_KINDS; i++) {
        struct making *making = &works.at[i];
        if (making->pid == 0)
            continue;
        kill_all_of(making);
        free(making->bytes);
        making->bytes = NULL;
        forget(making);
    }
    free(works.command);
    works.command = NULL;
}
