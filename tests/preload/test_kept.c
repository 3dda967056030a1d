/*
 * test_kept.c - requests on a connection that has answered before: its usual ones go a short way, and nothing that a
 * circuit counts may tell which way was gone.
 */
/* links: core */
#define _GNU_SOURCE
#include <linux/net_tstamp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include "support.h"

#define SLOW_MS 200u
#define GIVEN_UP_MS 400u /* more than abandon_after */
/* A program's last words are said no later before the end than this; see patience.c. */
#define LAST_WORDS_MS 40u

static const char policy[] = "[defaults]\n"
                             "failure_threshold = 1000\n"
                             "failure_rate = 0%\n"
                             "slow_call_rate = 0%\n"
                             "[kept]\n"
                             "match = 127.0.0.1:*\n"
                             "slow_call = 200ms\n";

static void ask(int fd, const char *request)
{
    ssize_t length = (ssize_t)strlen(request);
    assert_int_equal(send(fd, request, (size_t)length, 0), length);
}

static void answer(int fd, int peer)
{
    char byte;
    assert_int_equal(bare.send(peer, "+", 1, 0), 1);
    assert_int_equal(recv(fd, &byte, 1, 0), 1);
}

/* The second request is the first on a connection that has answered, so the third goes the short way. */
static int caller_kept(struct server *server, int *peer)
{
    int fd = caller_connect(server, 0);
    *peer = server_accept(server);
    for (int i = 0; i < 2; i++) {
        ask(fd, "a");
        answer(fd, *peer);
    }
    expect(server, "2 succeeded");
    return fd;
}

static void answer_to_a_request_in_two_parts_is_as_slow_as_its_first_part(void **state)
{
    struct server server;
    int peer;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = caller_kept(&server, &peer);
    for (int tries = 0;; tries++) {
        uint64_t slow = counted(&server, COUNT_SLOW);
        ask(fd, "first");
        wait_ms(SLOW_MS + LAST_WORDS_MS);
        uint64_t since_ms = now_ms();
        ask(fd, "second");
        answer(fd, peer);
        expect(&server, "1 succeeded");
        if (now_ms() - since_ms >= LAST_WORDS_MS && tries < 20) /* the machine was busy */
            continue;
        assert_int_equal(counted(&server, COUNT_SLOW) - slow, 1);
        break;
    }
    close(fd);
    bare.close(peer);
    server_stop(&server);
}

static void wait_idle(int fd, int peer)
{
    (void)fd, (void)peer;
    wait_ms(GIVEN_UP_MS);
}

static void wait_between_two_parts(int fd, int peer)
{
    ask(fd, "first");
    wait_ms(GIVEN_UP_MS);
    ask(fd, "second");
    answer(fd, peer);
}

/* Each request is given up after its own wait, whatever was waited for before. */
static void request_that_is_given_up_soon_answers_for_no_wait_before_it(void **state)
{
    void (*const waits[])(int, int) = {wait_idle, wait_between_two_parts};
    (void)state;
    for (size_t i = 0, tries = 0; i < sizeof waits / sizeof *waits; tries++) {
        struct server server;
        int peer;
        server_start(&server, "127.0.0.1", SERVER_LISTENS);
        int fd = caller_kept(&server, &peer);
        waits[i](fd, peer);
        uint64_t since_ms = now_ms(), cancelled = counted(&server, COUNT_NEUTRAL_REASON + NEUTRAL_CANCELLED);
        ask(fd, "next");
        close(fd);
        if (now_ms() - since_ms < LAST_WORDS_MS || tries > 20) { /* else the machine was busy */
            assert_int_equal(counted(&server, COUNT_NEUTRAL_REASON + NEUTRAL_CANCELLED) - cancelled, 1);
            i++;
        }
        bare.close(peer);
        server_stop(&server);
    }
}

static void answer_that_takes_longer_than_slow_call_is_slow(void **state)
{
    struct server server;
    int peer;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = caller_kept(&server, &peer);
    uint64_t slow = counted(&server, COUNT_SLOW);
    ask(fd, "next");
    wait_ms(SLOW_MS + 1);
    answer(fd, peer);
    expect(&server, "1 succeeded");
    assert_int_equal(counted(&server, COUNT_SLOW) - slow, 1);
    close(fd);
    bare.close(peer);
    server_stop(&server);
}

/* What is in the error queue of a socket is the program's own, not an answer. */
static void time_stamps_of_what_was_sent_are_no_answer(void **state)
{
    struct server server;
    int peer, stamps = SOF_TIMESTAMPING_TX_SOFTWARE | SOF_TIMESTAMPING_SOFTWARE;
    char bytes[64], control[512];
    struct iovec vector = {bytes, sizeof bytes};
    struct msghdr message = {
        .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = caller_kept(&server, &peer);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, &stamps, sizeof stamps), 0);
    ask(fd, "next");
    wait_long();
    assert_true(recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) > 0);
    expect(&server, "1 in-flight");
    answer(fd, peer);
    expect(&server, "1 succeeded");
    close(fd);
    bare.close(peer);
    server_stop(&server);
}

/* With MSG_TRUNC the kernel throws the bytes away: the program's buffer may be anything. */
static void bytes_that_are_thrown_away_are_not_looked_at(void **state)
{
    struct server server;
    int peer;
    void *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)state;
    assert_ptr_not_equal(nowhere, MAP_FAILED);
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = caller_kept(&server, &peer);
    ask(fd, "next");
    assert_int_equal(bare.send(peer, "+", 1, 0), 1);
    assert_int_equal(recv(fd, nowhere, 1, MSG_TRUNC), 1);
    expect(&server, "1 succeeded");
    close(fd);
    bare.close(peer);
    server_stop(&server);
    munmap(nowhere, 4096);
}

struct line {
    int fd, peer;
};

static void ask_in_child(void *context)
{
    struct line *line = context;
    char byte;
    CHECK(send(line->fd, "a", 1, 0) == 1 && bare.send(line->peer, "+", 1, 0) == 1 && recv(line->fd, &byte, 1, 0) == 1);
}

static void receive_in_child(void *context)
{
    struct line *line = context;
    char byte;
    CHECK(bare.send(line->peer, "+", 1, 0) == 1 && recv(line->fd, &byte, 1, 0) == 1);
}

static void requests_of_a_forked_child_begin_no_call_and_its_answers_are_its_parents(void **state)
{
    struct server server;
    struct line line;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    line.fd = caller_kept(&server, &line.peer);
    assert_true(exited_well(actor_wait(actor_fork(ask_in_child, &line))));
    expect(&server, "nothing");
    ask(line.fd, "next");
    assert_true(exited_well(actor_wait(actor_fork(receive_in_child, &line))));
    expect(&server, "1 succeeded");
    close(line.fd);
    bare.close(line.peer);
    server_stop(&server);
}

#define STORM_MS 300u
#define PLAIN_ANSWER "+"
#define HTTP_ANSWER "HTTP/1.1 200 OK\r\n\r\n"

/* A connection that is used without much waiting for each other's answers. */
struct storm {
    struct server server;
    int fd, peer;
    const char *answer;
    pthread_t answers;
    _Atomic bool over;
};

/* One for each byte. */
static void *storm_answer(void *context)
{
    struct storm *storm = context;
    char room[64];
    for (ssize_t got; (got = bare.recv(storm->peer, room, sizeof room, 0)) > 0;)
        for (; got > 0; got--)
            bare.send(storm->peer, storm->answer, strlen(storm->answer), MSG_NOSIGNAL);
    return NULL;
}

static void storm_start(struct storm *storm, const char *an_answer)
{
    sigset_t alarm, former;
    memset(storm, 0, sizeof *storm);
    storm->answer = at_hand = an_answer;
    server_start(&storm->server, "127.0.0.1", SERVER_LISTENS);
    storm->fd = caller_kept(&storm->server, &storm->peer);
    /* The signal is this thread's. */
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, &former);
    assert_int_equal(pthread_create(&storm->answers, NULL, storm_answer, storm), 0);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
}

/* Whatever the storm has left of the connection: from the second request on, each is a call again. */
static void storm_is_over(struct storm *storm)
{
    struct server *server = &storm->server;
    char room[4096];
    while (poll(&(struct pollfd){storm->fd, POLLIN, 0}, 1, 100) == 1)
        assert_true(recv(storm->fd, room, sizeof room, MSG_DONTWAIT) > 0);
    wait_ms(1000); /* by then, who was about to begin a call has jumped away */
    for (int i = 0; i < 4; i++) {
        uint64_t admitted = counted(server, COUNT_ADMITTED), succeeded = counted(server, COUNT_SUCCEEDED);
        ask(storm->fd, "a");
        assert_true(recv(storm->fd, room, sizeof room, 0) > 0);
        if (i > 0) {
            assert_int_equal(counted(server, COUNT_ADMITTED), admitted + 1);
            assert_int_equal(counted(server, COUNT_SUCCEEDED), succeeded + 1);
        }
    }
    close(storm->fd);
    pthread_join(storm->answers, NULL);
    bare.close(storm->peer);
    assert_int_equal(counted(server, COUNT_FAILED) + counted(server, COUNT_NEUTRAL), 0);
    server_stop(server);
}

static void *storm_send(void *context)
{
    struct storm *storm = context;
    while (!atomic_load(&storm->over))
        CHECK(send(storm->fd, "a", 1, MSG_NOSIGNAL) == 1);
    return NULL;
}

static void *storm_receive(void *context)
{
    struct storm *storm = context;
    char room[16];
    while (!atomic_load(&storm->over))
        recv(storm->fd, room, sizeof room, MSG_DONTWAIT);
    return NULL;
}

static void threads_that_share_a_kept_connection_leave_it_counted(void **state)
{
    void *(*const parts[])(void *) = {storm_send, storm_send, storm_receive, storm_receive};
    pthread_t threads[sizeof parts / sizeof *parts];
    struct storm storm;
    (void)state;
    storm_start(&storm, PLAIN_ANSWER);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, parts[i], &storm), 0);
    wait_ms(STORM_MS);
    atomic_store(&storm.over, true);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        pthread_join(threads[i], NULL);
    storm_is_over(&storm);
    assert_int_equal(counted(&storm.server, COUNT_SUCCEEDED), counted(&storm.server, COUNT_ADMITTED));
}

static sigjmp_buf out;

static void jump_out(int number)
{
    (void)number;
    siglongjmp(out, 1);
}

/* An answer of HTTP in two pieces is read and begun after on the long way, any other on the short one. */
static void call_until_jumped_out(struct storm *storm)
{
    size_t first = strcmp(storm->answer, HTTP_ANSWER) ? 64 : 1;
    char room[64];
    if (sigsetjmp(out, 1))
        return;
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, 1 + rand() % 100}}, NULL);
    for (;;) {
        send(storm->fd, "a", 1, MSG_NOSIGNAL);
        recv(storm->fd, room, first, 0);
        recv(storm->fd, room, sizeof room, MSG_DONTWAIT);
    }
}

static void handler_that_jumps_out_at_any_point_leaves_a_kept_connection_counted(void **state)
{
    static const char *const answers[] = {PLAIN_ANSWER, HTTP_ANSWER};
    struct storm storm;
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        storm_start(&storm, answers[i]);
        signal(SIGALRM, jump_out);
        for (uint64_t until_ms = now_ms() + STORM_MS; now_ms() < until_ms;)
            call_until_jumped_out(&storm);
        signal(SIGALRM, SIG_DFL);
        storm_is_over(&storm);
    }
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(answer_to_a_request_in_two_parts_is_as_slow_as_its_first_part),
        cmocka_unit_test(request_that_is_given_up_soon_answers_for_no_wait_before_it),
        cmocka_unit_test(answer_that_takes_longer_than_slow_call_is_slow),
        cmocka_unit_test(time_stamps_of_what_was_sent_are_no_answer),
        cmocka_unit_test(bytes_that_are_thrown_away_are_not_looked_at),
        cmocka_unit_test(requests_of_a_forked_child_begin_no_call_and_its_answers_are_its_parents),
        cmocka_unit_test(threads_that_share_a_kept_connection_leave_it_counted),
        cmocka_unit_test(handler_that_jumps_out_at_any_point_leaves_a_kept_connection_counted),
    };
    stage_enter(argc, argv, policy, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
