/*
 * test_names.c - targets named by host: each function of the resolver, in any thread, and hosts with two addresses.
 *
 * The names stand in a hosts file that is put over /etc/hosts in a mount namespace of the test's own.
 */
/* links: core */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "support.h"

static const char names_policy[] =
    "[one]\nmatch = one.test:*\n"
    "[two]\nmatch = two.test:*\nfailure_threshold = 3\nreset_timeout = 1h\nreset_timeout_max = 1h\n"
    "[suffix]\nmatch = *.suffix.test:*\n"
    "[six]\nmatch = six.test:*\n";
static const char hosts[] = "127.0.0.1 localhost\n"
                            "127.0.0.1 one.test other.test a.suffix.test\n"
                            "127.0.0.2 two.test\n"
                            "127.0.0.3 two.test\n"
                            "::1 six.test\n";

static void name_server(struct server *server, const char *name)
{
    snprintf(server->destination, sizeof server->destination, "%s:%s", name, server_port(server));
}

static struct in_addr by_getaddrinfo(const char *name)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *list;
    CHECK(getaddrinfo(name, "80", &hints, &list) == 0);
    struct in_addr address = ((struct sockaddr_in *)list->ai_addr)->sin_addr;
    freeaddrinfo(list);
    return address;
}
static struct in_addr address_of(const struct hostent *entry)
{
    struct in_addr address;
    CHECK(entry != NULL && entry->h_addrtype == AF_INET);
    memcpy(&address, entry->h_addr_list[0], sizeof address);
    return address;
}
static struct in_addr by_gethostbyname(const char *name)
{
    return address_of(gethostbyname(name));
}
static struct in_addr by_gethostbyname2(const char *name)
{
    return address_of(gethostbyname2(name, AF_INET));
}
static struct in_addr by_gethostbyname_r(const char *name)
{
    struct hostent entry, *found = NULL;
    char buffer[1024];
    int error;
    CHECK(gethostbyname_r(name, &entry, buffer, sizeof buffer, &found, &error) == 0);
    return address_of(found);
}
static struct in_addr by_gethostbyname2_r(const char *name)
{
    struct hostent entry, *found = NULL;
    char buffer[1024];
    int error;
    CHECK(gethostbyname2_r(name, AF_INET, &entry, buffer, sizeof buffer, &found, &error) == 0);
    return address_of(found);
}

typedef struct in_addr resolve_fn(const char *name);

static const struct resolver {
    const char *name;
    resolve_fn *resolve;
} resolvers[] = {{"getaddrinfo", by_getaddrinfo},
                 {"gethostbyname", by_gethostbyname},
                 {"gethostbyname2", by_gethostbyname2},
                 {"gethostbyname_r", by_gethostbyname_r},
                 {"gethostbyname2_r", by_gethostbyname2_r}};
#define RESOLVERS (sizeof resolvers / sizeof *resolvers)
/* Which of them, as a scene is told it in an argument. */
static const char *const numbers[] = {"0", "1", "2", "3", "4"};
_Static_assert(sizeof numbers / sizeof *numbers == RESOLVERS, "a number for each");

static const struct resolver *resolver_of(char **argv)
{
    const struct resolver *resolver = &resolvers[atoi(argv[0])];
    CHECK(resolver < resolvers + RESOLVERS);
    at_hand = resolver->name;
    return resolver;
}

struct question {
    resolve_fn *resolve;
    const char *name;
};

static void *resolve_in_thread(void *context)
{
    const struct question *question = context;
    struct in_addr *answer = malloc(sizeof *answer);
    *answer = question->resolve(question->name);
    return answer;
}

/* Resolves in another thread, connects in this one. */
static void refused_by_name(struct server *server, resolve_fn *resolve, const char *name)
{
    struct question question = {resolve, name};
    struct in_addr *answer = NULL;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, resolve_in_thread, &question) == 0 &&
          pthread_join(thread, (void **)&answer) == 0);
    CHECK(answer->s_addr == htonl(INADDR_LOOPBACK));
    free(answer);
    int fd = caller_socket(server, 0);
    CHECK(connect(fd, AT(server)) == -1 && errno == ECONNREFUSED);
    close(fd);
}

/* Which function: a process each, for what one has noted must not serve the next. */
static int scene_resolve(int argc, char **argv)
{
    struct server server;
    resolve_fn *resolve = resolver_of(argv)->resolve;
    (void)argc;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    /* Not resolved by that name: nobody's. */
    int fd = caller_socket(&server, 0);
    CHECK(connect(fd, AT(&server)) == -1);
    close(fd);
    name_server(&server, "one.test");
    expect(&server, "nothing");
    refused_by_name(&server, resolve, "other.test");
    expect(&server, "nothing");
    refused_by_name(&server, resolve, "one.test");
    expect(&server, "1 failed:refused");
    /* Case and a final dot do not matter; the destination is written one way. */
    refused_by_name(&server, resolve, "ONE.test");
    expect(&server, "1 failed:refused");
    struct server suffixed = server;
    name_server(&suffixed, "a.suffix.test");
    memset(suffixed.counted, 0, sizeof suffixed.counted);
    refused_by_name(&server, resolve, "a.suffix.test");
    expect(&suffixed, "1 failed:refused"); /* on the same address: meant is the name that was asked for last */
    expect(&server, "nothing");
    server_stop(&server);
    return 0;
}

/* The same port on both addresses of two.test: `first` is 127.0.0.2, `second` 127.0.0.3. */
static void start_two(struct server *first, enum server_kind first_kind, struct server *second,
                      enum server_kind second_kind)
{
    for (int tries = 0; tries < 50; tries++) {
        server_start(first, "127.0.0.2", first_kind);
        memset(second, 0, sizeof *second);
        second->address = first->address;
        second->length = first->length;
        struct sockaddr_in *address = (struct sockaddr_in *)&second->address;
        address->sin_addr.s_addr = inet_addr("127.0.0.3");
        second->fd = bare.socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (bind(second->fd, AT(second)) == 0) {
            CHECK(second_kind == SERVER_REFUSES || listen(second->fd, 128) == 0);
            name_server(first, "two.test");
            name_server(second, "two.test");
            return;
        }
        bare.close(second->fd);
        server_stop(first);
    }
    fprintf(stderr, "no port is free on both addresses\n");
    _exit(1);
}

static void answer_call(struct server *server, int fd)
{
    char byte;
    int peer = server_accept(server);
    CHECK(bare.send(peer, "a", 1, 0) == 1);
    CHECK(recv(fd, &byte, 1, 0) == 1);
    close(fd);
    bare.close(peer);
}

/* --- IPv6 --- */

static void six_by_getaddrinfo(void)
{
    struct addrinfo hints = {.ai_family = AF_INET6, .ai_socktype = SOCK_STREAM}, *list;
    CHECK(getaddrinfo("six.test", "80", &hints, &list) == 0 && list->ai_family == AF_INET6);
    freeaddrinfo(list);
}
static void six_by_gethostbyname2(void)
{
    const struct hostent *entry = gethostbyname2("six.test", AF_INET6);
    CHECK(entry != NULL && entry->h_addrtype == AF_INET6);
}
static void six_by_gethostbyname2_r(void)
{
    struct hostent entry, *found = NULL;
    char buffer[1024];
    int error;
    CHECK(gethostbyname2_r("six.test", AF_INET6, &entry, buffer, sizeof buffer, &found, &error) == 0 && found);
}

static void (*const resolve_six[])(void) = {six_by_getaddrinfo, six_by_gethostbyname2, six_by_gethostbyname2_r};
#define SIXES (sizeof resolve_six / sizeof *resolve_six)

static int scene_six(int argc, char **argv)
{
    struct server server;
    size_t which = (size_t)atoi(argv[0]);
    (void)argc;
    CHECK(which < SIXES);
    server_start(&server, "::1", SERVER_REFUSES);
    int fd = caller_socket(&server, 0);
    CHECK(connect(fd, AT(&server)) == -1 && errno == ECONNREFUSED);
    snprintf(server.destination, sizeof server.destination, "six.test:%d",
             ntohs(((struct sockaddr_in6 *)&server.address)->sin6_port));
    expect(&server, "nothing");
    resolve_six[which]();
    CHECK(connect(fd, AT(&server)) == -1 && errno == ECONNREFUSED);
    expect(&server, "1 failed:refused");
    close(fd);
    server_stop(&server);
    return 0;
}

/* --- several addresses --- */

/* As Python, psql and most others do: in turn. */
static int scene_in_turn(int argc, char **argv)
{
    struct server dead, alive;
    resolve_fn *resolve = resolver_of(argv)->resolve;
    (void)argc;
    start_two(&dead, SERVER_REFUSES, &alive, SERVER_LISTENS);
    for (int i = 0; i < 50; i++) {
        resolve("two.test");
        int fd = caller_socket(&dead, 0);
        CHECK(connect(fd, AT(&dead)) == -1 && errno == ECONNREFUSED);
        close(fd);
        fd = caller_connect(&alive, 0);
        answer_call(&alive, fd);
    }
    CHECK(counted(&alive, COUNT_SUCCEEDED) == 50);
    CHECK(counted(&alive, COUNT_FAILED) == 0 && counted(&alive, COUNT_OPENED) == 0 &&
          counted(&alive, COUNT_REFUSED) == 0);
    server_stop(&alive);
    server_stop(&dead);

    /* Both dead: it opens, and is refused on both. */
    start_two(&dead, SERVER_REFUSES, &alive, SERVER_REFUSES);
    for (int i = 0; i < 10; i++) {
        resolve("two.test");
        for (int j = 0; j < 2; j++) {
            int fd = caller_socket(&dead, 0);
            CHECK(connect(fd, AT(j ? &alive : &dead)) == -1 && errno == ECONNREFUSED);
            close(fd);
        }
    }
    CHECK(counted(&alive, COUNT_OPENED) == 1 && counted(&alive, COUNT_REFUSED) > 10);
    return 0;
}

/* As curl and node do: side by side, and the loser is closed. */
static int scene_side_by_side(int argc, char **argv)
{
    struct server hole, alive;
    (void)argc, (void)argv;
    start_two(&hole, SERVER_BLACK_HOLE, &alive, SERVER_LISTENS);
    for (int i = 0; i < 5; i++) {
        by_getaddrinfo("two.test");
        int loser = caller_connect(&hole, SOCK_NONBLOCK);
        wait_ms(10);
        int winner = caller_connect(&alive, SOCK_NONBLOCK);
        poll_for(winner, POLLOUT);
        if (i % 2) {
            int error = -1;
            socklen_t length = sizeof error;
            CHECK(getsockopt(winner, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0);
        }
        close(loser);
        int peer = server_accept(&alive);
        char byte;
        CHECK(bare.send(peer, "a", 1, 0) == 1);
        poll_for(winner, POLLIN);
        CHECK(recv(winner, &byte, 1, 0) == 1);
        close(winner);
        bare.close(peer);
    }
    expect(&alive, "5 succeeded, 5 neutral:sibling");
    return 0;
}

/* --- --- */

static void see_other_hosts(void *context)
{
    const char *file = stage_file("hosts", hosts);
    (void)context;
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount(file, "/etc/hosts", NULL, MS_BIND, NULL) != 0)
        _exit(77);
}

static int play(const char *scene, const char *argument)
{
    int status = scene_run(
        scene, &(struct scene_options){.policy = names_policy, .before = see_other_hosts, .arguments = {argument}});
    if ((status >> 8 & 0xff) == 77) {
        print_message("no mount namespaces here\n");
        skip();
    }
    return status;
}

static void names_are_known_from_each_function_and_thread(void **state)
{
    (void)state;
    for (size_t i = 0; i < RESOLVERS; i++)
        assert_true(exited_well(play("resolve", numbers[i])));
}

static void names_of_ipv6_addresses_are_known_too(void **state)
{
    (void)state;
    for (size_t i = 0; i < SIXES; i++)
        assert_true(exited_well(play("six", numbers[i])));
}

static void dead_address_beside_a_living_one_keeps_the_circuit_closed(void **state)
{
    (void)state;
    for (size_t i = 0; i < RESOLVERS; i++)
        assert_true(exited_well(play("in-turn", numbers[i])));
}

static void losers_of_a_race_are_no_failures(void **state)
{
    (void)state;
    assert_true(exited_well(play("side-by-side", NULL)));
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {{"resolve", scene_resolve},
                                          {"in-turn", scene_in_turn},
                                          {"side-by-side", scene_side_by_side},
                                          {"six", scene_six},
                                          {NULL, NULL}};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_known_from_each_function_and_thread),
        cmocka_unit_test(names_of_ipv6_addresses_are_known_too),
        cmocka_unit_test(dead_address_beside_a_living_one_keeps_the_circuit_closed),
        cmocka_unit_test(losers_of_a_race_are_no_failures),
    };
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
