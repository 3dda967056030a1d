/*
 * test_view_cascade.c - where a cascade ends, that a circle is found, and which part of it has to do with a place.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The command's parts are no library: a test that needs one brings it in as it is. */
#include "view/cascade_root.c"
#include "view/output.c"
#include "view/message.c" /* the last one: others mean its functions, and it libc's */

void cascade_add(struct cascade_sum *sum, const struct cascade_sum *more)
{
    sum->calls += more->calls;
    if (more->oldest_ns > sum->oldest_ns)
        sum->oldest_ns = more->oldest_ns;
}

#define NOBODY CASCADE_NONE
enum { FRONT, APP, STORE, JOB, GROUPS };             /* groups */
enum { TO_APP, TO_STORE, TO_DISK, TO_MAIL, PLACES }; /* places */

/* Each place is called by its letter; who serves it stands beside. */
static struct cascade_place places[PLACES];
static struct cascade_group groups[GROUPS];
static struct cascade_wait waits[8];

static struct cascade scene(void)
{
    static const size_t served[PLACES] = {APP, STORE, NOBODY, NOBODY};
    static const char *names[PLACES] = {"app", "store", "disk", "mail"};

    for (size_t i = 0; i < PLACES; i++)
        places[i] = (struct cascade_place){
            .destination = names[i], .targets = &names[i], .target_count = 1, .group = served[i]};
    return (struct cascade){
        .groups = groups, .places = places, .waits = waits, .group_count = GROUPS, .place_count = PLACES};
}

static void add_wait(struct cascade *cascade, size_t group, size_t place, size_t calls, uint64_t oldest_ns)
{
    cascade->waits[cascade->wait_count++] =
        (struct cascade_wait){.group = group, .place = place, .sum = {.calls = calls, .oldest_ns = oldest_ns}};
}

static void the_root_is_where_the_chain_ends_and_all_who_wait_are_counted(void **state)
{
    struct cascade cascade = scene();

    (void)state;
    add_wait(&cascade, FRONT, TO_APP, 8, 90);
    add_wait(&cascade, APP, TO_STORE, 4, 80);
    add_wait(&cascade, STORE, TO_DISK, 2, 70);
    add_wait(&cascade, JOB, TO_MAIL, 9, 95);
    cascade_find_root(&cascade);
    assert_int_equal(cascade.root, TO_DISK);
    assert_int_equal(cascade.root_sum.calls, 14);
    assert_int_equal(cascade.root_sum.oldest_ns, 90);
    assert_int_equal(cascade.root_programs, 3);
    assert_int_equal(cascade.other_roots, 1);
    size_t count;
    assert_null(cascade_circle(&cascade, &count));
}

static void a_program_that_is_seen_to_wait_for_nobody_is_a_root(void **state)
{
    struct cascade cascade = scene();

    (void)state;
    add_wait(&cascade, FRONT, TO_APP, 1, 9);
    cascade_find_root(&cascade);
    assert_int_equal(cascade.root, TO_APP);
    assert_int_equal(cascade.root_programs, 1);
}

static void of_roots_that_as_many_wait_for_it_is_the_one_for_which_somebody_waits_longest(void **state)
{
    (void)state;
    for (uint64_t older = 0; older < 2; older++) {
        struct cascade cascade = scene();
        add_wait(&cascade, APP, TO_DISK, 2, 70 + 2 * older);
        add_wait(&cascade, JOB, TO_MAIL, 2, 71);
        cascade_find_root(&cascade);
        assert_int_equal(cascade.root, older ? TO_DISK : TO_MAIL);
        assert_int_equal(cascade.root_sum.oldest_ns, older ? 72 : 71);
        assert_int_equal(cascade.other_roots, 1);
    }
}

static void who_waits_in_a_circle_has_no_root_and_is_named(void **state)
{
    struct cascade cascade = scene();
    size_t count;

    (void)state;
    places[TO_DISK].group = APP;
    add_wait(&cascade, FRONT, TO_APP, 1, 9);
    add_wait(&cascade, APP, TO_STORE, 1, 8);
    add_wait(&cascade, STORE, TO_DISK, 1, 7);
    cascade_find_root(&cascade);
    assert_int_equal(cascade.root, CASCADE_NONE);
    size_t *circle = cascade_circle(&cascade, &count);
    assert_int_equal(count, 3);
    assert_int_equal(circle[0], APP);
    assert_int_equal(circle[1], STORE);
    assert_int_equal(circle[2], APP);
    free(circle);
}

/* A host has both: the circle is found past a program that waits for nobody. */
static void a_circle_is_found_past_those_who_wait_for_nobody(void **state)
{
    struct cascade cascade = scene();
    size_t count;

    (void)state;
    places[TO_DISK].group = APP;
    places[TO_MAIL].group = JOB;
    add_wait(&cascade, APP, TO_MAIL, 1, 9);
    add_wait(&cascade, APP, TO_STORE, 1, 8);
    add_wait(&cascade, STORE, TO_DISK, 1, 7);
    size_t *circle = cascade_circle(&cascade, &count);
    assert_non_null(circle);
    assert_int_equal(count, 3);
    free(circle);
}

static void a_part_is_who_waits_for_a_place_and_for_whom_it_waits(void **state)
{
    struct cascade cascade = scene();
    const struct cascade_wish store = {"store", "store"}, mail = {"mail", "mail"}, all = {.text = NULL};

    (void)state;
    add_wait(&cascade, FRONT, TO_APP, 1, 9);
    add_wait(&cascade, FRONT, TO_MAIL, 1, 9);
    add_wait(&cascade, APP, TO_STORE, 1, 8);
    add_wait(&cascade, STORE, TO_DISK, 1, 7);
    cascade_find_root(&cascade);
    cascade_narrow(&cascade, &all);
    assert_int_equal(cascade.wait_count, 4);
    cascade_narrow(&cascade, &store);
    assert_int_equal(cascade.wait_count, 3);
    assert_int_equal(cascade.root, TO_DISK);
    assert_int_equal(cascade.other_roots, 0);
    cascade_narrow(&cascade, &mail);
    assert_int_equal(cascade.wait_count, 0);
    assert_int_equal(cascade.root, CASCADE_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_root_is_where_the_chain_ends_and_all_who_wait_are_counted),
        cmocka_unit_test(a_program_that_is_seen_to_wait_for_nobody_is_a_root),
        cmocka_unit_test(of_roots_that_as_many_wait_for_it_is_the_one_for_which_somebody_waits_longest),
        cmocka_unit_test(who_waits_in_a_circle_has_no_root_and_is_named),
        cmocka_unit_test(a_circle_is_found_past_those_who_wait_for_nobody),
        cmocka_unit_test(a_part_is_who_waits_for_a_place_and_for_whom_it_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
