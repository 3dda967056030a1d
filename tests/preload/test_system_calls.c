/*
 * test_system_calls.c - what the library costs in system calls: none on a descriptor that no target names, whatever
 * function is called on it; none for a refusal, on whatever socket; and one or two for a guarded connection, from
 * its connect to its close.
 */
/* links: core */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "support.h"

extern ssize_t __recv_chk(int fd, void *buffer, size_t count, size_t size, int flags);
extern ssize_t __recvfrom_chk(int fd, void *buffer, size_t count, size_t size, int flags, struct sockaddr *address,
                              socklen_t *length);
extern ssize_t __read_chk(int fd, void *buffer, size_t count, size_t size);

/* --- descriptors that no target names --- */

/* What the operations work on, made anew for each of them; the pipe and the stream have some bytes to be read. */
struct things {
    struct server *server; /* nobody guards it */
    int stream, peer, fresh, datagram, file, pipe[2];
    FILE *memory, *on_stream;
};

static char bytes[16] = "abcdefghijklmno";
static struct iovec vector[2] = {{bytes, 1}, {bytes + 1, 1}};
#define MESSAGE                                                                                                        \
    {                                                                                                                  \
        .msg_iov = vector, .msg_iovlen = 2                                                                             \
    }
#define HIGH 200

#define OPERATION(name, ...)                                                                                           \
    static void name(struct things *things)                                                                            \
    {                                                                                                                  \
        (void)things;                                                                                                  \
        __VA_ARGS__;                                                                                                   \
    }
#define USED(result) CHECK((result) >= 0)

OPERATION(op_socket, USED(socket(AF_INET, SOCK_STREAM, 0)))
OPERATION(op_socket_datagram, USED(socket(AF_INET6, SOCK_DGRAM, 0)))
OPERATION(op_connect, USED(connect(things->fresh, AT(things->server))))
OPERATION(op_connect_again, CHECK(connect(things->stream, AT(things->server)) == -1 && errno == EISCONN))
OPERATION(op_connect_datagram, USED(connect(things->datagram, AT(things->server))))
OPERATION(op_connect_number, USED(syscall(SYS_connect, things->fresh, AT(things->server))))
OPERATION(op_send, USED(send(things->stream, bytes, 1, 0)))
OPERATION(op_sendto, USED(sendto(things->datagram, bytes, 1, 0, AT(things->server))))
OPERATION(op_sendto_stream, USED(sendto(things->stream, bytes, 1, 0, NULL, 0)))
OPERATION(op_sendmsg, USED(sendmsg(things->stream, &(struct msghdr)MESSAGE, 0)))
OPERATION(op_sendmmsg, struct mmsghdr two[2] = {{.msg_hdr = MESSAGE}, {.msg_hdr = MESSAGE}};
          USED(sendmmsg(things->stream, two, 2, 0)))
OPERATION(op_write, USED(write(things->stream, bytes, 1)))
OPERATION(op_write_pipe, USED(write(things->pipe[1], bytes, 1)))
OPERATION(op_writev, USED(writev(things->stream, vector, 2)))
OPERATION(op_sendfile, USED(sendfile(things->stream, things->file, NULL, 3)))
OPERATION(op_sendfile64, off64_t at = 0; USED(sendfile64(things->stream, things->file, &at, 3)))
OPERATION(op_splice_out, USED(splice(things->pipe[0], NULL, things->stream, NULL, 2, 0)))
OPERATION(op_splice_in, USED(splice(things->stream, NULL, things->pipe[1], NULL, 2, 0)))
OPERATION(op_recv, USED(recv(things->stream, bytes, 1, 0)))
OPERATION(op_recv_nothing, CHECK(recv(things->datagram, bytes, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN))
OPERATION(op_recvfrom, USED(recvfrom(things->stream, bytes, 1, 0, NULL, NULL)))
OPERATION(op_recvmsg, USED(recvmsg(things->stream, &(struct msghdr)MESSAGE, 0)))
OPERATION(op_recvmmsg, struct mmsghdr one = {.msg_hdr = MESSAGE}; USED(recvmmsg(things->stream, &one, 1, 0, NULL)))
OPERATION(op_read, USED(read(things->stream, bytes, 1)))
OPERATION(op_read_file, USED(read(things->file, bytes, 1)))
OPERATION(op_read_pipe, USED(read(things->pipe[0], bytes, 1)))
OPERATION(op_readv, USED(readv(things->stream, vector, 2)))
OPERATION(op_recv_chk, USED(__recv_chk(things->stream, bytes, 1, sizeof bytes, 0)))
OPERATION(op_recvfrom_chk, USED(__recvfrom_chk(things->stream, bytes, 1, sizeof bytes, 0, NULL, NULL)))
OPERATION(op_read_chk, USED(__read_chk(things->stream, bytes, 1, sizeof bytes)))
OPERATION(op_getsockopt, int error; socklen_t length = sizeof error;
          USED(getsockopt(things->stream, SOL_SOCKET, SO_ERROR, &error, &length)))
OPERATION(op_shutdown, USED(shutdown(things->stream, SHUT_RDWR)))
OPERATION(op_close, USED(close(things->stream)))
OPERATION(op_close_fresh, USED(close(things->fresh)))
OPERATION(op_close_file, USED(close(things->file)))
OPERATION(op_close_nothing, CHECK(close(9999) == -1 && errno == EBADF))
OPERATION(op_close_number, USED(syscall(SYS_close, things->stream)))
OPERATION(op_close_range, USED(close_range((unsigned int)things->stream, ~0U, 0)))
OPERATION(op_close_range_later, USED(close_range(3, ~0U, CLOSE_RANGE_CLOEXEC)))
OPERATION(op_closefrom, closefrom(things->stream))
OPERATION(op_fclose, CHECK(fclose(things->on_stream) == 0))
OPERATION(op_fclose_memory, CHECK(fclose(things->memory) == 0))
OPERATION(op_dup, USED(dup(things->stream)))
OPERATION(op_dup2, USED(dup2(things->stream, HIGH)))
OPERATION(op_dup2_over, USED(dup2(things->file, things->stream)))
OPERATION(op_dup3, USED(dup3(things->stream, HIGH, O_CLOEXEC)))
OPERATION(op_fcntl_dupfd, USED(fcntl(things->stream, F_DUPFD, HIGH)))
OPERATION(op_fcntl_dupfd_cloexec, USED(fcntl(things->stream, F_DUPFD_CLOEXEC, HIGH)))
OPERATION(op_fcntl_flags, USED(fcntl(things->stream, F_SETFL, O_NONBLOCK)))
OPERATION(op_fcntl64, USED(fcntl64(things->stream, F_GETFL)))
OPERATION(op_write_number, USED(syscall(SYS_write, things->stream, bytes, 1)))
OPERATION(op_read_number, USED(syscall(SYS_read, things->stream, bytes, 1)))
OPERATION(op_other_number, USED(syscall(SYS_getppid)))
OPERATION(op_dlopen, CHECK(dlopen(NULL, RTLD_NOW) != NULL))
OPERATION(op_gethostbyname, CHECK(gethostbyname("127.0.0.9") != NULL))
OPERATION(op_getaddrinfo, struct addrinfo *list;
          struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
          CHECK(getaddrinfo("127.0.0.9", "80", &hints, &list) == 0); freeaddrinfo(list))

static const struct operation {
    const char *name;
    void (*run)(struct things *things);
} operations[] = {
#define ROW(name)                                                                                                      \
    {                                                                                                                  \
#name, op_##name                                                                                               \
    }
    ROW(socket),
    ROW(socket_datagram),
    ROW(connect),
    ROW(connect_again),
    ROW(connect_datagram),
    ROW(connect_number),
    ROW(send),
    ROW(sendto),
    ROW(sendto_stream),
    ROW(sendmsg),
    ROW(sendmmsg),
    ROW(write),
    ROW(write_pipe),
    ROW(writev),
    ROW(sendfile),
    ROW(sendfile64),
    ROW(splice_out),
    ROW(splice_in),
    ROW(recv),
    ROW(recv_nothing),
    ROW(recvfrom),
    ROW(recvmsg),
    ROW(recvmmsg),
    ROW(read),
    ROW(read_file),
    ROW(read_pipe),
    ROW(readv),
    ROW(recv_chk),
    ROW(recvfrom_chk),
    ROW(read_chk),
    ROW(getsockopt),
    ROW(shutdown),
    ROW(close),
    ROW(close_fresh),
    ROW(close_file),
    ROW(close_nothing),
    ROW(close_number),
    ROW(close_range),
    ROW(close_range_later),
    ROW(closefrom),
    ROW(fclose),
    ROW(fclose_memory),
    ROW(dup),
    ROW(dup2),
    ROW(dup2_over),
    ROW(dup3),
    ROW(fcntl_dupfd),
    ROW(fcntl_dupfd_cloexec),
    ROW(fcntl_flags),
    ROW(fcntl64),
    ROW(write_number),
    ROW(read_number),
    ROW(other_number),
    ROW(dlopen),
    ROW(gethostbyname),
    ROW(getaddrinfo),
#undef ROW
};
#define OPERATIONS (sizeof operations / sizeof *operations)

struct play {
    const struct operation *operation;
    struct server *server;
    int times;
    int (*attempt)(const struct play *play, int fd);
    int flags;
};

static void operate(void *context)
{
    const struct play *play = context;
    struct things things = {.server = play->server};
    char *text;
    size_t size;
    things.stream = caller_connect(play->server, 0);
    things.peer = server_accept(play->server);
    things.fresh = caller_socket(play->server, 0);
    things.datagram = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    things.file = open(stage_program(), O_RDONLY | O_CLOEXEC);
    things.memory = open_memstream(&text, &size);
    things.on_stream = fdopen(dup(things.stream), "w");
    CHECK(pipe2(things.pipe, O_CLOEXEC) == 0 && things.memory && things.on_stream && things.file >= 0);
    CHECK(bare.send(things.peer, "answers!", 8, 0) == 8 && write(things.pipe[1], "bytes", 5) == 5);
    poll_for(things.stream, POLLIN);
    syscall(MARK);
    play->operation->run(&things);
    syscall(MARK);
}

/* Prints each operation with the system calls that it made. */
static int scene_operations(int argc, char **argv)
{
    struct server server;
    (void)argc, (void)argv;
    for (size_t i = 0; i < OPERATIONS; i++) {
        struct system_call calls[32];
        server_start(&server, "127.0.0.9", SERVER_LISTENS);
        struct play play = {.operation = &operations[i], .server = &server};
        int count = system_calls_of(operate, &play, calls, 32);
        CHECK(count >= 0 && count <= 32);
        printf("%s:", operations[i].name);
        for (int j = 0; j < count; j++) {
            if (calls[j].number != SYS_brk) /* when the heap grows depends on what lay in it before */
                printf(" %ld", calls[j].number);
        }
        printf("\n");
        server_stop(&server);
    }
    return 0;
}

static void operations_of(const char *preload, const char *environment, char *output, size_t size)
{
    struct scene_options options = {
        .preload = preload, .environment = {environment}, .output = output, .output_size = size};
    if (!exited_well(scene_run("operations", &options)))
        fail_msg("%s", output);
}

static void nothing_costs_a_system_call_where_no_target_is_meant(void **state)
{
    char bare_calls[8192], calls[8192];
    (void)state;
    operations_of("", NULL, bare_calls, sizeof bare_calls);
    assert_non_null(strstr(bare_calls, "\nsendfile: "));
    operations_of(NULL, NULL, calls, sizeof calls);
    assert_string_equal(calls, bare_calls);
    /* With the library, and nothing for it to do. */
    operations_of(NULL, "SOCKFUSE=off", calls, sizeof calls);
    assert_string_equal(calls, bare_calls);
}

/* --- a connection for each request --- */

/* How a program comes to know that it is connected. */
enum connecting { BLOCKS, ASKS_FOR_ERROR, CONNECTS_AGAIN, SENDS_AT_ONCE };

static void one_call(struct server *server, enum connecting how)
{
    int fd = caller_socket(server, how == BLOCKS ? 0 : SOCK_NONBLOCK), error = 0;
    socklen_t length = sizeof error;
    CHECK(connect(fd, AT(server)) == 0 || (how != BLOCKS && errno == EINPROGRESS));
    poll_for(fd, POLLOUT);
    if (how == ASKS_FOR_ERROR)
        CHECK(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0);
    if (how == CONNECTS_AGAIN)
        CHECK(connect(fd, AT(server)) == 0 || errno == EISCONN);
    int peer = server_accept(server);
    CHECK(send(fd, "request", 7, 0) == 7 && bare.send(peer, "answer", 6, 0) == 6);
    poll_for(fd, POLLIN);
    CHECK(recv(fd, bytes, sizeof bytes, 0) == 6);
    CHECK(close(fd) == 0 && bare.close(peer) == 0);
}

struct kept_call {
    struct server server;
    enum connecting how;
    bool has_had_child; /* a second ago */
};

static void call_twice(void *context)
{
    struct kept_call *call = context;
    one_call(&call->server, call->how); /* after the fork, the first one joins the segment */
    if (call->has_had_child) {
        pid_t pid = vfork();
        if (pid == 0)
            _exit(0);
        CHECK(exited_well(actor_wait(pid)));
        wait_ms(1001);
        one_call(&call->server, call->how); /* which sees that the child is gone */
    }
    syscall(MARK);
    one_call(&call->server, call->how);
    syscall(MARK);
}

/* A thread that had to wait for its processor makes one more: the least of so many is what it costs. */
#define TRIES 12

static int system_calls_of_call(const char *host, enum connecting how, bool has_had_child)
{
    struct kept_call call = {.how = how, .has_had_child = has_had_child};
    int least = INT_MAX;
    server_start(&call.server, host, SERVER_LISTENS);
    for (int i = 0; i < (has_had_child ? 2 : TRIES); i++) {
        int count = system_calls_of(call_twice, &call, NULL, 0);
        least = count < least ? count : least;
    }
    server_stop(&call.server);
    return least;
}

static int scene_calls(int argc, char **argv)
{
    static const char *const inet[] = {"127.0.0.1", "::1"};
    (void)argc, (void)argv;
    for (size_t i = 0; i < 2; i++)
        for (enum connecting how = BLOCKS; how <= SENDS_AT_ONCE; how++)
            printf("%d ", system_calls_of_call(inet[i], how, false));
    printf("%d ", system_calls_of_call("unix", BLOCKS, false));
    printf("%d ", system_calls_of_call("127.0.0.1", BLOCKS, true));
    return 0;
}

#define CALLS 10 /* the numbers that it prints */

static void calls_of(const char *preload, long counts[CALLS])
{
    char output[256], *at = output;
    struct scene_options options = {.preload = preload, .output = output, .output_size = sizeof output};
    if (!exited_well(scene_run("calls", &options)))
        fail_msg("%s", output);
    for (size_t i = 0; i < CALLS; i++)
        counts[i] = strtol(at, &at, 10);
}

/*
 * The socket's cookie, at connect, and TCP_INFO where connect itself or the error option says that it is connected. An
 * address that lies in memory which may go at any time (a mapping, another thread's heap) is asked for too.
 */
static void a_guarded_connection_makes_one_or_two_from_connect_to_close(void **state)
{
    static const long most[CALLS] = {2, 2, 1, 1, 2, 2, 1, 1, 1, 2}; /* in scene_calls' order */
    long bare_counts[CALLS], counts[CALLS];
    (void)state;
    calls_of("", bare_counts);
    calls_of(NULL, counts);
    for (size_t i = 0; i < CALLS; i++) {
        assert_in_range(bare_counts[i], 6, 20);
        if (counts[i] - bare_counts[i] > most[i])
            fail_msg("the %zuth makes %ld more", i + 1, counts[i] - bare_counts[i]);
    }
}

/* --- refusals --- */

#ifdef SYS_newfstatat
#define NUMBER_OF_A_LOOK SYS_newfstatat
#else
#define NUMBER_OF_A_LOOK SYS_fstatat64
#endif

static int by_connect(const struct play *play, int fd)
{
    return connect(fd, AT(play->server));
}
static int by_number(const struct play *play, int fd)
{
    return (int)syscall(SYS_connect, fd, AT(play->server));
}
static int by_sendto(const struct play *play, int fd)
{
    return (int)sendto(fd, bytes, 1, MSG_FASTOPEN, AT(play->server));
}
static int by_sendmsg(const struct play *play, int fd)
{
    struct msghdr message = MESSAGE;
    message.msg_name = &play->server->address;
    message.msg_namelen = play->server->length;
    return (int)sendmsg(fd, &message, MSG_FASTOPEN);
}

static void attempt_some_times(void *context)
{
    const struct play *play = context;
    int fd = caller_socket(play->server, play->flags), wrong = 0;
    play->attempt(play, fd); /* after the fork, the first one joins the segment */
    syscall(MARK);
    for (int i = 0; i < play->times; i++)
        wrong += play->attempt(play, fd) != -1 || errno != ECONNREFUSED;
    syscall(MARK);
    CHECK(wrong == 0);
}

#define TIMES 50

/* The same with the address on the heap. */
static int by_connect_from_heap(const struct play *play, int fd)
{
    static struct server *copy;
    if (!copy)
        CHECK((copy = malloc(sizeof *copy)) != NULL);
    *copy = *play->server;
    return connect(fd, AT(copy));
}

/* Each way to be refused there makes no system call, on blocking and non-blocking sockets. */
static void refuse_for_nothing(struct server *server, bool sends)
{
    static int (*const all[])(const struct play *play, int fd) = {by_connect, by_number, by_connect_from_heap,
                                                                  by_sendto, by_sendmsg};
    for (size_t i = 0; i < (sends ? 5 : 3); i++) {
        for (int flags = 0; flags <= SOCK_NONBLOCK; flags += SOCK_NONBLOCK) {
            struct play play = {.server = server, .times = TIMES, .attempt = all[i], .flags = flags};
            struct system_call calls[4 * TIMES];
            uint64_t began_ms = now_ms(), looks = 0;
            int count = system_calls_of(attempt_some_times, &play, calls, 4 * TIMES);
            CHECK(count >= 0 && count <= 4 * TIMES);
            for (int j = 0; j < count; j++)
                looks += calls[j].number == NUMBER_OF_A_LOOK;
            /* Once a second it is looked whether the segment's file still stands, by one. */
            CHECK(looks == (uint64_t)count && looks <= (now_ms() - began_ms) / 1000 + 1);
            CHECK(counted(server, COUNT_REFUSED) % (TIMES + 1) == 0);
        }
    }
}

/* Opens the server's circuit: its first connection ends before an answer. */
static void trip(struct server *server)
{
    char byte;
    int fd = caller_connect(server, 0);
    bare.close(server_accept(server));
    CHECK(recv(fd, &byte, 1, 0) == 0);
    close(fd);
    expect(server, "1 failed:early-close, 1 opened");
}

static const char *const hosts[] = {"127.0.0.1", "::1", "unix", "@"};

static int scene_open(int argc, char **argv)
{
    struct server server;
    (void)argc, (void)argv;
    for (size_t i = 0; i < 4; i++) {
        at_hand = hosts[i];
        server_start(&server, hosts[i], SERVER_LISTENS);
        trip(&server);
        refuse_for_nothing(&server, i < 2);
        server_stop(&server);
    }
    at_hand = "a mapped address";
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    trip(&server);
    server_map(&server);
    refuse_for_nothing(&server, true);
    server_stop(&server);
    return 0;
}

static void refusals_by_an_open_circuit_make_none_on_any_socket(void **state)
{
    (void)state;
    struct scene_options options = {
        .policy = "[t]\nmatch = 127.0.0.1:* [::1]:* unix:* unix:@*\nfailure_threshold = 1\nreset_timeout = 60s\n"};
    assert_true(exited_well(scene_run("open", &options)));
}

/* A target given by name, on the address that was resolved last. */
static int scene_name(int argc, char **argv)
{
    struct server server;
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *list;
    (void)argc, (void)argv;
    CHECK(getaddrinfo("localhost", NULL, &hints, &list) == 0);
    freeaddrinfo(list);
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    snprintf(server.destination, sizeof server.destination, "localhost:%s", server_port(&server));
    trip(&server);
    refuse_for_nothing(&server, true);
    server_stop(&server);
    return 0;
}

static void refusals_of_a_named_target_make_none(void **state)
{
    (void)state;
    struct scene_options options = {.policy = "[t]\nmatch = localhost:*\nfailure_threshold = 1\nreset_timeout = 60s\n"};
    assert_true(exited_well(scene_run("name", &options)));
}

/* mode = open: refused from the first call on. */
static int scene_forced(int argc, char **argv)
{
    struct server server;
    (void)argc, (void)argv;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    refuse_for_nothing(&server, true);
    server_stop(&server);
    return 0;
}

static void refusals_by_the_policy_make_none(void **state)
{
    (void)state;
    struct scene_options options = {.policy = "[t]\nmatch = 127.0.0.1:*\nmode = open\n"};
    assert_true(exited_well(scene_run("forced", &options)));
}

/* A probe is out that this process makes: nobody need be asked whether it still lives. */
static void probe_and_attempt(void *context)
{
    const struct play *play = context;
    int probe = caller_socket(play->server, 0);
    CHECK(connect(probe, AT(play->server)) == 0);
    attempt_some_times(context);
    close(probe);
}

static void clock_set(const char *path, uint64_t seconds)
{
    uint64_t ns = seconds * UINT64_C(1000000000);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && pwrite(fd, &ns, sizeof ns, 0) == sizeof ns);
    close(fd);
}

static int scene_half_open(int argc, char **argv)
{
    struct server server;
    (void)argc;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    trip(&server);
    clock_set(argv[0], 1010);
    struct play play = {.server = &server, .times = TIMES, .attempt = by_connect};
    CHECK(system_calls_of(probe_and_attempt, &play, NULL, 0) == 0);
    CHECK(counted(&server, COUNT_REFUSED) == TIMES + 1);
    server_stop(&server);
    return 0;
}

static void refusals_beside_a_probe_of_the_same_process_make_none(void **state)
{
    char path[PATH_MAX], clock[PATH_MAX + 32];
    (void)state;
    snprintf(path, sizeof path, "%s/clock", stage_folder());
    clock_set(path, 1000);
    snprintf(clock, sizeof clock, "SOCKFUSE_CLOCK=%s", path);
    struct scene_options options = {.policy = "[t]\nmatch = 127.0.0.1:*\nfailure_threshold = 1\njitter = 0%\n",
                                    .environment = {clock},
                                    .arguments = {path}};
    assert_true(exited_well(scene_run("half-open", &options)));
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {
        {"operations", scene_operations}, {"calls", scene_calls},         {"open", scene_open}, {"name", scene_name},
        {"forced", scene_forced},         {"half-open", scene_half_open}, {NULL, NULL}};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_costs_a_system_call_where_no_target_is_meant),
        cmocka_unit_test(a_guarded_connection_makes_one_or_two_from_connect_to_close),
        cmocka_unit_test(refusals_by_an_open_circuit_make_none_on_any_socket),
        cmocka_unit_test(refusals_of_a_named_target_make_none),
        cmocka_unit_test(refusals_by_the_policy_make_none),
        cmocka_unit_test(refusals_beside_a_probe_of_the_same_process_make_none),
    };
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
