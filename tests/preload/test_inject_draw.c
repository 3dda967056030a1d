/*
 * test_inject_draw.c - which attempts get a fault: the same in each run, by the seed and the number of the attempt.
 */
/* links: core */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support_inject.h"

/* Makes so many attempts, and writes one letter for each. */
static int play_attempts(int argc, char **argv)
{
    struct server server;
    char word[16] = "", letters[512] = "";
    CHECK(argc == 2);
    server_at_port(&server, argv[0]);
    ((struct sockaddr_in *)&server.address)->sin_addr.s_addr = htonl(0x7f000106);
    int count = atoi(argv[1]);
    for (int i = 0; i < count; i++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        char letter = '.';
        if (connect(fd, AT(&server)) != 0)
            letter = 'r';
        else if (send(fd, request_text(), (size_t)LENGTH, MSG_NOSIGNAL) == LENGTH &&
                 recv(fd, word, 4, MSG_DONTWAIT) == 4)
            letter = 'h';
        letters[i] = letter;
        close(fd);
    }
    return printf("%s", letters) == count && fflush(stdout) == 0 ? 0 : 1;
}

static size_t letters_of(const char *letters, char letter)
{
    size_t count = 0;
    for (; *letters; letters++)
        count += *letters == letter;
    return count;
}

static void attempts(char letters[512], struct server *server, const char *run, const char *seed, int count)
{
    char number[16], variable[64];
    snprintf(number, sizeof number, "%d", count);
    snprintf(variable, sizeof variable, "SOCKFUSE_OPTIONS=inject_seed=%s", seed);
    struct scene_options options = {.environment = {run, variable},
                                    .arguments = {server_port(server), number},
                                    .output = letters,
                                    .output_size = 512};
    assert_true(exited_well(scene_run("attempts", &options)));
    assert_int_equal(strlen(letters), count);
    for (size_t left = letters_of(letters, '.'); left > 0; left--)
        bare.close(server_accept(server));
}

static void same_run_twice_gives_the_same_faults(void **state)
{
    struct server server;
    char first[512], second[512], other[512], parts[2][512];
    (void)state;
    server_start(&server, SOMETIMES, SERVER_LISTENS);
    attempts(first, &server, "SOCKFUSE_RUN=first", "7", 100);
    attempts(second, &server, "SOCKFUSE_RUN=second", "7", 100);
    assert_string_equal(first, second);
    /* And so will the next version's be: rehearsals are written down. */
    assert_memory_equal(first,
                        ".r..rrh....r.r..rr......hr....h....rr.h.........hr"
                        "rr..r.....r.......h.r.hr..hh....h.rr.r.r..r.....rh",
                        100);
    /* Without a run each process counts for itself. */
    attempts(second, &server, "SOCKFUSE_RUN", "7", 100);
    assert_string_equal(first, second);
    attempts(other, &server, "SOCKFUSE_RUN=third", "8", 100);
    assert_string_not_equal(first, other);
    /* The processes of one run count together. */
    attempts(parts[0], &server, "SOCKFUSE_RUN=fourth", "7", 40);
    attempts(parts[1], &server, "SOCKFUSE_RUN=fourth", "7", 60);
    assert_memory_equal(first, parts[0], 40);
    assert_string_equal(first + 40, parts[1]);
    /* 30 of 100 are expected; four standard deviations are 18. */
    size_t faults = letters_of(first, 'r') + letters_of(first, 'h');
    assert_true(faults > 12 && faults < 48);
    assert_true(letters_of(first, 'r') > letters_of(first, 'h'));
    server_stop(&server);
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {{"attempts", play_attempts}, {NULL, NULL}};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_run_twice_gives_the_same_faults),
    };
    stage_enter(argc, argv, inject_policy, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
