/*
 * test_unreachable.c - hosts that cannot be reached: what this host says at once is local, what the network says later
 * is a failure.
 *
 * In a network namespace of the test's own: a link whose other end answers nothing, so that the kernel finds out after
 * two questions, some 40 ms later, that 10.9.0.2 is not there: long after "at once", and no longer than a thread of a
 * busy machine may have to wait for its processor.
 */
/* links: core */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

static const char set_up[] =
    "exec >/dev/null 2>&1; export LD_PRELOAD=; set -e\n"
    "ip link add v0 type veth peer name v1\n"
    "ip addr add 10.9.0.1/24 dev v0\n"
    "ip link set lo up\n"
    "ip link set v0 up\n"
    "ip link set v1 up\n"
    "for file in /proc/sys/net/ipv4/neigh/v0; do echo 20 >$file/retrans_time_ms; echo 2 >$file/mcast_solicit; done\n"
    "ip route add unreachable 10.9.1.0/24\n"
    "ip route add prohibit 10.9.2.0/24\n";

static void there(struct server *server, const char *address, const char *port)
{
    struct sockaddr_in *at = (struct sockaddr_in *)&server->address;
    memset(server, 0, sizeof *server);
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    CHECK(inet_pton(AF_INET, address, &at->sin_addr) == 1);
    server->length = sizeof *at;
    snprintf(server->destination, sizeof server->destination, "%s:%s", address, port);
}

static int scene_network(int argc, char **argv)
{
    static const struct {
        const char *address;
        int error;
    } at_once[] = {{"10.9.1.1", EHOSTUNREACH}, {"10.9.2.1", EACCES}, {"10.9.3.1", ENETUNREACH}};
    struct server server;
    int error = 0, fds[3];
    socklen_t length = sizeof error;
    CHECK(argc == 1);
    for (size_t i = 0; i < 3; i++) {
        at_hand = at_once[i].address;
        for (int flags = 0; flags <= SOCK_NONBLOCK; flags += SOCK_NONBLOCK) {
            there(&server, at_once[i].address, argv[0]);
            memset(server.counted, 0, sizeof server.counted);
            int fd = caller_socket(&server, flags);
            CHECK(connect(fd, AT(&server)) == -1 && errno == at_once[i].error);
            close(fd);
            expect(&server, flags ? "2 neutral:local" : "1 neutral:local");
        }
    }
    at_hand = NULL;
    there(&server, "10.9.0.2", argv[0]);
    for (int i = 0; i < 3; i++)
        fds[i] = caller_connect(&server, SOCK_NONBLOCK);
    int fd = caller_socket(&server, 0);
    CHECK(connect(fd, AT(&server)) == -1 && errno == EHOSTUNREACH);
    close(fd);
    expect(&server, "1 failed:unreachable, 3 in-flight");
    for (int i = 0; i < 3; i++)
        poll_for(fds[i], POLLOUT);
    CHECK(getsockopt(fds[0], SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == EHOSTUNREACH);
    CHECK(send(fds[1], "request", 7, MSG_NOSIGNAL) == -1 && errno == EHOSTUNREACH);
    for (int i = 0; i < 3; i++)
        close(fds[i]); /* the third tells its error to nobody but the library */
    expect(&server, "3 failed:unreachable");
    return 0;
}

static void move_into_a_network(void *context)
{
    (void)context;
    if (unshare(CLONE_NEWNET) != 0 || system(set_up) != 0)
        _exit(77);
}

/* Each with circuits of its own. */
static void play_in_a_network(const char *preload, const char *port)
{
    int status = scene_run(
        "network", &(struct scene_options){.preload = preload, .arguments = {port}, .before = move_into_a_network});
    if (WEXITSTATUS(status) == 77) {
        print_message("no network namespaces here\n");
        skip();
    }
    assert_true(exited_well(status));
}

static void no_route_is_local_and_no_host_is_unreachable(void **state)
{
    (void)state;
    play_in_a_network(NULL, "80");
}

static void so_they_are_for_a_thread_that_had_to_wait_for_its_processor(void **state)
{
    char preload[2 * PATH_MAX];
    (void)state;
    snprintf(preload, sizeof preload, "%s %s", stage_library(), stage_compile("late", NULL, "-ldl"));
    play_in_a_network(preload, "81");
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {{"network", scene_network}, {NULL, NULL}};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_route_is_local_and_no_host_is_unreachable),
        cmocka_unit_test(so_they_are_for_a_thread_that_had_to_wait_for_its_processor),
    };
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
