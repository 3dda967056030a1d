/*
 * test_seldom.c - a line that many processes have to say is said once a minute.
 */
#define _GNU_SOURCE
#include "support_segment.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "segment/seldom.h"

#define NOON (UINT64_C(1700000000) * NS_PER_S)
#define MINUTE (60 * NS_PER_S)

static const char *state_folder;

static const char *environment(const char *name)
{
    return strcmp(name, "SOCKFUSE_STATE") == 0 ? state_folder : NULL;
}

static bool says(const char *line, uint64_t now_ns)
{
    struct seldom seldom;
    bool due = seldom_begin(&seldom, environment, line, strlen(line), now_ns);
    if (due)
        seldom_end(&seldom, true);
    return due;
}

static int setup(void **state)
{
    int status = state_setup(state);
    state_folder = status == 0 ? ((struct state *)*state)->folder : NULL;
    return status;
}

static void a_line_is_said_again_when_a_minute_is_over(void **state)
{
    (void)state;
    assert_true(says("a", NOON));
    assert_false(says("a", NOON));
    assert_false(says("a", NOON + MINUTE - 1));
    assert_true(says("a", NOON + MINUTE));
    assert_false(says("a", NOON + MINUTE + 1));
}

static void another_line_is_another_matter(void **state)
{
    (void)state;
    assert_true(says("a", NOON));
    assert_true(says("b", NOON));
    assert_false(says("a", NOON));
    assert_false(says("b", NOON));
}

static void a_clock_that_was_set_back_silences_nobody(void **state)
{
    (void)state;
    assert_true(says("a", NOON));
    assert_true(says("a", NOON - 2 * MINUTE));
    assert_false(says("a", NOON - 2 * MINUTE));
}

/* Somebody who has no standard error does not take the line from who has. */
static void a_line_that_could_not_be_said_is_left_to_the_next(void **state)
{
    (void)state;
    struct seldom seldom;
    assert_true(seldom_begin(&seldom, environment, "a", 1, NOON));
    seldom_end(&seldom, false);
    assert_true(says("a", NOON));
    assert_false(says("a", NOON));
}

/* The oldest gives way, so that what is said over and over stays known. */
static void the_table_keeps_what_was_said_last(void **state)
{
    const struct state *place = *state;
    char line[16], path[200];
    for (unsigned int i = 0; i < 200; i++) {
        snprintf(line, sizeof line, "line %u", i);
        assert_true(says(line, NOON + i));
        assert_false(says(line, NOON + i));
        snprintf(line, sizeof line, "line %u", i >= 20 ? i - 20 : 0);
        assert_false(says(line, NOON + i));
    }
    snprintf(path, sizeof path, "%s/" SELDOM_FILE, place->folder);
    assert_int_equal(status_of(path).st_size, 512);
}

static void any_bytes_in_the_file_are_harmless(void **state)
{
    const struct state *place = *state;
    char path[200], bytes[600];
    assert_true(says("a", NOON));
    snprintf(path, sizeof path, "%s/" SELDOM_FILE, place->folder);
    srandom(1);
    for (unsigned int round = 0; round < 200; round++) {
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (char)random();
        int fd = open(path, O_WRONLY | O_TRUNC);
        assert_true(fd >= 0);
        assert_true(write(fd, bytes, (size_t)random() % sizeof bytes) >= 0);
        close(fd);
        assert_true(says("a", NOON));
        assert_false(says("a", NOON));
    }
}

static void a_link_in_its_place_is_not_followed(void **state)
{
    const struct state *place = *state;
    char path[200], victim[200];
    make_folder(place->folder, 0700);
    snprintf(path, sizeof path, "%s/" SELDOM_FILE, place->folder);
    snprintf(victim, sizeof victim, "%s/victim", place->parent);
    int fd = open(victim, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(symlink(victim, path), 0);
    says("a", NOON); /* by another place, or by none */
    assert_int_equal(status_of(victim).st_size, 0);
    unlink(path);
}

static void a_strange_umask_hinders_nobody(void **state)
{
    (void)state;
    mode_t before = umask(0777);
    bool first = says("a", NOON), second = says("a", NOON);
    umask(before);
    assert_true(first);
    assert_false(second);
}

static unsigned int descriptors(void)
{
    return count_files("/proc/self/fd");
}

static void no_descriptor_is_kept(void **state)
{
    (void)state;
    unsigned int before = descriptors();
    says("a", NOON);
    says("a", NOON);
    assert_int_equal(descriptors(), before);
}

/* Whoever comes while another one is at it has nothing to add. */
static void of_many_at_once_one_says_it(void **state)
{
    (void)state;
    enum { PROCESSES = 40 };
    int gate[2], sum = 0;
    assert_int_equal(pipe(gate), 0);
    for (unsigned int i = 0; i < PROCESSES; i++) {
        if (fork() == 0) {
            char byte;
            close(gate[1]);
            if (read(gate[0], &byte, 1) != 0)
                _exit(100);
            _exit(says("a", NOON) ? 1 : 0);
        }
    }
    close(gate[0]);
    close(gate[1]);
    for (unsigned int i = 0; i < PROCESSES; i++) {
        int status;
        assert_true(wait(&status) > 0);
        sum += WEXITSTATUS(status);
    }
    assert_int_equal(sum, 1);
}

#define FRESH(test) cmocka_unit_test_setup_teardown(test, setup, state_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(a_line_is_said_again_when_a_minute_is_over),
        FRESH(another_line_is_another_matter),
        FRESH(a_clock_that_was_set_back_silences_nobody),
        FRESH(a_line_that_could_not_be_said_is_left_to_the_next),
        FRESH(the_table_keeps_what_was_said_last),
        FRESH(any_bytes_in_the_file_are_harmless),
        FRESH(a_link_in_its_place_is_not_followed),
        FRESH(a_strange_umask_hinders_nobody),
        FRESH(no_descriptor_is_kept),
        FRESH(of_many_at_once_one_says_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
