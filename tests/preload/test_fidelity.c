/*
 * test_fidelity.c - with nothing wrong, every call does what it does without the library: the same result, the same
 * errno, no flag changed.
 *
 * The table of symbols is expanded into one call for each wrapper, made twice in the same situation: once through
 * libc's own function, once through ours. Arguments go by the names of the table's parameters.
 */
/* links: core */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "support.h"

#define SENTINEL 4242
#define PLACE 200 /* where a dup goes */

/* --- one call for each wrapper --- */

struct situation {
    int fd;
    int file, pipe_in, pipe_out; /* helpers: what sendfile reads, and the pipe of splice */
    void *pointer;               /* for every buffer, vector and message; NULL: good ones */
    size_t count;                /* of bytes, or of the vector's elements */
    int flags;
    const struct sockaddr *address;
    socklen_t length;
};

struct result {
    long value;
    int error;
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"

static char room[64];
static struct iovec good_vector = {room, 6};
static struct msghdr good_message;
static struct mmsghdr good_messages;

/* Every parameter's name of the table that concerns a descriptor, with a value. */
#define ARGUMENTS(situation)                                                                                           \
    int fd = (situation)->fd, domain = AF_INET, type = SOCK_STREAM, protocol = 0, flags = (situation)->flags;          \
    int out = fd, in = (situation)->file, how = SHUT_RDWR, to = PLACE, command = F_GETFL, level = SOL_SOCKET;          \
    int option = SO_ERROR, option_value = 0;                                                                           \
    unsigned int first = (unsigned int)fd, last = (unsigned int)fd;                                                    \
    long argument = 0, number = SYS_getpid, a = 0, b = 0, c = 0, d = 0, e = 0, f = 0;                                  \
    socklen_t option_length = sizeof option_value;                                                                     \
    const struct sockaddr *address = (situation)->address;                                                             \
    socklen_t length = (situation)->length;                                                                            \
    size_t count = (situation)->count, size = 64;                                                                      \
    void *pointer = (situation)->pointer, *buffer = pointer ? pointer : room;                                          \
    void *vector = pointer ? pointer : &good_vector, *message = pointer ? pointer : &good_message;                     \
    void *messages = pointer ? pointer : &good_messages, *timeout = NULL, *value = pointer ? pointer : &option_value;  \
    long long zero = 0;                                                                                                \
    void *offset = NULL;                                                                                               \
    good_message = (struct msghdr){.msg_iov = &good_vector, .msg_iovlen = 1};                                          \
    good_messages = (struct mmsghdr){.msg_hdr = good_message};

typedef struct result play_fn(bool through_us, const struct situation *situation);

#define PLAY(label, name, type_, parameters, given)                                                                    \
    static struct result play_##label(bool through_us, const struct situation *situation)                              \
    {                                                                                                                  \
        ARGUMENTS(situation)                                                                                           \
        type_(*function) parameters;                                                                                   \
        *(void **)&function = through_us ? dlsym(RTLD_DEFAULT, #name) : libc_symbol(#name);                            \
        CHECK(function != NULL && through_us == ((void *)function != libc_symbol(#name)));                             \
        errno = SENTINEL;                                                                                              \
        long result = (long)function given;                                                                            \
        return (struct result){result, errno};                                                                         \
    }

/* Those whose table arguments do not fit the names above are given here again; the rest comes from the table. */
PLAY(accept_option, getsockopt, int, (int, int, int, void *, socklen_t *), (fd, level, option, value, &option_length))
PLAY(from, recvfrom, ssize_t, (int, void *, size_t, int, struct sockaddr *, socklen_t *),
     (fd, buffer, count, flags, NULL, NULL))
PLAY(from_chk, __recvfrom_chk, ssize_t, (int, void *, size_t, size_t, int, struct sockaddr *, socklen_t *),
     (fd, buffer, count, size, flags, NULL, NULL))
PLAY(many, sendmmsg, int, (int, struct mmsghdr *, unsigned int, int), (fd, messages, 1, flags))
PLAY(many_received, recvmmsg, int, (int, struct mmsghdr *, unsigned int, int, struct timespec *),
     (fd, messages, 1, flags, timeout))
PLAY(vector_written, writev, ssize_t, (int, const struct iovec *, int), (fd, vector, 1))
PLAY(vector_read, readv, ssize_t, (int, const struct iovec *, int), (fd, vector, 1))
PLAY(spliced_out, splice, ssize_t, (int, off64_t *, int, off64_t *, size_t, unsigned int),
     (situation->pipe_out, NULL, fd, NULL, count, SPLICE_F_NONBLOCK))
PLAY(spliced_in, splice, ssize_t, (int, off64_t *, int, off64_t *, size_t, unsigned int),
     (fd, NULL, situation->pipe_in, NULL, count, SPLICE_F_NONBLOCK))
PLAY(duplicated_up, fcntl, int, (int, int, ...), (fd, F_DUPFD, PLACE))
PLAY(duplicated_up_cloexec, fcntl64, int, (int, int, ...), (fd, F_DUPFD_CLOEXEC, PLACE))
PLAY(duplicated_over_itself, dup2, int, (int, int), (fd, fd))
PLAY(duplicated_over_itself_3, dup3, int, (int, int, int), (fd, fd, 0))
PLAY(duplicated_cloexec, dup3, int, (int, int, int), (fd, PLACE, O_CLOEXEC))
PLAY(pending_bytes, syscall, long, (long, ...), (SYS_ioctl, fd, FIONREAD, &option_value))
PLAY(by_number_write, syscall, long, (long, ...), (SYS_write, fd, buffer, count))
PLAY(by_number_read, syscall, long, (long, ...), (SYS_recvfrom, fd, buffer, count, flags, NULL, NULL))
PLAY(by_number_option, syscall, long, (long, ...), (SYS_getsockopt, fd, level, option, value, &option_length))
PLAY(by_number_connect, syscall, long, (long, ...), (SYS_connect, fd, address, length))
PLAY(by_number_dup, syscall, long, (long, ...), (SYS_dup3, fd, PLACE, O_CLOEXEC))
PLAY(by_number_close, syscall, long, (long, ...), (SYS_close, fd))

#define SYMBOL(name, type, parameters, arguments) TABLE_##name(PLAY(name, name, type, parameters, arguments))
#define SAME(...) __VA_ARGS__
#define OWN(...)
/* clang-format off */
#define TABLE_socket SAME
#define TABLE_connect SAME
#define TABLE_send SAME
#define TABLE_sendto SAME
#define TABLE_sendmsg SAME
#define TABLE_sendmmsg OWN
#define TABLE_write SAME
#define TABLE_writev OWN
#define TABLE_sendfile SAME
#define TABLE_sendfile64 SAME
#define TABLE_splice OWN
#define TABLE_recv SAME
#define TABLE_recvfrom OWN
#define TABLE_recvmsg SAME
#define TABLE_recvmmsg OWN
#define TABLE_read SAME
#define TABLE_readv OWN
#define TABLE___recv_chk SAME
#define TABLE___recvfrom_chk OWN
#define TABLE___read_chk SAME
#define TABLE_getsockopt OWN
#define TABLE_close SAME
#define TABLE_close_range SAME
#define TABLE_closefrom OWN   /* no result; test_outcomes_end.c */
#define TABLE_fclose OWN      /* takes a FILE; below */
#define TABLE_shutdown SAME
#define TABLE__exit OWN       /* do not come back */
#define TABLE__Exit OWN
#define TABLE_quick_exit OWN
#define TABLE_dup SAME
#define TABLE_dup2 SAME
#define TABLE_dup3 SAME
#define TABLE_fcntl SAME
#define TABLE_fcntl64 SAME
#define TABLE_syscall SAME
#define TABLE_dlopen OWN      /* no descriptor; below */
#define TABLE_dlmopen OWN
#define TABLE_vfork OWN       /* test_lineage.c */
#define TABLE__Fork OWN
#define TABLE_clone OWN
#define TABLE_posix_spawn OWN
#define TABLE_posix_spawnp OWN
#define TABLE_pidfd_spawn OWN
#define TABLE_pidfd_spawnp OWN
#define TABLE_posix_spawn_file_actions_adddup2 OWN
#define TABLE_system OWN
#define TABLE_popen OWN
#define TABLE_execve OWN      /* do not come back; test_lineage.c */
#define TABLE_execv OWN
#define TABLE_execvp OWN
#define TABLE_execvpe OWN
#define TABLE_fexecve OWN
#define TABLE_execl OWN
#define TABLE_execlp OWN
#define TABLE_execle OWN
#define TABLE_execveat OWN
#define TABLE_mprotect OWN    /* no descriptor; test_bad_pointers.c */
#define TABLE_poll OWN   /* tests/e2e/test_stopped.py */
#define TABLE___poll_chk OWN
#define TABLE_ppoll OWN
#define TABLE___ppoll_chk OWN
#define TABLE_select OWN
#define TABLE_pselect OWN
#define TABLE_epoll_wait OWN
#define TABLE_epoll_pwait OWN
#define TABLE_epoll_pwait2 OWN
#define TABLE_sem_wait OWN
#define TABLE_sem_timedwait OWN
#define TABLE_sem_clockwait OWN
#define TABLE_nanosleep OWN
#define TABLE_clock_nanosleep OWN
#define TABLE_pause OWN
#define TABLE_sigsuspend OWN
#define TABLE_sigwait OWN
#define TABLE_sigwaitinfo OWN
#define TABLE_sigtimedwait OWN
#define TABLE_pthread_kill OWN
#define TABLE_pthread_setname_np OWN
#define TABLE_alarm OWN
#define TABLE_setitimer OWN
#define TABLE_timer_settime OWN
#define TABLE_getaddrinfo OWN
#define TABLE_gethostbyname OWN
#define TABLE_gethostbyname2 OWN
#define TABLE_gethostbyname_r OWN
#define TABLE_gethostbyname2_r OWN
/* clang-format on */
/* A wrapper that is new in the table and not named above does not compile: it is to be decided where it is tested. */
#include "preload/symbols.def"
#pragma GCC diagnostic pop

static const struct play {
    const char *name;
    play_fn *play;
} plays[] = {
#define SYMBOL(name, type, parameters, arguments) TABLE_##name({#name COMMA play_##name} COMMA)
#define COMMA ,
#include "preload/symbols.def"
#define PLAYED(label)                                                                                                  \
    {                                                                                                                  \
#label, play_##label                                                                                           \
    }
    PLAYED(accept_option),
    PLAYED(from),
    PLAYED(from_chk),
    PLAYED(many),
    PLAYED(many_received),
    PLAYED(vector_written),
    PLAYED(vector_read),
    PLAYED(spliced_out),
    PLAYED(spliced_in),
    PLAYED(duplicated_up),
    PLAYED(duplicated_up_cloexec),
    PLAYED(duplicated_over_itself),
    PLAYED(duplicated_over_itself_3),
    PLAYED(duplicated_cloexec),
    PLAYED(pending_bytes),
    PLAYED(by_number_write),
    PLAYED(by_number_read),
    PLAYED(by_number_option),
    PLAYED(by_number_connect),
    PLAYED(by_number_dup),
    PLAYED(by_number_close),
};

/* --- situations, made anew for each call --- */

static struct server guarded_server, free_server;
static int peer = -1;

static int make_none(void)
{
    return -1;
}
static int make_closed(void)
{
    return 999;
}
static int make_huge(void)
{
    return INT_MAX;
}
static int make_file(void)
{
    return open("/dev/null", O_RDWR | O_CLOEXEC);
}
static int make_folder(void)
{
    return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}
static int make_fresh(void)
{
    return socket(AF_INET, SOCK_STREAM, 0);
}
static int make_datagram(void)
{
    return socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}
static int make_listening(void)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    CHECK(listen(fd, 1) == 0);
    return fd;
}

/* What a played connect left in the queue must not be taken for the next one. */
static void drain(struct server *server)
{
    int fd;
    CHECK(fcntl(server->fd, F_SETFL, O_NONBLOCK) == 0);
    while ((fd = accept(server->fd, NULL, NULL)) >= 0)
        bare.close(fd);
}

/* Connected, with an answer to read. */
static int make_connected(struct server *server)
{
    int fd = caller_connect(server, 0);
    peer = server_accept(server);
    CHECK(bare.send(peer, "answer", 6, 0) == 6);
    poll_for(fd, POLLIN);
    return fd;
}
static int make_guarded(void)
{
    return make_connected(&guarded_server);
}
static int make_unguarded(void)
{
    return make_connected(&free_server);
}
static int make_idle(void)
{
    int fd = caller_connect(&guarded_server, SOCK_NONBLOCK);
    poll_for(fd, POLLOUT);
    peer = server_accept(&guarded_server);
    return fd;
}
static int make_reset(void)
{
    int fd = caller_connect(&guarded_server, 0);
    server_reset(server_accept(&guarded_server));
    poll_for(fd, POLLIN);
    return fd;
}
static int make_ended(void)
{
    int fd = caller_connect(&guarded_server, 0);
    peer = server_accept(&guarded_server);
    CHECK(shutdown(peer, SHUT_WR) == 0);
    poll_for(fd, POLLIN);
    return fd;
}
static int make_pending(void)
{
    static struct server hole;
    if (!hole.length)
        server_start(&hole, "127.0.0.2", SERVER_BLACK_HOLE);
    return caller_connect(&hole, SOCK_NONBLOCK);
}

static const struct maker {
    const char *name;
    int (*make)(void);
} makers[] = {
    {"no descriptor", make_none},
    {"a closed number", make_closed},
    {"INT_MAX", make_huge},
    {"a file", make_file},
    {"a folder", make_folder},
    {"a fresh socket", make_fresh},
    {"a datagram socket", make_datagram},
    {"a listening socket", make_listening},
    {"a guarded connection", make_guarded},
    {"an unguarded connection", make_unguarded},
    {"an idle guarded connection", make_idle},
    {"a reset guarded connection", make_reset},
    {"an ended guarded connection", make_ended},
    {"a pending guarded attempt", make_pending},
};

/* Plays one call in one situation; afterwards everything is as before. */
static struct result stage(const struct play *play, const struct maker *maker, bool through_us, void *pointer,
                           size_t count, int flags)
{
    int pipe_ends[2];
    struct situation situation = {.count = count,
                                  .flags = flags,
                                  .pointer = pointer,
                                  .address = (const void *)&guarded_server.address,
                                  .length = guarded_server.length};
    situation.fd = maker->make();
    situation.file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    CHECK(pipe2(pipe_ends, O_CLOEXEC) == 0);
    CHECK(write(pipe_ends[1], "in the pipe", 11) == 11);
    situation.pipe_out = pipe_ends[0], situation.pipe_in = pipe_ends[1];
    struct result result = play->play(through_us, &situation);
    close_range((unsigned int)situation.file, PLACE + 10, 0);
    if (situation.fd > 2 && situation.fd < situation.file)
        close(situation.fd);
    if (peer >= 0)
        bare.close(peer);
    peer = -1;
    drain(&guarded_server);
    return result;
}

static void compare(const struct play *play, void *pointer, size_t count, int flags)
{
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        struct result bare_one = stage(play, &makers[i], false, pointer, count, flags);
        struct result ours = stage(play, &makers[i], true, pointer, count, flags);
        if (bare_one.value != ours.value || bare_one.error != ours.error)
            fail_msg("%s on %s: %ld, errno %d; without the library %ld, errno %d", play->name, makers[i].name,
                     ours.value, ours.error, bare_one.value, bare_one.error);
    }
}

static void every_call_has_the_result_and_errno_of_the_bare_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof plays / sizeof *plays; i++)
        compare(&plays[i], NULL, 6, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void calls_for_no_bytes_have_the_result_of_the_bare_ones(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof plays / sizeof *plays; i++)
        compare(&plays[i], NULL, 0, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void peeks_and_odd_flags_have_the_result_of_the_bare_ones(void **state)
{
    static const int odd[] = {MSG_PEEK, MSG_TRUNC, MSG_PEEK | MSG_TRUNC, MSG_OOB, MSG_ERRQUEUE, MSG_WAITALL,
                              MSG_MORE, 0x40000000};
    (void)state;
    for (size_t i = 0; i < sizeof plays / sizeof *plays; i++)
        for (size_t j = 0; j < sizeof odd / sizeof *odd; j++)
            if (strncmp(plays[i].name, "__", 2) != 0 || odd[j] >= 0)
                compare(&plays[i], NULL, 6, odd[j] | MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void memory_that_cannot_be_read_stays_efault(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof plays / sizeof *plays; i++)
        compare(&plays[i], (void *)8, 6, MSG_DONTWAIT | MSG_NOSIGNAL);
    /* With MSG_FASTOPEN a message's address is looked at before the kernel has: through the kernel. */
    struct msghdr message = {.msg_name = (void *)8, .msg_namelen = sizeof(struct sockaddr_in)};
    const struct msghdr *const bad[] = {(void *)8, &message};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(sendmsg(fd, bad[i], MSG_FASTOPEN | MSG_NOSIGNAL), -1);
        assert_int_equal(errno, EFAULT);
        assert_int_equal(syscall(SYS_sendmsg, fd, bad[i], MSG_FASTOPEN | MSG_NOSIGNAL), -1);
        assert_int_equal(errno, EFAULT);
    }
    close(fd);
}

/* --- connect's own oddities --- */

static struct result connect_by(bool through_us, int fd, const void *address, socklen_t length)
{
    errno = SENTINEL;
    int value = (through_us ? connect : bare.connect)(fd, address, length);
    return (struct result){value, errno};
}

static void connect_with_odd_addresses_fails_as_without_the_library(void **state)
{
    struct sockaddr_storage unspecified = {.ss_family = AF_UNSPEC}, unknown = {.ss_family = 99},
                            six = {.ss_family = AF_INET6};
    struct sockaddr_un local = {.sun_family = AF_UNIX, .sun_path = "/nonexistent/socket"};
    struct sockaddr_in port_zero = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const struct {
        const void *address;
        socklen_t length;
    } odd[] = {
        {NULL, 0},
        {NULL, 16},
        {NULL, (socklen_t)-1},
        {(const void *)8, 16},   /* below whatever can be mapped */
        {(const void *)-8, 129}, /* too long to be read */
        {(const void *)-8, (socklen_t)-1},
        {&guarded_server.address, 0},
        {&guarded_server.address, 1},
        {&guarded_server.address, 2},
        {&guarded_server.address, 15},
        {&guarded_server.address, 129},
        {&guarded_server.address, (socklen_t)-1},
        {&unspecified, 16},
        {&unspecified, 2},
        {&unspecified, sizeof unspecified},
        {&unknown, 16},
        {&unknown, sizeof unknown},
        {&six, 16},
        {&six, 24},
        {&six, 28},
        {&local, 2},
        {&local, 3},
        {&local, sizeof local},
        {&port_zero, 16},
    };
    (void)state;
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        for (size_t j = 0; j < sizeof odd / sizeof *odd; j++) {
            struct result results[2];
            for (int through_us = 0; through_us < 2; through_us++) {
                int fd = makers[i].make();
                results[through_us] = connect_by(through_us, fd, odd[j].address, odd[j].length);
                close(fd > 2 && fd < 900 ? fd : -1);
                if (peer >= 0)
                    bare.close(peer);
                peer = -1;
                drain(&guarded_server);
            }
            if (results[0].value != results[1].value || results[0].error != results[1].error)
                fail_msg("connect to odd address %zu on %s: %ld, errno %d; without the library %ld, errno %d", j,
                         makers[i].name, results[1].value, results[1].error, results[0].value, results[0].error);
        }
    }
}

static void connect_of_family_unspec_dissolves_and_the_socket_connects_again(void **state)
{
    struct sockaddr unspecified = {.sa_family = AF_UNSPEC};
    struct server server;
    char byte;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    int fd = caller_connect(&server, 0);
    assert_int_equal(connect(fd, &unspecified, sizeof unspecified), 0);
    expect(&server, "1 neutral:cancelled");
    bare.close(server_accept(&server));
    assert_int_equal(connect(fd, AT(&server)), 0);
    int other = server_accept(&server);
    assert_int_equal(bare.send(other, "answer", 6, 0), 6);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    expect(&server, "1 succeeded");
    bare.close(other);
    close(fd);
    server_stop(&server);
}

static void connect_twice_says_eisconn_and_changes_nothing(void **state)
{
    struct server server;
    char byte;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = caller_connect(&server, 0);
    assert_int_equal(connect(fd, AT(&server)), -1);
    assert_int_equal(errno, EISCONN);
    expect(&server, "1 in-flight");
    int other = server_accept(&server);
    assert_int_equal(bare.send(other, "answer", 6, 0), 6);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
    assert_int_equal(connect(fd, AT(&server)), -1);
    assert_int_equal(errno, EISCONN);
    expect(&server, "1 succeeded");
    close(fd);
    bare.close(other);
    server_stop(&server);
}

static void nonblocking_connect_returns_at_once_and_flags_stay(void **state)
{
    struct server server;
    uint64_t least = UINT64_MAX;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_BLACK_HOLE);
    for (int i = 0; i < 20; i++) {
        struct timespec before, after;
        int fd = caller_socket(&server, SOCK_NONBLOCK);
        int status = fcntl(fd, F_GETFL), own = fcntl(fd, F_GETFD);
        clock_gettime(CLOCK_MONOTONIC, &before);
        assert_int_equal(connect(fd, AT(&server)), -1);
        clock_gettime(CLOCK_MONOTONIC, &after);
        assert_int_equal(errno, EINPROGRESS);
        uint64_t took =
            (uint64_t)(after.tv_sec - before.tv_sec) * 1000000000u + (uint64_t)(after.tv_nsec - before.tv_nsec);
        least = took < least ? took : least;
        assert_int_equal(fcntl(fd, F_GETFL), status);
        assert_int_equal(fcntl(fd, F_GETFD), own);
        close(fd);
        assert_int_equal(fcntl(fd, F_GETFL), -1);
    }
    assert_true(least < 500000);
    server_stop(&server);
}

/* --- interruptions --- */

static void nothing(int number)
{
    (void)number;
}

/* Every 15 ms, for a signal may come before the call that it is to interrupt. */
static void interrupt_from_now_on(bool on)
{
    struct sigaction action = {.sa_handler = nothing};
    const struct timeval every = {.tv_usec = on ? 15000 : 0};
    struct itimerval timer = {.it_interval = every, .it_value = every};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

static void interrupted_calls_say_eintr_and_go_on(void **state)
{
    struct server server, hole;
    char byte;
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    server_start(&hole, "127.0.0.2", SERVER_BLACK_HOLE);
    int fd = caller_socket(&hole, 0);
    interrupt_from_now_on(true);
    assert_int_equal(connect(fd, AT(&hole)), -1);
    assert_int_equal(errno, EINTR);
    expect(&hole, "1 in-flight");
    assert_int_equal(connect(fd, AT(&hole)), -1);
    assert_int_equal(errno, EINTR);
    interrupt_from_now_on(false);
    close(fd);
    expect(&hole, "1 neutral:cancelled");

    fd = caller_connect(&server, 0);
    interrupt_from_now_on(true);
    assert_int_equal(recv(fd, &byte, 1, 0), -1);
    assert_int_equal(errno, EINTR);
    assert_int_equal(read(fd, &byte, 1), -1);
    assert_int_equal(errno, EINTR);
    interrupt_from_now_on(false);
    expect(&server, "1 in-flight");
    int other = server_accept(&server);
    assert_int_equal(bare.send(other, "answer", 6, 0), 6);
    assert_int_equal(read(fd, &byte, 1), 1);
    expect(&server, "1 succeeded");
    close(fd);
    bare.close(other);
    server_stop(&server);
    server_stop(&hole);
}

/* --- what is neither data nor end --- */

static void peek_sees_the_answer_and_leaves_it(void **state)
{
    struct server server;
    char answer[8] = "";
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = caller_connect(&server, 0), other = server_accept(&server);
    assert_int_equal(bare.send(other, "answer", 6, 0), 6);
    poll_for(fd, POLLIN);
    assert_int_equal(recv(fd, answer, 6, MSG_PEEK), 6);
    expect(&server, "1 succeeded");
    assert_int_equal(recv(fd, answer, 2, MSG_TRUNC), 2);
    memset(answer, 0, sizeof answer);
    assert_int_equal(recv(fd, answer, sizeof answer, 0), 4);
    assert_string_equal(answer, "swer");
    close(fd);
    bare.close(other);
    server_stop(&server);
}

static void reads_of_no_bytes_are_no_end_of_stream(void **state)
{
    struct server server;
    char byte;
    struct iovec none[2] = {{&byte, 0}, {NULL, 0}};
    struct msghdr message = {.msg_iov = none, .msg_iovlen = 2};
    struct mmsghdr messages = {.msg_hdr = message};
    (void)state;
    server_start(&server, "127.0.0.2", SERVER_LISTENS);
    int fd = caller_connect(&server, 0), other = server_accept(&server);
    assert_int_equal(read(fd, &byte, 0), 0);
    assert_int_equal(readv(fd, none, 2), 0);
    assert_int_equal(readv(fd, none, 0), 0);
    assert_int_equal(syscall(SYS_read, fd, &byte, 0), 0);
    assert_int_equal(syscall(SYS_readv, fd, none, 2), 0);
    assert_int_equal(write(fd, &byte, 0), 0);
    assert_int_equal(send(fd, &byte, 0, 0), 0);
    expect(&server, "1 in-flight");
    assert_int_equal(bare.send(other, "a", 1, 0), 1);
    poll_for(fd, POLLIN);
    /* These wait for data even if they want none of it. */
    assert_int_equal(recv(fd, &byte, 0, MSG_DONTWAIT), 0);
    assert_int_equal(recvfrom(fd, &byte, 0, MSG_DONTWAIT, NULL, NULL), 0);
    assert_int_equal(recvmsg(fd, &message, MSG_DONTWAIT), 0);
    assert_int_equal(syscall(SYS_recvmsg, fd, &message, MSG_DONTWAIT), 0);
    assert_int_equal(recvmmsg(fd, &messages, 1, MSG_DONTWAIT, NULL), 1);
    expect(&server, "1 in-flight");
    assert_int_equal(read(fd, &byte, 1), 1);
    expect(&server, "1 succeeded");
    close(fd);
    bare.close(other);
    server_stop(&server);
}

/* --- those without a descriptor --- */

static void loader_resolver_and_streams_fail_as_without_the_library(void **state)
{
    struct addrinfo *list = NULL, numeric = {.ai_flags = AI_NUMERICHOST};
    struct hostent entry, *found = NULL;
    char buffer[512], *memory = NULL;
    size_t size = 0;
    int error = 0;
    (void)state;
    assert_null(dlopen("/nonexistent/library.so", RTLD_NOW));
    assert_non_null(dlerror());
    assert_null(dlmopen(LM_ID_BASE, "/nonexistent/library.so", RTLD_NOW));
    assert_int_equal(getaddrinfo("not.a.number", "80", &numeric, &list), EAI_NONAME);
    assert_int_equal(getaddrinfo(NULL, NULL, NULL, &list), EAI_NONAME);
    errno = SENTINEL;
    assert_int_equal(getaddrinfo("127.0.0.1", "80", &numeric, &list), 0);
    assert_int_equal(list->ai_family, AF_INET);
    freeaddrinfo(list);
    assert_int_equal(gethostbyname_r("127.0.0.1", &entry, buffer, 8, &found, &error), ERANGE);
    assert_int_equal(gethostbyname_r("127.0.0.1", &entry, buffer, sizeof buffer, &found, &error), 0);
    assert_ptr_equal(found, &entry);
    assert_int_equal(gethostbyname2_r("127.0.0.1", AF_INET, &entry, buffer, sizeof buffer, &found, &error), 0);
    assert_non_null(gethostbyname("127.0.0.1"));
    assert_null(gethostbyname2("127.0.0.1", AF_INET6));
    FILE *stream = open_memstream(&memory, &size);
    assert_non_null(stream);
    fputs("text", stream);
    errno = SENTINEL;
    assert_int_equal(fclose(stream), 0); /* it has no descriptor */
    assert_int_equal(errno, SENTINEL);
    assert_string_equal(memory, "text");
    free(memory);
    stream = fopen("/dev/full", "we");
    fputs("text", stream);
    assert_int_equal(fclose(stream), EOF);
    assert_int_equal(errno, ENOSPC);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_has_the_result_and_errno_of_the_bare_one),
        cmocka_unit_test(calls_for_no_bytes_have_the_result_of_the_bare_ones),
        cmocka_unit_test(peeks_and_odd_flags_have_the_result_of_the_bare_ones),
        cmocka_unit_test(memory_that_cannot_be_read_stays_efault),
        cmocka_unit_test(connect_with_odd_addresses_fails_as_without_the_library),
        cmocka_unit_test(connect_of_family_unspec_dissolves_and_the_socket_connects_again),
        cmocka_unit_test(connect_twice_says_eisconn_and_changes_nothing),
        cmocka_unit_test(nonblocking_connect_returns_at_once_and_flags_stay),
        cmocka_unit_test(interrupted_calls_say_eintr_and_go_on),
        cmocka_unit_test(peek_sees_the_answer_and_leaves_it),
        cmocka_unit_test(reads_of_no_bytes_are_no_end_of_stream),
        cmocka_unit_test(loader_resolver_and_streams_fail_as_without_the_library),
    };
    stage_enter(argc, argv, NULL, NULL);
    signal(SIGPIPE, SIG_IGN);
    server_start(&guarded_server, "127.0.0.1", SERVER_LISTENS);
    server_start(&free_server, "127.0.0.9", SERVER_LISTENS);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
