/*
 * test_name_lookup.c - who asks for a name has nothing of the agent's but the way back. links: agent
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/name_lookup.h"

static struct ev_loop *loop;
static bool is_done;

/* Instead of libc's, in the child: an address for each descriptor above standard error. */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    static struct sockaddr_in address = {.sin_family = AF_INET};
    *found = NULL;
    (void)host, (void)service, (void)hints;
    for (int fd = STDERR_FILENO + 1; fd < 256; fd++) {
        if (fcntl(fd, F_GETFD) < 0)
            continue;
        struct addrinfo *more = calloc(1, sizeof *more);
        assert_non_null(more);
        *more =
            (struct addrinfo){.ai_addr = (struct sockaddr *)&address, .ai_addrlen = sizeof address, .ai_next = *found};
        *found = more;
    }
    return 0;
}

static void note(struct lookup *lookup)
{
    (void)lookup;
    is_done = true;
    ev_break(loop, EVBREAK_ALL);
}

static void who_asks_for_a_name_keeps_no_descriptor_of_the_agents(void **state)
{
    (void)state;
    loop = ev_default_loop(EVFLAG_NOENV);
    struct lookup lookup = {.loop = loop, .done = note};
    const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(listen(listening, 1), 0);
    assert_true(lookup_start(&lookup, "name.example", 60));
    while (!is_done)
        ev_run(loop, 0);
    assert_int_equal(lookup.count, 1); /* the pipe */
    close(listening);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_asks_for_a_name_keeps_no_descriptor_of_the_agents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
