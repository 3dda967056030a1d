/*
 * test_inject_answers.c - injected resets and answers: they follow any request, and are met by whatever means a program
 * reads.
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "support_inject.h"
#include "support_inject_sending.h"

/* --- reset --- */

static void injected_reset_follows_any_request(void **state)
{
    struct server server;
    char byte;
    (void)state;
    server_start(&server, RESETS, SERVER_LISTENS);
    for (size_t i = 0; i < WAYS_TO_SEND; i++) {
        at_hand = ways_to_send[i].name;
        int fd = caller_connect(&server, 0);
        assert_int_equal(ways_to_send[i].send(fd), LENGTH);
        assert_int_equal(recv(fd, &byte, 1, 0), -1);
        assert_int_equal(errno, ECONNRESET);
        expect(&server, "1 failed:reset, 1 injected");
        assert_int_equal(send(fd, "x", 1, MSG_NOSIGNAL), -1);
        assert_int_equal(errno, EPIPE);
        close(fd);
        expect(&server, "nothing");
    }
    nobody_came(&server);
    server_stop(&server);
}

static void injected_reset_wakes_who_polls(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, RESETS, SERVER_LISTENS);
    int fd = caller_connect(&server, SOCK_NONBLOCK);
    int poller = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET};
    CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, fd, &event) == 0);
    assert_int_equal(epoll_wait(poller, &event, 1, 1000), 1);
    assert_int_equal(event.events, EPOLLOUT);
    assert_int_equal(pending_error(fd), 0);
    assert_int_equal(send(fd, request_text(), (size_t)LENGTH, 0), LENGTH);
    assert_int_equal(epoll_wait(poller, &event, 1, 1000), 1);
    assert_true(event.events & EPOLLERR);
    assert_int_equal(pending_error(fd), ECONNRESET);
    expect(&server, "1 failed:reset, 1 injected");
    close(poller);
    close(fd);
    server_stop(&server);
}

static void injected_reset_is_found_by_who_only_closes(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, RESETS, SERVER_LISTENS);
    int fd = caller_connect(&server, 0);
    assert_int_equal(send(fd, request_text(), (size_t)LENGTH, 0), LENGTH);
    close(fd);
    expect(&server, "1 failed:reset, 1 injected");
    server_stop(&server);
}

static void injected_reset_meets_who_waits_for_the_server_to_speak(void **state)
{
    struct server server;
    char byte;
    (void)state;
    server_start(&server, RESETS, SERVER_LISTENS);
    int fd = caller_connect(&server, 0);
    assert_int_equal(recv(fd, &byte, 1, 0), -1);
    assert_int_equal(errno, ECONNRESET);
    close(fd);
    expect(&server, "1 failed:reset, 1 injected");
    server_stop(&server);
}

static void *receive(void *fd)
{
    static char byte;
    ssize_t got = bare.recv(*(int *)fd, &byte, 1, 0);
    return (void *)(intptr_t)(got >= 0 ? (int)got : -errno);
}

static void injected_answer_wakes_another_thread(void **state)
{
    struct server server;
    pthread_t thread;
    void *got;
    (void)state;
    server_start(&server, ANSWERS, SERVER_LISTENS);
    int fd = caller_connect(&server, 0);
    CHECK(pthread_create(&thread, NULL, receive, &fd) == 0);
    wait_ms(20);
    assert_int_equal(send(fd, request_text(), (size_t)LENGTH, 0), LENGTH);
    CHECK(pthread_join(thread, &got) == 0);
    assert_int_equal((intptr_t)got, 1);
    close(fd);
    server_stop(&server);
}

static void file_sent_meets_the_reset_at_once(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, RESETS, SERVER_LISTENS);
    int file = open(stage_file("body", "body"), O_RDONLY | O_CLOEXEC);
    int fd = caller_connect(&server, 0);
    assert_int_equal(sendfile(fd, file, NULL, 4), -1);
    assert_int_equal(errno, ECONNRESET);
    close(fd);
    expect(&server, "1 failed:reset, 1 injected");
    close(file);
    server_stop(&server);
}

/* --- silence, and an early close --- */

static void injected_silence_takes_any_request_and_says_nothing(void **state)
{
    const struct timeval timeout = {.tv_usec = 70000};
    struct server server;
    (void)state;
    server_start(&server, SILENT, SERVER_LISTENS);
    for (size_t i = 0; i < WAYS_TO_SEND; i++) {
        char byte;
        at_hand = ways_to_send[i].name;
        int fd = caller_connect(&server, 0);
        struct pollfd look = {.fd = fd, .events = POLLIN | POLLRDHUP};
        CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == 0);
        assert_int_equal(ways_to_send[i].send(fd), LENGTH);
        assert_int_equal(poll(&look, 1, 10), 0);
        assert_int_equal(recv(fd, &byte, 1, 0), -1);
        assert_int_equal(errno, EAGAIN);
        expect(&server, "1 failed:response-timeout, 1 injected");
        close(fd);
    }
    nobody_came(&server);
    server_stop(&server);
}

/*
 * How many sockets of that port have sent their end, and the kernel still waits for its acknowledgement (FIN-WAIT-1).
 */
static int ends_unheard_at(unsigned int port)
{
    char line[512];
    int count = 0;
    FILE *sockets = fopen("/proc/net/tcp", "re");
    CHECK(sockets != NULL);
    while (fgets(line, sizeof line, sockets)) {
        unsigned int at, state;
        if (sscanf(line, "%*d: %*x:%x %*x:%*x %x", &at, &state) == 2)
            count += at == port && state == 4;
    }
    fclose(sockets);
    return count;
}

static void silent_connection_does_not_hear_itself_and_is_gone_when_closed(void **state)
{
    struct server server;
    struct sockaddr_in own;
    socklen_t length = sizeof own;
    (void)state;
    server_start(&server, SILENT, SERVER_LISTENS);
    int fd = caller_connect(&server, 0);
    struct pollfd look = {.fd = fd, .events = POLLIN | POLLRDHUP};
    assert_int_equal(send(fd, request_text(), (size_t)LENGTH, 0), LENGTH);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_int_equal(poll(&look, 1, 60), 0);
    close(fd);
    fd = caller_connect(&server, 0);
    CHECK(getsockname(fd, (struct sockaddr *)&own, &length) == 0);
    close(fd);
    assert_int_equal(ends_unheard_at(ntohs(own.sin_port)), 0);
    server_stop(&server);
}

static void injected_end_follows_any_request(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, CLOSING, SERVER_LISTENS);
    for (size_t i = 0; i < WAYS_TO_SEND; i++) {
        char byte;
        at_hand = ways_to_send[i].name;
        int fd = caller_connect(&server, 0);
        assert_int_equal(ways_to_send[i].send(fd), LENGTH);
        assert_int_equal(recv(fd, &byte, 1, 0), 0);
        expect(&server, "1 failed:early-close, 1 injected");
        close(fd);
    }
    nobody_came(&server);
    server_stop(&server);
}

static void injected_end_meets_who_waits_for_the_server_to_speak(void **state)
{
    struct server server;
    char byte;
    (void)state;
    server_start(&server, CLOSING, SERVER_LISTENS);
    int fd = caller_connect(&server, 0);
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    close(fd);
    expect(&server, "1 failed:early-close, 1 injected");
    nobody_came(&server);
    server_stop(&server);
}

/* --- an answer --- */

static void injected_answer_follows_any_request(void **state)
{
    struct server server;
    char answer[1024];
    (void)state;
    server_start(&server, ANSWERS, SERVER_LISTENS);
    for (size_t i = 0; i < WAYS_TO_SEND; i++) {
        at_hand = ways_to_send[i].name;
        int fd = caller_connect(&server, 0);
        assert_int_equal(ways_to_send[i].send(fd), LENGTH);
        size_t length = read_all(fd, answer, sizeof answer);
        assert_whole(answer, length, head_503, true);
        close(fd);
        expect(&server, "1 failed:http, 1 injected");
    }
    nobody_came(&server);
    server_stop(&server);
}

static void injected_answer_is_read_by_whatever_means(void **state)
{
    struct server server;
    char byte, line[64];
    (void)state;
    server_start(&server, ANSWERS, SERVER_LISTENS);
    int fd = caller_connect(&server, SOCK_NONBLOCK);
    assert_int_equal(recv(fd, &byte, 1, 0), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(send(fd, request_text(), (size_t)LENGTH, 0), LENGTH);
    assert_true(poll_for(fd, POLLIN) & POLLIN);
    assert_int_equal(recv(fd, line, 8, MSG_PEEK), 8);
    struct iovec vector[] = {{line, 4}, {line + 4, 4}};
    assert_int_equal(readv(fd, vector, 2), 8);
    assert_memory_equal(line, "HTTP/1.1", 8);
    FILE *stream = fdopen(fd, "r");
    assert_non_null(fgets(line, sizeof line, stream));
    assert_string_equal(line, " 503 Service Unavailable\r\n");
    while (fgets(line, sizeof line, stream)) {
    }
    assert_true(feof(stream));
    fclose(stream);
    assert_int_equal(counted(&server, COUNT_FAILED) + counted(&server, COUNT_SUCCEEDED), 1);
    server_stop(&server);
}

static void injected_business_answer_is_no_failure(void **state)
{
    struct server server;
    char answer[1024];
    (void)state;
    server_start(&server, BUSINESS, SERVER_LISTENS);
    int fd = caller_connect(&server, 0);
    assert_int_equal(send(fd, request_text(), (size_t)LENGTH, 0), LENGTH);
    size_t length = read_all(fd, answer, sizeof answer);
    assert_whole(answer, length, "HTTP/1.1 404 Not Found\r\n", true);
    close(fd);
    expect(&server, "1 business, 1 injected");
    server_stop(&server);
}

static void answer_to_head_has_no_body(void **state)
{
    struct server server;
    char answer[1024];
    (void)state;
    server_start(&server, ANSWERS, SERVER_LISTENS);
    int fd = caller_connect(&server, 0);
    assert_int_equal(send(fd, "HEAD / HTTP/1.1\r\n\r\n", 19, 0), 19);
    size_t length = read_all(fd, answer, sizeof answer);
    assert_whole(answer, length, head_503, false);
    close(fd);
    server_stop(&server);
}

static void what_is_sent_after_the_answer_is_taken_without_a_signal(void **state)
{
    struct server server;
    char answer[1024], large[65536] = "";
    (void)state;
    server_start(&server, ANSWERS, SERVER_LISTENS);
    int fd = caller_connect(&server, 0);
    assert_int_equal(send(fd, request_text(), (size_t)LENGTH, 0), LENGTH);
    for (int i = 0; i < 50; i++)
        assert_int_equal(send(fd, large, sizeof large, 0), sizeof large);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    size_t length = read_all(fd, answer, sizeof answer);
    assert_whole(answer, length, head_503, true);
    close(fd);
    expect(&server, "1 failed:http, 1 injected");
    server_stop(&server);
}

static void where_no_answer_can_be_read_there_is_a_reset(void **state)
{
    static const char *const firsts[] = {"\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03",
                                         "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"};
    static const size_t lengths[] = {11, 24};
    struct server server;
    char byte;
    (void)state;
    server_start(&server, ANSWERS, SERVER_LISTENS);
    for (size_t i = 0; i < 2; i++) {
        int fd = caller_connect(&server, 0);
        assert_int_equal(send(fd, firsts[i], lengths[i], 0), lengths[i]);
        assert_int_equal(recv(fd, &byte, 1, 0), -1);
        assert_int_equal(errno, ECONNRESET);
        close(fd);
    }
    assert_int_equal(counted(&server, COUNT_FAILURE_KIND + FAILURE_RESET), 2);
    server_stop(&server);
}

static void answers_open_the_circuit_which_then_refuses(void **state)
{
    struct server server;
    char answer[1024];
    (void)state;
    server_start(&server, TOUCHY, SERVER_LISTENS);
    for (int i = 0; i < 3; i++) {
        int fd = caller_connect(&server, 0);
        assert_int_equal(send(fd, request_text(), (size_t)LENGTH, 0), LENGTH);
        read_all(fd, answer, sizeof answer);
        close(fd);
    }
    expect(&server, "3 failed:http, 3 injected, 1 opened");
    int fd = caller_socket(&server, 0);
    assert_int_equal(connect(fd, AT(&server)), -1);
    assert_int_equal(errno, ECONNREFUSED);
    close(fd);
    expect(&server, "1 refused");
    nobody_came(&server);
    server_stop(&server);
}

static void play_in_child(void *context)
{
    char answer[1024];
    int fd = *(int *)context;
    CHECK(send(fd, request_text(), (size_t)LENGTH, 0) == LENGTH);
    CHECK(read_all(fd, answer, sizeof answer) > sizeof head_503 && !memcmp(answer, head_503, sizeof head_503 - 1));
}

static void connection_leads_nowhere_in_a_child_too(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, ANSWERS, SERVER_LISTENS);
    int fd = caller_connect(&server, 0);
    assert_true(exited_well(actor_wait(actor_fork(play_in_child, &fd))));
    close(fd);
    nobody_came(&server);
    server_stop(&server);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(injected_reset_follows_any_request),
        cmocka_unit_test(injected_reset_wakes_who_polls),
        cmocka_unit_test(injected_reset_is_found_by_who_only_closes),
        cmocka_unit_test(injected_reset_meets_who_waits_for_the_server_to_speak),
        cmocka_unit_test(injected_answer_wakes_another_thread),
        cmocka_unit_test(file_sent_meets_the_reset_at_once),
        cmocka_unit_test(injected_silence_takes_any_request_and_says_nothing),
        cmocka_unit_test(silent_connection_does_not_hear_itself_and_is_gone_when_closed),
        cmocka_unit_test(injected_end_follows_any_request),
        cmocka_unit_test(injected_end_meets_who_waits_for_the_server_to_speak),
        cmocka_unit_test(injected_answer_follows_any_request),
        cmocka_unit_test(injected_answer_is_read_by_whatever_means),
        cmocka_unit_test(injected_business_answer_is_no_failure),
        cmocka_unit_test(answer_to_head_has_no_body),
        cmocka_unit_test(what_is_sent_after_the_answer_is_taken_without_a_signal),
        cmocka_unit_test(where_no_answer_can_be_read_there_is_a_reset),
        cmocka_unit_test(answers_open_the_circuit_which_then_refuses),
        cmocka_unit_test(connection_leads_nowhere_in_a_child_too),
    };
    stage_enter(argc, argv, inject_policy, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
