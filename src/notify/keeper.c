/*
 * keeper.c - the keeper's loop. See keeper.h.
 *
 * Worker and keeper each know of the other's death by a descriptor of its process, so either can be killed, and the one
 * that is left makes the other anew: only who kills both within that moment leaves the program with none. A worker that
 * lives and does not move (stopped, frozen, traced) while somebody waits for its answer is ended: looks are counted,
 * not time, so a machine that slept has not made it late.
 */
#define _GNU_SOURCE
#include "notify/keeper.h"

#include <errno.h>
#include <linux/close_range.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

/* Of workers that die so soon, one after the other, none is able to work: then calls pass for a while. */
#define SOON_NS NS_PER_S
#define PASSED_MS 1000
#define DEATHS_MAX 3u
#define LOOK_MS 1000
#define LOOKS_WITHOUT_BEAT 3u

pid_t keeper_make_child(void)
{
    return (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0);
}

static int open_process(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* Lets calls pass for a while, or for ever if `pause_ms` is -1. False: nobody is left who could ask. */
static bool pass_all(int listener, struct in_hand *in_hand, int pause_ms)
{
    const uint64_t end_ns = clock_real_ns() + (uint64_t)(pause_ms < 0 ? 0 : pause_ms) * NS_PER_MS;
    do {
        struct pollfd ready = {.fd = listener, .events = POLLIN};
        if (poll(&ready, 1, pause_ms) <= 0)
            continue;
        if (ready.revents & POLLIN) {
            if (question_take(listener, &in_hand->question))
                answer_pass(listener, in_hand->question.id);
        } else if (ready.revents & (POLLHUP | POLLERR | POLLNVAL)) {
            return false;
        }
    } while (pause_ms < 0 || clock_real_ns() < end_ns);
    return true;
}

static bool somebody_waits(int listener, const struct in_hand *in_hand)
{
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    return in_hand->question.id != 0 || (poll(&ready, 1, 0) > 0 && (ready.revents & POLLIN));
}

/* A worker; `process`: a descriptor of it, -1: none. */
struct watched_worker {
    pid_t pid; /* 0: there is none */
    int process;
};

/* Returns when the worker is dead. */
static void watch(const struct watched_worker *worker, int listener, const struct in_hand *in_hand)
{
    struct pollfd end = {.fd = worker->process, .events = POLLIN};
    uint64_t beats = 0;
    for (unsigned int looks = 0; end.fd >= 0 && poll(&end, 1, LOOK_MS) <= 0;) {
        const uint64_t now = atomic_load_explicit(&in_hand->beats, memory_order_relaxed);
        looks = now == beats && somebody_waits(listener, in_hand) ? looks + 1 : 0;
        beats = now;
        if (looks >= LOOKS_WITHOUT_BEAT)
            syscall(SYS_pidfd_send_signal, end.fd, SIGKILL, NULL, 0);
    }
    /* Of a worker that it has not made itself it hears nothing here: that one is another's child. */
    while (waitpid(worker->pid, NULL, __WALL) < 0 && errno == EINTR) {
    }
    if (end.fd >= 0)
        close(end.fd);
}

/* Each has the other's descriptor from before the fork, or from an own child: so neither's death can be missed. */
static struct watched_worker start_worker(const struct notify_wish *wish, int listener, struct in_hand *in_hand)
{
    const struct keeper_known keeper = {open_process(getpid()), keeper_renew};
    in_hand->end = WORKER_BEGINS_ANEW; /* what its death means, if it can say no more */
    const pid_t worker = keeper_make_child();
    if (worker == 0) {
        in_hand->end = worker_run(wish, listener, in_hand, &keeper);
        _exit(0);
    }
    if (keeper.process >= 0)
        close(keeper.process);
    return (struct watched_worker){worker > 0 ? worker : 0, worker > 0 ? open_process(worker) : -1};
}

/* `worker`: one that is there already, or none. */
static void keep(const struct notify_wish *wish, int listener, struct in_hand *in_hand, struct watched_worker worker)
{
    for (unsigned int deaths = 0;;) {
        const uint64_t begun_ns = clock_real_ns();
        if (worker.pid == 0)
            worker = start_worker(wish, listener, in_hand);
        if (worker.pid != 0)
            watch(&worker, listener, in_hand);
        if (worker.pid != 0 && in_hand->end == WORKER_IS_DONE)
            return;
        if (in_hand->question.id != 0)
            answer_pass(listener, in_hand->question.id);
        in_hand->question.id = 0;
        worker.pid = 0;
        deaths = clock_real_ns() - begun_ns < SOON_NS ? deaths + 1 : 0;
        if (deaths < DEATHS_MAX)
            continue;
        deaths = 0;
        if (!pass_all(listener, in_hand, PASSED_MS))
            return;
    }
}

void keeper_run(const struct notify_wish *wish, int listener)
{
    static struct in_hand own;
    struct in_hand *in_hand = mmap(NULL, sizeof *in_hand, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (in_hand == MAP_FAILED)
        pass_all(listener, &own, -1);
    else
        keep(wish, listener, in_hand, (struct watched_worker){0, -1});
}

static void close_all_but(int one, int other)
{
    const unsigned int low = (unsigned int)(one < other ? one : other),
                       high = (unsigned int)(one < other ? other : one);
    if (low > 3)
        close_range(3, low - 1, 0);
    if (high > low + 1)
        close_range(low + 1, high - 1, 0);
    close_range(high + 1, ~0u, 0);
}

int keeper_renew(const struct notify_wish *wish, int listener, struct in_hand *in_hand)
{
    const struct watched_worker self = {getpid(), open_process(getpid())};
    const pid_t keeper = self.process >= 0 ? keeper_make_child() : -1;
    if (keeper == 0) {
        close_all_but(listener, self.process); /* what the worker has open must not outlive it here */
        keep(wish, listener, in_hand, self);
        _exit(0);
    }
    if (self.process >= 0)
        close(self.process);
    return keeper > 0 ? open_process(keeper) : -1;
}
