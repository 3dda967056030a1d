/*
 * test_fleet_link.c - members that come and go on one connection. links: agent
 *
 * What stands for Redis here is a thread that knows the three questions of an idle member.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "agent/fleet_link.h"
#include "base/clock.h"

static char folder[] = "/tmp/sf-XXXXXX";
static struct redis_url url;
static int listener;

/* Commands come whole or in pieces: an answer is due for each of these words. */
static void *serve(void *argument)
{
    static const struct {
        const char *word, *answer;
    } known[] = {{"PING", "+PONG\r\n"}, {"TIME", "*2\r\n$1\r\n9\r\n$1\r\n1\r\n"}, {"ZRANGEBYSCORE", "*0\r\n"}};
    const int fd = (int)(intptr_t)argument;
    char last = ' ', byte, word[32] = "";
    size_t length = 0;

    while (read(fd, &byte, 1) == 1) {
        if (byte != '\n' || last != '\r') {
            if (byte != '\r' && length < sizeof word - 1)
                word[length++] = byte;
            last = byte;
            continue;
        }
        word[length] = '\0';
        length = 0;
        last = byte;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
            if (strcmp(word, known[i].word) == 0 &&
                send(fd, known[i].answer, strlen(known[i].answer), MSG_NOSIGNAL) < 0)
                break;
        }
    }
    close(fd);
    return NULL;
}

static void *accept_all(void *argument)
{
    pthread_t thread;
    (void)argument;

    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0;) {
        if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd) == 0)
            pthread_detach(thread);
    }
    return NULL;
}

static int setup(void **state)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    static pthread_t thread;
    char why[400], text[200];

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(address.sun_path, sizeof address.sun_path, "%s/redis", folder);
    snprintf(text, sizeof text, "redis+unix:%s", address.sun_path);
    assert_true(redis_url_parse(&url, text, why, sizeof why));
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 8), 0);
    clock_start(NULL);
    assert_int_equal(pthread_create(&thread, NULL, accept_all, NULL), 0);
    pthread_detach(thread);
    return 0;
}

static int teardown(void **state)
{
    char path[200];

    (void)state;
    shutdown(listener, SHUT_RDWR);
    snprintf(path, sizeof path, "%s/redis", folder);
    unlink(path);
    rmdir(folder);
    return 0;
}

/* Policies come into use and go out of it for months, and the connection stands all the time. */
static void a_member_that_has_left_leaves_its_place_to_the_next(void **state)
{
    struct ev_loop *loop = ev_default_loop(0);
    struct fleet_link *link = fleet_link_open(loop, &url, NULL);

    (void)state;
    assert_non_null(link);
    while (!fleet_link_works(link))
        ev_run(loop, EVRUN_ONCE);
    for (unsigned int i = 0; i < LINK_MEMBERS + 100; i++) {
        struct fleet *fleet = fleet_link_join(link, "policy", 1);
        if (fleet == NULL)
            fail_msg("member %u found no place", i);
        fleet_link_turn(link, fleet, clock_real_ns());
        ev_run(loop, EVRUN_ONCE);
        fleet_link_leave(link, fleet);
        for (unsigned int turn = 0; turn < 3; turn++)
            ev_run(loop, EVRUN_NOWAIT);
    }
    assert_true(fleet_link_works(link));
    fleet_link_close(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_member_that_has_left_leaves_its_place_to_the_next)};
    const char *why;

    if (!fleet_link_is_possible(&url, &why)) {
        printf("1..0 # SKIP %s\n", why);
        return 0;
    }
    return cmocka_run_group_tests(tests, setup, teardown);
}
