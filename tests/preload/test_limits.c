/*
 * test_limits.c - enforce_timeouts while its limits are far away: receivers and connecters see what they see bare,
 * whatever signals, other threads and peers do meanwhile.
 *
 * A play is made by chance from a seed: a thread receives in some way, and the world acts on it step by step; after
 * each step it is awaited until the thread sleeps or is through, and what it has got is written down. The lines are
 * compared with those of the bare kernel. SEEDS is how many seeds are played (default 40), SEED the first one.
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <netinet/tcp.h>

#include "support.h"

#define SEEDS_BY_DEFAULT 40
#define ROUNDS 6
#define CALLS 4
#define STEPS 6
#define OUTPUT (1 << 16)

static const char far_away[] = "[defaults]\nfailure_threshold = 60000\nfailure_rate = 0%\n"
                               "[all]\nmatch = 127.0.0.0/8:* unix:*\nenforce_timeouts = yes\nconnect_timeout = 1m\n"
                               "response_timeout = 1m\n";
static char bare_lines[OUTPUT], guarded_lines[OUTPUT];

/* --- the receiver --- */

enum way { RECV, READ, READV, RECVFROM, RECVMSG, WAYS };

struct call {
    enum way way;
    int flags;
    size_t wanted;
    ssize_t got;
    int error;
    char bytes[8];
};

struct receiver {
    pthread_t thread;
    _Atomic pid_t id;
    int fd, count;
    _Atomic int made;
    struct call calls[CALLS];
};

static ssize_t receive(int fd, struct call *call)
{
    size_t half = call->wanted / 2;
    struct iovec parts[] = {{call->bytes, half}, {call->bytes + half, call->wanted - half}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    switch (call->way) {
    case READ:
        return read(fd, call->bytes, call->wanted);
    case READV:
        return readv(fd, parts, 2);
    case RECVFROM:
        return recvfrom(fd, call->bytes, call->wanted, call->flags, NULL, NULL);
    case RECVMSG:
        return recvmsg(fd, &message, call->flags);
    default:
        return recv(fd, call->bytes, call->wanted, call->flags);
    }
}

static void *receive_all(void *context)
{
    struct receiver *self = context;
    atomic_store(&self->id, gettid());
    for (int i = 0; i < self->count; i++) {
        struct call *call = &self->calls[i];
        errno = 4711;
        call->got = receive(self->fd, call);
        call->error = errno;
        atomic_store(&self->made, i + 1);
    }
    return NULL;
}

static bool is_asleep(pid_t thread)
{
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    text[length < 0 ? 0 : length] = '\0';
    char *state = strrchr(text, ')');
    return state && state[2] == 'S';
}

/* Until it sleeps in a call, or has made all. */
static void await_receiver(struct receiver *self)
{
    int calm = 0;
    for (uint64_t end = now_ms() + 20000; calm < 2 && atomic_load(&self->made) < self->count;) {
        CHECK(now_ms() < end);
        sched_yield();
        calm = atomic_load(&self->id) && is_asleep(atomic_load(&self->id)) ? calm + 1 : 0;
    }
}

static int written; /* of the receiver's calls */

static void write_down(const char *step, const struct receiver *self)
{
    printf("  %s:", step);
    for (int made = atomic_load(&self->made); written < made; written++) {
        const struct call *call = &self->calls[written];
        printf(" [%d %zu %#x] %zd %d %.*s;", (int)call->way, call->wanted, (unsigned int)call->flags, call->got,
               call->error, call->got > 0 ? (int)call->got : 0, call->bytes);
    }
    printf("%s\n", written < self->count ? " waits" : "");
}

/* --- the world --- */

static void note(int number)
{
    (void)number;
}

static void handle(int number, int flags)
{
    struct sigaction action = {.sa_handler = note, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    CHECK(sigaction(number, &action, NULL) == 0);
}

static char state_of(pid_t process)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, text, sizeof text - 1) <= 0)
        return '?';
    close(file);
    char *state = strrchr(text, ')');
    return state ? state[2] : '?';
}

static void stop_and_go_on(void)
{
    pid_t self = getpid(), other = fork();
    if (other == 0) {
        kill(self, SIGSTOP);
        for (int i = 0; i < 5000 && state_of(self) != 'T'; i++)
            usleep(1000);
        kill(self, SIGCONT);
        _exit(0);
    }
    CHECK(waitpid(other, NULL, 0) == other);
}

static bool is_unix;

static bool asks_for_nothing(const struct receiver *self)
{
    for (int i = 0; i < self->count; i++)
        if (self->calls[i].wanted == 0)
            return true;
    return false;
}

static bool has_own_time_out(int fd)
{
    struct timeval own = {0};
    socklen_t length = sizeof own;
    CHECK(bare.getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &own, &length) == 0);
    return own.tv_sec != 0;
}

static const char *act(unsigned int chance, const struct receiver *self, int peer)
{
    static const struct timeval own = {.tv_sec = 50};
    switch (chance % 9) {
    case 0:
        bare.send(peer, "abcdefgh", 1 + chance % 7, MSG_NOSIGNAL);
        return "sends";
    case 1:
        if (is_unix ||
            asks_for_nothing(self)) /* a receive that waited has passed over it, and such a one finds it or not */
            return "does nothing";
        bare.send(peer, "!", 1, MSG_NOSIGNAL | MSG_OOB);
        return "sends urgently";
    case 2:
        shutdown(peer, SHUT_WR);
        return "half-closes";
    case 3:
    case 4:
    case 5:
        pthread_kill(self->thread, SIGUSR1);
        return "signals";
    case 6:
        setsockopt(self->fd, SOL_SOCKET, SO_RCVTIMEO, &own, sizeof own);
        return "sets a time-out";
    case 7:
        fcntl(self->fd, F_SETFL, fcntl(self->fd, F_GETFL) | O_APPEND);
        return "sets a flag";
    default:
        /* With a time-out of its own the kernel answers EINTR, which poll does not: see signal(7). */
        if (!has_own_time_out(self->fd))
            stop_and_go_on();
        return "stops and goes on";
    }
}

static void choose_calls(struct receiver *self)
{
    static const int flags[] = {0, 0, MSG_PEEK, MSG_WAITALL, MSG_OOB, MSG_DONTWAIT, MSG_WAITALL | MSG_PEEK};
    self->count = 1 + (int)random() % CALLS;
    for (int i = 0; i < self->count; i++) {
        struct call *call = &self->calls[i];
        call->way = (enum way)(random() % WAYS);
        call->wanted = (size_t)random() % 5;
        call->flags = call->way == READ || call->way == READV ? 0 : flags[(size_t)random() % 7];
        if (i > 0) /* a receive that waits passes over urgent data, or does not: that depends on the kernel's timing */
            call->flags &= ~MSG_OOB;
        if (call->flags & MSG_WAITALL && call->wanted == 0)
            call->wanted = 1; /* of recvmsg, that it asks for nothing is seen too late */
    }
}

static void show_socket(int fd)
{
    struct timeval in = {0}, out = {0};
    unsigned int user = 0;
    int water = 0;
    socklen_t length = sizeof in;
    CHECK(bare.getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &in, &length) == 0);
    CHECK(bare.getsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &out, &length) == 0);
    length = sizeof user;
    bare.getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user, &length); /* UNIX sockets have none */
    CHECK(bare.getsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &water, &length) == 0);
    printf("  socket: %ld %ld %u %d %#x\n", (long)in.tv_sec, (long)out.tv_sec, user, water,
           (unsigned int)fcntl(fd, F_GETFL));
}

static void play_round(struct server *server)
{
    static const int flags[] = {0, SA_RESTART};
    struct receiver self = {.fd = caller_connect(server, 0)};
    int peer = server_accept(server), one = 1;
    handle(SIGUSR1, flags[(size_t)random() % 2]);
    if (random() % 4 == 0)
        setsockopt(self.fd, SOL_SOCKET, SO_OOBINLINE, &one, sizeof one);
    if (random() % 5 == 0)
        setsockopt(self.fd, SOL_SOCKET, SO_RCVLOWAT, &(int){3}, sizeof(int));
    if (random() % 5 == 0)
        setsockopt(self.fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_sec = 55}, sizeof(struct timeval));
    choose_calls(&self);
    written = 0;
    CHECK(send(self.fd, "q", 1, 0) == 1);
    CHECK(pthread_create(&self.thread, NULL, receive_all, &self) == 0);
    await_receiver(&self);
    write_down("begins", &self);
    for (int i = 0; i < STEPS; i++) {
        unsigned int chance = (unsigned int)random();
        if (atomic_load(&self.made) == self.count && chance % 9 >= 3 && chance % 9 <= 5)
            continue;
        const char *step = act(chance, &self, peer);
        await_receiver(&self);
        write_down(step, &self);
    }
    bare.close(peer);
    await_receiver(&self);
    write_down("closes", &self);
    pthread_join(self.thread, NULL);
    show_socket(self.fd);
    close(self.fd);
}

static int scene_receive(int argc, char **argv)
{
    struct server server;
    unsigned int seed = (unsigned int)strtoul(argv[0], NULL, 10);
    (void)argc;
    srandom(seed);
    is_unix = seed % 4 == 0;
    server_start(&server, is_unix ? "unix" : "127.0.0.1", SERVER_LISTENS);
    for (int i = 0; i < ROUNDS; i++)
        play_round(&server);
    server_stop(&server);
    return 0;
}

/* From the beginning of the round in which they differ. */
static void show_difference(const char *scene, const char *argument)
{
    size_t at = 0, round = 0;
    while (bare_lines[at] && bare_lines[at] == guarded_lines[at]) {
        if (!strncmp(bare_lines + at, "  begins", 8))
            round = at;
        at++;
    }
    print_error("%s %s:\nbare:\n%.600s\nguarded:\n%.600s\n", scene, argument, bare_lines + round,
                guarded_lines + round);
}

static bool same_as_bare(const char *scene, const char *argument)
{
    struct scene_options how = {.policy = far_away, .preload = "", .arguments = {argument}};
    how.output = bare_lines, how.output_size = sizeof bare_lines;
    bool good = exited_well(scene_run(scene, &how));
    how.output = guarded_lines, how.output_size = sizeof guarded_lines;
    how.preload = NULL;
    good = exited_well(scene_run(scene, &how)) && good;
    if (good && !strcmp(bare_lines, guarded_lines))
        return true;
    show_difference(scene, argument);
    return false;
}

static void receivers_notice_nothing_of_a_limit_that_is_far_away(void **state)
{
    const char *first = getenv("SEED"), *count = getenv("SEEDS");
    unsigned int begin = first ? (unsigned int)strtoul(first, NULL, 10) : 1, bad = 0;
    unsigned int end = begin + (count ? (unsigned int)strtoul(count, NULL, 10) : SEEDS_BY_DEFAULT);
    (void)state;
    for (unsigned int seed = begin; seed < end; seed++) {
        char text[16];
        snprintf(text, sizeof text, "%u", seed);
        bad += !same_as_bare("receive", text);
    }
    assert_int_equal(bad, 0);
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {{"receive", scene_receive}, {NULL, NULL}};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(receivers_notice_nothing_of_a_limit_that_is_far_away),
    };
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
