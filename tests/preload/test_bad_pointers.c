/*
 * test_bad_pointers.c - memory that can't be read: whatever a program passes, it meets what it would meet without the
 * library, and nobody crashes.
 *
 * A scene makes every call that takes a pointer, with every kind of bad one, and writes what came of it. It plays
 * without the library, and with it under several policies, and the lines are compared.
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "support.h"

#define OUTPUT (1 << 19)

static long page;
static struct server server, nobody;
static _Alignas(65536) char own_data[2 * 65536]; /* of which pages are taken away */

/* --- kinds of bad pointers --- */

/* A copy of a good address where it could be read until now. */
static char *at_page(char *memory, bool used)
{
    memcpy(memory, &nobody.address, nobody.length);
    if (used) { /* what was seen to be good is believed to be so */
        int fd = caller_socket(&server, SOCK_NONBLOCK);
        connect(fd, (struct sockaddr *)memory, nobody.length);
        close(fd);
    }
    return memory;
}

static char *map_pages(void)
{
    char *memory = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static char *unmapped(void)
{
    char *memory = at_page(map_pages(), true);
    munmap(memory, (size_t)page * 2);
    return memory;
}

static char *protected(void)
{
    char *memory = at_page(map_pages(), true);
    mprotect(memory, (size_t)page * 2, PROT_NONE);
    return memory;
}

static char *protected_data(void)
{
    mprotect(own_data, (size_t)page, PROT_READ | PROT_WRITE);
    char *memory = at_page(own_data, true);
    mprotect(memory, (size_t)page, PROT_NONE);
    return memory;
}

static char *protected_heap(void)
{
    static char *memory;
    if (!memory)
        CHECK((memory = aligned_alloc((size_t)page, (size_t)page * 3)) != NULL);
    mprotect(memory, (size_t)page, PROT_READ | PROT_WRITE);
    at_page(memory, true);
    mprotect(memory, (size_t)page, PROT_NONE);
    return memory;
}

/* The address before it was readable, and is used; then a page behind is not. */
static char *half(size_t readable)
{
    char *memory = map_pages();
    mprotect(memory + page, (size_t)page, PROT_NONE);
    memset(memory, AF_INET, (size_t)page);
    return memory + page - readable;
}
static char *half_2(void)
{
    return half(2);
}
static char *half_8(void)
{
    return half(8);
}
static char *half_1(void)
{
    return half(1);
}
static char *half_of_data(void)
{
    char *memory = own_data + 65536;
    mprotect(memory + page, (size_t)page, PROT_NONE);
    at_page(memory + page - 64, true);
    return memory + page - 9;
}

#define NUMBER(name, value)                                                                                            \
    static char *name(void)                                                                                            \
    {                                                                                                                  \
        return (char *)(uintptr_t)(value);                                                                             \
    }
NUMBER(one, 1)
NUMBER(low, 4095)
NUMBER(lowest, 4096)
NUMBER(highest, -1L)
NUMBER(near_highest, -4096L)
NUMBER(odd, (uintptr_t)1 << (sizeof(long) * 8 - 1))
NUMBER(odder, ((uintptr_t)1 << (sizeof(long) * 8 - 1)) - 9)

static const struct kind {
    const char *name;
    char *(*make)(void);
} kinds[] = {
    {"1", one},
    {"4095", low},
    {"4096", lowest},
    {"-1", highest},
    {"-4096", near_highest},
    {"the middle of all", odd},
    {"before the middle", odder},
    {"unmapped", unmapped},
    {"protected", protected},
    {"protected data", protected_data},
    {"protected heap", protected_heap},
    {"1 byte", half_1},
    {"2 bytes", half_2},
    {"8 bytes", half_8},
    {"9 bytes of data", half_of_data},
};

/* --- calls --- */

static char room[64] = "request";
#define GOOD                                                                                                           \
    {                                                                                                                  \
        .msg_iov = &(struct iovec){room, 7}, .msg_iovlen = 1                                                           \
    }
static struct mmsghdr *many(struct msghdr *message)
{
    static struct mmsghdr messages[2];
    messages[0].msg_hdr = *message;
    return messages;
}

enum part { PART_NAME, PART_VECTOR, PART_BASE, PART_CONTROL, PARTS };
static void spoil(struct msghdr *message, struct iovec *vector, enum part part, char *bad)
{
    *vector = (struct iovec){room, 7};
    *message = (struct msghdr){.msg_iov = vector, .msg_iovlen = 1};
    if (part == PART_NAME)
        message->msg_name = bad, message->msg_namelen = 16;
    else if (part == PART_VECTOR)
        message->msg_iov = (void *)bad;
    else if (part == PART_BASE)
        vector->iov_base = bad, vector->iov_len = 32;
    else
        message->msg_control = bad, message->msg_controllen = CMSG_SPACE(sizeof(int));
}

static const char *setting;
static bool somebody_comes; /* to the server: not in a rehearsal */

#define TRY(label, call)                                                                                               \
    do {                                                                                                               \
        int fd = make();                                                                                               \
        errno = 0;                                                                                                     \
        long value = (long)(call);                                                                                     \
        printf("%s, %s, " label ": %ld %d\n", place, kind, value, value < 0 ? errno : 0);                              \
        close(fd);                                                                                                     \
    } while (0)
#define BOTH(label, name, ...)                                                                                         \
    TRY(label, name(__VA_ARGS__));                                                                                     \
    TRY(label " by number", syscall(SYS_##name, __VA_ARGS__))

static void attempts(const char *place, const char *kind, char *bad, int (*make)(void))
{
    static const socklen_t lengths[] = {0, 1, 2, 3, 8, 15, 16, 28, 110, 128, 129, 4096, INT_MAX, (socklen_t)-1};
    struct msghdr message;
    struct iovec vector;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const struct sockaddr *address = (const void *)bad;
        printf("%u: ", lengths[i]);
        BOTH("connect", connect, fd, address, lengths[i]);
        TRY("sendto", sendto(fd, room, 7, MSG_FASTOPEN | MSG_NOSIGNAL, address, lengths[i]));
        TRY("sendto by number", syscall(SYS_sendto, fd, room, 7, MSG_FASTOPEN | MSG_NOSIGNAL, address, lengths[i]));
        spoil(&message, &vector, PART_NAME, bad);
        message.msg_namelen = lengths[i];
        BOTH("sendmsg", sendmsg, fd, &message, MSG_FASTOPEN | MSG_NOSIGNAL);
    }
}

static void sends(const char *place, const char *kind, char *bad, int (*make)(void))
{
    struct msghdr message;
    struct iovec vector, two[] = {{room, 0}, {bad, 32}};
    static const int flags[] = {MSG_NOSIGNAL, MSG_NOSIGNAL | MSG_FASTOPEN};
    TRY("send", send(fd, bad, 32, MSG_NOSIGNAL));
    TRY("sendto", syscall(SYS_sendto, fd, bad, 32, MSG_NOSIGNAL, NULL, 0));
    BOTH("write", write, fd, bad, 32);
    BOTH("writev", writev, fd, (struct iovec *)(void *)bad, 1);
    BOTH("writev of many", writev, fd, (struct iovec *)(void *)bad, 2000);
    BOTH("writev of two", writev, fd, two, 2);
    for (size_t i = 0; i < 2; i++) {
        BOTH("sendmsg", sendmsg, fd, (struct msghdr *)(void *)bad, flags[i]);
        BOTH("sendmmsg", sendmmsg, fd, (struct mmsghdr *)(void *)bad, 1, flags[i]);
        for (enum part part = 0; part < PARTS; part++) {
            spoil(&message, &vector, part, bad);
            BOTH("sendmsg of a bad part", sendmsg, fd, &message, flags[i]);
            BOTH("sendmmsg of a bad part", sendmmsg, fd, many(&message), 1, flags[i]);
        }
    }
    if (!strcmp(setting, "rehearses"))
        return; /* what comes from a file is not looked at there: it meets the reset */
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    TRY("sendfile", sendfile(fd, file, (off_t *)(void *)bad, 9));
    TRY("splice", splice(file, (off64_t *)(void *)bad, fd, NULL, 9, 0));
    close(file);
}

static void receives(const char *place, const char *kind, char *bad, int (*make)(void))
{
    struct msghdr message;
    struct iovec vector;
    socklen_t length = sizeof(struct sockaddr_in);
    int error;
    TRY("recv", recv(fd, bad, 32, 0));
    TRY("peek", recv(fd, bad, 32, MSG_PEEK));
    BOTH("read", read, fd, bad, 32);
    BOTH("read nothing", read, fd, bad, 0);
    BOTH("readv", readv, fd, (struct iovec *)(void *)bad, 1);
    BOTH("recvfrom", recvfrom, fd, bad, 32, 0, NULL, NULL);
    BOTH("recvfrom's length", recvfrom, fd, room + 32, 8, 0, (struct sockaddr *)room, (socklen_t *)(void *)bad);
    BOTH("recvfrom's address", recvfrom, fd, room + 32, 8, 0, (struct sockaddr *)(void *)bad, &length);
    BOTH("recvmsg", recvmsg, fd, (struct msghdr *)(void *)bad, 0);
    TRY("recvmmsg", recvmmsg(fd, (struct mmsghdr *)(void *)bad, 1, MSG_DONTWAIT, NULL));
    TRY("recvmmsg by number", syscall(SYS_recvmmsg, fd, bad, 1, MSG_DONTWAIT, NULL));
    TRY("recvmmsg's time", recvmmsg(fd, many(&(struct msghdr)GOOD), 1, MSG_DONTWAIT, (struct timespec *)(void *)bad));
    for (enum part part = 0; part < PARTS; part++) {
        spoil(&message, &vector, part, bad);
        BOTH("recvmsg of a bad part", recvmsg, fd, &message, 0);
        TRY("recvmmsg of a bad part", recvmmsg(fd, many(&message), 1, MSG_DONTWAIT, NULL));
    }
    length = sizeof error;
    BOTH("getsockopt", getsockopt, fd, SOL_SOCKET, SO_ERROR, (int *)(void *)bad, &length);
    BOTH("getsockopt's length", getsockopt, fd, SOL_SOCKET, SO_ERROR, &error, (socklen_t *)(void *)bad);
}

/* --- sockets --- */

static int fresh(void)
{
    return caller_socket(&server, SOCK_NONBLOCK);
}

/* With an answer to be read, where one can come. */
static int connected(void)
{
    int fd = caller_socket(&server, 0);
    struct sockaddr_storage here = server.address; /* on the stack */
    CHECK(connect(fd, (struct sockaddr *)&here, server.length) == 0);
    if (somebody_comes) {
        int peer = server_accept(&server);
        CHECK(bare.send(peer, "answer", 6, 0) == 6);
        poll_for(fd, POLLIN);
        bare.close(peer);
    }
    CHECK(fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK) == 0);
    return fd;
}

static int unconnected_unix(void)
{
    return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static int datagram(void)
{
    return socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

static int pair_of_datagrams(void)
{
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    close(ends[1]);
    return ends[0];
}

static int closed(void)
{
    return 900;
}

static int scene_sweep(int argc, char **argv)
{
    (void)argc;
    setting = argv[0];
    somebody_comes = strcmp(setting, "rehearses") != 0 || !strcmp(argv[1], "bare");
    page = sysconf(_SC_PAGESIZE);
    setvbuf(stdout, NULL, _IOLBF, BUFSIZ); /* the last line tells where it crashed */
    signal(SIGPIPE, SIG_IGN);
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    server_start(&nobody, "127.0.0.2", SERVER_REFUSES);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *kind = kinds[i].name;
        attempts("fresh", kind, kinds[i].make(), fresh);
        attempts("unix", kind, kinds[i].make(), unconnected_unix);
        attempts("datagram", kind, kinds[i].make(), datagram);
        attempts("closed", kind, kinds[i].make(), closed);
        sends("pair", kind, kinds[i].make(), pair_of_datagrams);
        receives("fresh", kind, kinds[i].make(), fresh);
        if (!strcmp(setting, "refuses"))
            continue;
        sends("fresh", kind, kinds[i].make(), fresh);
        if (strcmp(setting, "rehearses") != 0)
            attempts("connected", kind, kinds[i].make(), connected);
        sends("connected", kind, kinds[i].make(), connected);
        if (strcmp(setting, "rehearses") != 0) /* where no answer is to be read */
            receives("connected", kind, kinds[i].make(), connected);
    }
    fflush(stdout);
    return 0;
}

/* --- the comparison --- */

#define NEVER_OPENS "[defaults]\nfailure_threshold = 60000\nfailure_rate = 0%\n"
#define EVERYTHING "match = *:* unix:*\n"

static const char *const settings[][2] = {
    {"tracks", NEVER_OPENS "[everything]\n" EVERYTHING},
    {"limits", NEVER_OPENS "[everything]\nenforce_timeouts = yes\nresponse_timeout = 1m\n" EVERYTHING},
    {"refuses", "[everything]\nmode = open\n" EVERYTHING},
    {"turns-away", "[everything]\nmode = open\nfallback = 127.0.0.9:1\n" EVERYTHING},
    {"rehearses", NEVER_OPENS "[everything]\ninject = reset at 100%\n" EVERYTHING},
};

static char expected[OUTPUT], seen[OUTPUT];

/* All of it but what depends on a port that is refused by the kernel itself. */
static void sweep(const char *name, const char *policy, const char *how, char *output)
{
    struct scene_options options = {.policy = policy,
                                    .preload = policy ? NULL : "",
                                    .arguments = {strcmp(name, "turns-away") ? name : "refuses", how},
                                    .output = output,
                                    .output_size = OUTPUT};
    int status = scene_run("sweep", &options);
    if (!exited_well(status))
        fail_msg("%s, %s: status %x after %s", name, how, (unsigned int)status,
                 strlen(output) > 200 ? output + strlen(output) - 200 : output);
    assert_true(strlen(output) < OUTPUT - 1);
}

static void bad_pointers_end_as_without_the_library(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        sweep(settings[i][0], NULL, "bare", expected);
        sweep(settings[i][0], settings[i][1], "guarded", seen);
        assert_non_null(strstr(expected, "connect by number: -1 14"));
        size_t line = 0;
        for (size_t at = 0; expected[at] || seen[at]; at++) {
            if (expected[at] != seen[at])
                fail_msg("%s:\n  without: %.*s\n  with:    %.*s", settings[i][0], (int)strcspn(expected + line, "\n"),
                         expected + line, (int)strcspn(seen + line, "\n"), seen + line);
            if (expected[at] == '\n')
                line = at + 1;
        }
    }
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {{"sweep", scene_sweep}, {NULL, NULL}};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_pointers_end_as_without_the_library),
    };
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
