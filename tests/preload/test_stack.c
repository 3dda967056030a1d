/*
 * test_stack.c - how much of the caller's stack a wrapper takes, in the deepest of its ways: it may be a signal
 * handler's of 8 KiB, or a thread's of 16.
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "support.h"

#define STACK_BYTES ((size_t)256 * 1024)
#define WRAPPER_MAX 4096
#define PAINT 0xa5

static const char policy[] =
    "[defaults]\nabandon_after = 50ms\nfailure_rate = 0\n"
    "[named]\nmatch = localhost:*\n"
    "[plain]\nmatch = 127.0.0.1:*\nhttp = auto\nrecord = all\n"
    "[opens]\nmatch = 127.0.0.4:*\nfailure_threshold = 1\nreset_timeout = 1h\nmax_connections = 20\n"
    "[falls]\nmatch = 127.0.0.5:*\nfailure_threshold = 1\nreset_timeout = 1h\n"
    "fallback = 127.0.0.9:1\n"
    "[hangs]\nmatch = 127.0.0.6:*\nresponse_timeout = 50ms\nfailure_threshold = 1\n"
    "[plays]\nmatch = 127.0.0.8:*\ninject = http-503\n"
    "[unix]\nmatch = unix:*\nscope = process\n"
    "[limits]\nmatch = 127.0.0.7:*\nenforce_timeouts = yes\nresponse_timeout = 50ms\n"
    "connect_timeout = 50ms\n";

/* --- a stack that shows how far it was used --- */

static unsigned char *stack; /* shared with children, whose last call may be their end */
static ucontext_t caller;
static struct {
    void (*play)(void *context);
    void *context;
} task;

static void run_task(void)
{
    task.play(task.context);
}

static void on_the_stack(void (*play)(void *context), void *context)
{
    ucontext_t there;
    memset(stack, PAINT, STACK_BYTES);
    task.play = play;
    task.context = context;
    CHECK(getcontext(&there) == 0);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = STACK_BYTES;
    there.uc_link = &caller;
    makecontext(&there, run_task, 0);
    CHECK(swapcontext(&caller, &there) == 0);
}

static size_t used(void)
{
    size_t untouched = 0;
    while (untouched < STACK_BYTES && stack[untouched] == PAINT)
        untouched++;
    return STACK_BYTES - untouched;
}

static void nothing(void *context)
{
    (void)context;
}

/* What a call takes beyond one of nothing. */
static size_t depth_of(void (*play)(void *context), void *context)
{
    on_the_stack(nothing, NULL);
    size_t of_nothing = used();
    on_the_stack(play, context);
    return used() - of_nothing;
}

static unsigned int too_deep;

static void expect_shallow(const char *what, size_t depth)
{
    too_deep += depth > WRAPPER_MAX;
    print_message("%-48s %5zu bytes%s\n", what, depth, depth > WRAPPER_MAX ? ": too deep" : "");
}

static int none_is_too_deep(void **state)
{
    unsigned int found = too_deep;
    (void)state;
    too_deep = 0;
    return found ? -1 : 0;
}

/* --- the calls --- */

struct call {
    struct server *server;
    int fd, result, error;
};

static void do_connect(void *context)
{
    struct call *call = context;
    call->result = connect(call->fd, AT(call->server));
    call->error = errno;
}

static void do_close(void *context)
{
    struct call *call = context;
    call->result = close(call->fd);
}

static void do_send(void *context)
{
    struct call *call = context;
    call->result = (int)send(call->fd, "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL);
}

static void do_receive(void *context)
{
    struct call *call = context;
    char bytes[64];
    call->result = (int)recv(call->fd, bytes, sizeof bytes, 0);
    call->error = errno;
}

static void do_dup_over(void *context)
{
    struct call *call = context;
    call->result = dup2(STDERR_FILENO, call->fd);
}

static void do_close_range(void *context)
{
    struct call *call = context;
    call->result = close_range((unsigned int)call->fd, (unsigned int)call->fd, 0);
}

static void do_shutdown(void *context)
{
    struct call *call = context;
    call->result = shutdown(call->fd, SHUT_RDWR);
}

static void do_exit(void *context)
{
    (void)context;
    _exit(0);
}

static void expect_connect(const char *what, struct call *call, struct server *server, int flags)
{
    call->server = server;
    call->fd = caller_socket(server, flags);
    expect_shallow(what, depth_of(do_connect, call));
}

/* --- the ways --- */

static void an_attempt_and_its_exchange_take_little(void **state)
{
    struct server server, gone;
    struct call call;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    server_start(&gone, "127.0.0.1", SERVER_REFUSES);
    expect_connect("the first connect", &call, &server, 0);
    int peer = server_accept(&server);
    expect_shallow("a request", depth_of(do_send, &call));
    assert_int_equal(bare.send(peer, "HTTP/1.1 503 no\r\n\r\n", 19, 0), 19);
    expect_shallow("its answer", depth_of(do_receive, &call));
    expect_shallow("the next request", depth_of(do_send, &call));
    bare.close(peer);
    expect_shallow("an end instead of an answer", depth_of(do_receive, &call));
    expect_shallow("close", depth_of(do_close, &call));
    expect_connect("a connect that fails", &call, &gone, 0);
    assert_int_equal(call.error, ECONNREFUSED);
    expect_shallow("close after it", depth_of(do_close, &call));
    server_stop(&server);
    server_stop(&gone);
}

static void a_name_takes_little(void **state)
{
    struct server server;
    struct addrinfo *found, hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    struct call call;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    assert_int_equal(getaddrinfo("localhost", NULL, &hints, &found), 0);
    freeaddrinfo(found);
    expect_connect("a connect by a name", &call, &server, 0);
    assert_true(call.result == 0);
    close(call.fd);
    server_stop(&server);
}

static void the_opening_of_a_circuit_takes_little(void **state)
{
    struct server hole, gone;
    struct call call;
    (void)state;
    server_start(&hole, "127.0.0.4", SERVER_BLACK_HOLE);
    expect_connect("a connect that is pending", &call, &hole, SOCK_NONBLOCK);
    wait_long();
    expect_shallow("close of a pending attempt, which opens", depth_of(do_close, &call));
    assert_int_equal(counted(&hole, COUNT_OPENED), 1);
    expect_connect("a connect that is refused", &call, &hole, 0);
    assert_int_equal(call.error, ECONNREFUSED);
    close(call.fd);
    server_stop(&hole);
    server_start(&gone, "127.0.0.5", SERVER_REFUSES);
    expect_connect("a connect that fails and opens", &call, &gone, 0);
    close(call.fd);
    expect_connect("a connect that goes to the fallback", &call, &gone, 0);
    close(call.fd);
    server_stop(&gone);
}

static void an_overdue_call_and_a_limit_take_little(void **state)
{
    struct server server, hole;
    struct call call, next;
    (void)state;
    server_start(&server, "127.0.0.6", SERVER_LISTENS);
    expect_connect("a connect to one that is silent", &call, &server, 0);
    expect_shallow("a request to it", depth_of(do_send, &call));
    wait_long();
    expect_connect("a connect that finds an overdue call, and opens", &next, &server, 0);
    assert_int_equal(next.error, ECONNREFUSED);
    close(next.fd);
    close(call.fd);
    server_stop(&server);
    server_start(&hole, "127.0.0.7", SERVER_BLACK_HOLE);
    expect_connect("a connect that is ended", &call, &hole, 0);
    close(call.fd);
    server_stop(&hole);
}

static void other_ends_that_open_take_little(void **state)
{
    static const struct {
        const char *what;
        void (*play)(void *context);
    } ends[] = {
        {"dup2 over a pending attempt, which opens", do_dup_over},
        {"close_range of one, which opens", do_close_range},
        {"shutdown of one, which opens", do_shutdown},
    };
    (void)state;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct server hole;
        server_start(&hole, "127.0.0.4", SERVER_BLACK_HOLE);
        struct call call = {.server = &hole, .fd = caller_connect(&hole, SOCK_NONBLOCK)};
        wait_long();
        expect_shallow(ends[i].what, depth_of(ends[i].play, &call));
        assert_true(call.result >= 0);
        assert_int_equal(counted(&hole, COUNT_OPENED), 1);
        close(call.fd);
        server_stop(&hole);
    }
}

static void a_rehearsal_takes_little(void **state)
{
    struct server server;
    struct call call;
    (void)state;
    server_start(&server, "127.0.0.8", SERVER_LISTENS);
    expect_connect("a connect with a fault", &call, &server, 0);
    expect_shallow("a request with a fault", depth_of(do_send, &call));
    expect_shallow("the answer that is played", depth_of(do_receive, &call));
    expect_shallow("close after it", depth_of(do_close, &call));
    server_stop(&server);
}

static void a_unix_socket_takes_little(void **state)
{
    struct server server;
    struct call call;
    (void)state;
    server_start(&server, "unix", SERVER_LISTENS);
    expect_connect("the first connect with scope = process", &call, &server, 0);
    close(call.fd);
    server_stop(&server);
}

/* --- what a child does --- */

struct child {
    void (*before)(struct call *call);
    void (*play)(void *context);
    struct call call;
};

static void play_child(void *context)
{
    struct child *child = context;
    if (child->before)
        child->before(&child->call);
    on_the_stack(child->play, &child->call);
}

static void expect_child(const char *what, struct child *child)
{
    on_the_stack(nothing, NULL);
    size_t of_nothing = used();
    assert_true(exited_well(actor_wait(actor_fork(play_child, child))));
    expect_shallow(what, used() - of_nothing);
}

static void connect_pending(struct call *call)
{
    call->fd = caller_connect(call->server, SOCK_NONBLOCK);
    wait_long();
}

/* Everything of the folder is gone, and the second in which it is not looked at again is over. */
static void lose_the_folder(struct call *call)
{
    char command[PATH_MAX + 16];
    close(caller_connect(call->server, 0));
    snprintf(command, sizeof command, "LD_PRELOAD= rm -rf '%s'", getenv("SOCKFUSE_STATE"));
    CHECK(system(command) == 0);
    wait_ms(1100);
    call->fd = caller_socket(call->server, 0);
}

/* libc's least stack, of which the thread's own data and the guard page are a part. */
static void *connect_and_close(void *context)
{
    struct call *call = context;
    do_connect(call);
    do_close(call);
    return NULL;
}

static void connect_in_a_small_thread(void *context)
{
    struct call *call = context;
    pthread_t thread;
    pthread_attr_t attributes;
    long least = sysconf(_SC_THREAD_STACK_MIN);
    lose_the_folder(call);
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstacksize(&attributes, least > 16384 ? (size_t)least : 16384) == 0);
    CHECK(pthread_create(&thread, &attributes, connect_and_close, call) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(call->result == 0);
}

static void a_thread_with_the_least_stack_attaches_anew(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    struct call call = {.server = &server};
    assert_true(exited_well(actor_wait(actor_fork(connect_in_a_small_thread, &call))));
    server_stop(&server);
}

static void children_ends_and_new_segments_take_little(void **state)
{
    struct server server, hole;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    server_start(&hole, "127.0.0.1", SERVER_BLACK_HOLE);
    struct child first = {.play = do_connect, .call = {.server = &server, .fd = caller_socket(&server, 0)}};
    expect_child("a child's first connect", &first);
    struct child exits = {.before = connect_pending, .play = do_exit, .call = {.server = &hole}};
    expect_child("_exit with a pending attempt", &exits);
    struct child loses = {.before = lose_the_folder, .play = do_connect, .call = {.server = &server}};
    expect_child("a connect that finds the segment deleted", &loses);
    server_stop(&server);
    server_stop(&hole);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(an_attempt_and_its_exchange_take_little, none_is_too_deep),
        cmocka_unit_test_teardown(a_name_takes_little, none_is_too_deep),
        cmocka_unit_test_teardown(the_opening_of_a_circuit_takes_little, none_is_too_deep),
        cmocka_unit_test_teardown(an_overdue_call_and_a_limit_take_little, none_is_too_deep),
        cmocka_unit_test_teardown(other_ends_that_open_take_little, none_is_too_deep),
        cmocka_unit_test_teardown(a_rehearsal_takes_little, none_is_too_deep),
        cmocka_unit_test_teardown(a_unix_socket_takes_little, none_is_too_deep),
        cmocka_unit_test(a_thread_with_the_least_stack_attaches_anew),
        cmocka_unit_test_teardown(children_ends_and_new_segments_take_little, none_is_too_deep),
    };
    setenv("SOCKFUSE_LOG", "/dev/null", 1);
    stage_enter(argc, argv, policy, NULL);
    stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
