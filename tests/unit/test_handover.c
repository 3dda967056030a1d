/*
 * test_handover.c - the way of an edited policy through the segment's file into running processes.
 */
#define _GNU_SOURCE
#include "support_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "segment/handover.h"
#include "segment/layout.h"
#include "segment/processes.h"

#define MOST (1u << 20)

static void hand_over(struct state *place, const char *text)
{
    if (!handover_write(&place->segment, text, strlen(text), &place->error))
        fail_msg("%s", place->error.text);
}

static bool reads(const struct segment *segment, const char *expected)
{
    size_t size = 0;
    bool again;
    char *bytes = handover_read(segment, MOST, &size, &again);
    bool right =
        !again && (expected != NULL ? bytes != NULL && size == strlen(expected) && memcmp(bytes, expected, size) == 0
                                    : bytes == NULL);
    if (bytes != NULL) {
        bytes[0] = 'x'; /* it is the reader's own */
        handover_free(bytes, size);
    }
    return right;
}

static void what_was_written_is_read(void **state)
{
    struct state *place = *state;
    assert_true(reads(&place->segment, NULL));
    hand_over(place, "first");
    assert_true(reads(&place->segment, "first"));
    hand_over(place, "and another one, which is longer");
    assert_true(reads(&place->segment, "and another one, which is longer"));
    assert_true(reads(&place->segment, "and another one, which is longer"));
    assert_int_equal(count_files(place->folder), 1);
    /* The segment is as good as before, for who has it and for who comes. */
    assert_true(segment_is_current(&place->segment));
    assert_true(state_attach(place));
    assert_string_equal(place->error.text, "");
    assert_true(reads(&place->segment, "and another one, which is longer"));
}

static void large_and_small_ones_in_turn_let_the_file_grow_no_further_than_they_need(void **state)
{
    struct state *place = *state;
    static const size_t sizes[] = {1, 300000, 65536, 65472, 65473, 700000, 5, 700000, 300000};
    char *text = malloc(MOST);
    off_t largest = 0;
    for (unsigned int round = 0; round < 40; round++) {
        size_t size = sizes[round % (sizeof sizes / sizeof *sizes)];
        memset(text, 'a' + (int)(round % 26), size);
        text[size] = '\0';
        hand_over(place, text);
        assert_true(reads(&place->segment, text));
        if (status_of(place->path).st_size > largest)
            largest = status_of(place->path).st_size;
    }
    assert_true((uint64_t)largest <= place->segment.size + 3 * (700000 + 65536));
    free(text);
}

static void the_number_grows_with_each_one(void **state)
{
    struct state *place = *state;
    const _Atomic uint32_t *number = handover_number(&place->segment);
    assert_int_equal(atomic_load(number), 0);
    assert_false(handover_was_since(&place->segment, 0));
    uint64_t before = clock_real_ns();
    hand_over(place, "first");
    uint64_t after = clock_real_ns();
    assert_int_equal(atomic_load(number), 1);
    assert_true(handover_was_since(&place->segment, 0));
    assert_true(handover_was_since(&place->segment, before));
    assert_false(handover_was_since(&place->segment, after + 1));
    hand_over(place, "second");
    assert_int_equal(atomic_load(number), 2);
    assert_true(handover_was_since(&place->segment, after));
}

/* As a command leaves it that is killed a moment too early. */
static void a_hand_over_that_did_not_come_to_its_end_makes_the_former_no_later(void **state)
{
    struct state *place = *state;
    hand_over(place, "first");
    uint64_t after = clock_real_ns() + 1;
    hand_over(place, "second");
    atomic_store(&place->segment.map->reloads, 1);
    assert_false(handover_was_since(&place->segment, after));
    hand_over(place, "second, once more");
    assert_true(handover_was_since(&place->segment, after));
}

static void after_the_last_number_comes_one_that_is_not_none(void **state)
{
    struct state *place = *state;
    atomic_store(&place->segment.map->reloads, UINT32_MAX);
    hand_over(place, "next");
    assert_true(reads(&place->segment, "next"));
    hand_over(place, "and next");
    assert_true(reads(&place->segment, "and next"));
}

static void an_empty_one_is_none_and_a_large_one_is_not_read(void **state)
{
    struct state *place = *state;
    size_t size;
    bool again;
    assert_false(handover_write(&place->segment, "", 0, &place->error));
    hand_over(place, "0123456789");
    assert_null(handover_read(&place->segment, 9, &size, &again));
    assert_false(again);
    void *bytes = handover_read(&place->segment, 10, &size, &again);
    assert_non_null(bytes);
    handover_free(bytes, size);
}

/* --- nothing that stands in the file harms the reader --- */

static void a_place_beyond_the_files_end_is_not_read(void **state)
{
    struct state *place = *state;
    static const uint64_t grain = SEGMENT_BASE_GRAIN;
    hand_over(place, "first");
    struct segment_header *map = place->segment.map;
    const uint64_t size = place->segment.size;
    const uint64_t wrong[] = {
        0,          1,        size - grain,        size + 1,           size + grain,
        UINT64_MAX, 1u << 31, size + 1000 * grain, UINT64_MAX - grain, (UINT64_MAX / grain) * grain,
        size + 64,  size / 2};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        atomic_store(&map->handover_at[1], wrong[i]);
        assert_true(reads(&place->segment, NULL));
    }
    atomic_store(&map->handover_at[1], size);
    assert_true(reads(&place->segment, "first"));
}

static void what_is_damaged_is_not_read(void **state)
{
    struct state *place = *state;
    hand_over(place, "some words");
    size_t at = place->segment.size;
    for (size_t byte = 0; byte < 64 + 10; byte++) {
        unsigned char before, wrong;
        int fd = open(place->path, O_RDWR | O_CLOEXEC);
        assert_int_equal(pread(fd, &before, 1, (off_t)(at + byte)), 1);
        wrong = (unsigned char)(before ^ 0x41);
        assert_int_equal(pwrite(fd, &wrong, 1, (off_t)(at + byte)), 1);
        size_t size;
        bool again, matters = byte < 12 || (byte >= 16 && byte < 32) || byte >= 64;
        void *bytes = handover_read(&place->segment, MOST, &size, &again);
        if (matters)
            assert_null(bytes);
        if (bytes != NULL)
            handover_free(bytes, size);
        assert_int_equal(pwrite(fd, &before, 1, (off_t)(at + byte)), 1);
        close(fd);
    }
    assert_true(reads(&place->segment, "some words"));
}

/* A file that ends behind its tables, though the header says that more follows. */
static void a_file_that_was_cut_behind_its_tables_harms_nobody(void **state)
{
    struct state *place = *state;
    char large[3 * SEGMENT_BASE_GRAIN];
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = '\0';
    hand_over(place, large);
    assert_int_equal(truncate(place->path, (off_t)(place->segment.size + SEGMENT_BASE_GRAIN)), 0);
    assert_true(reads(&place->segment, NULL));
    assert_int_equal(truncate(place->path, (off_t)place->segment.size), 0);
    assert_true(reads(&place->segment, NULL));
    assert_true(state_attach(place));
    hand_over(place, "again");
    assert_true(reads(&place->segment, "again"));
}

static void a_writer_that_was_killed_in_the_middle_leaves_the_former_one(void **state)
{
    struct state *place = *state;
    hand_over(place, "first");
    /* It had written all but the number; and half of it. */
    hand_over(place, "second");
    atomic_store(&place->segment.map->reloads, 1);
    assert_true(reads(&place->segment, "first"));
    change_file(place, place->segment.size + SEGMENT_BASE_GRAIN, "garbage", 7);
    assert_true(reads(&place->segment, "first"));
    hand_over(place, "third");
    assert_true(reads(&place->segment, "third"));
}

/* --- whoever has the segment mapped --- */

static void as_another_user_in_a_jail(void *context)
{
    struct state *place = context;
    CHECK(chroot("/proc/self/fdinfo") == 0 && chdir("/") == 0);
    CHECK(setgid(STATE_OTHER_USER) == 0 && setuid(STATE_OTHER_USER) == 0);
    CHECK(access(place->path, F_OK) == -1);
    CHECK(reads(&place->segment, "for all"));
}

static void whoever_gave_up_his_rights_and_his_root_reads_it(void **state)
{
    struct state *place = *state;
    if (geteuid() != 0)
        skip();
    hand_over(place, "for all");
    assert_int_equal(child_run(as_another_user_in_a_jail, place), 0);
}

static void after_the_deletion(void *context)
{
    struct state *place = context;
    CHECK(unlink(place->path) == 0);
    CHECK(reads(&place->segment, "for all"));
    CHECK(!handover_write(&place->segment, "x", 1, &place->error));
}

static void a_deleted_file_can_still_be_read_but_not_written(void **state)
{
    struct state *place = *state;
    hand_over(place, "for all");
    assert_int_equal(child_run(after_the_deletion, place), 0);
}

static void without_a_descriptor_left(void *context)
{
    struct state *place = context;
    struct rlimit none = {.rlim_cur = 0, .rlim_max = 0};
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    CHECK(reads(&place->segment, "for all"));
}

static void no_descriptor_is_needed_to_read(void **state)
{
    struct state *place = *state;
    hand_over(place, "for all");
    assert_int_equal(child_run(without_a_descriptor_left, place), 0);
}

static void in_a_small_address_space(void *context)
{
    struct state *place = context;
    struct rlimit small = {.rlim_cur = 1 << 20, .rlim_max = RLIM_INFINITY}, large = {RLIM_INFINITY, RLIM_INFINITY};
    size_t size;
    bool again = false;
    CHECK(setrlimit(RLIMIT_AS, &small) == 0);
    CHECK(handover_read(&place->segment, MOST, &size, &again) == NULL && again);
    CHECK(setrlimit(RLIMIT_AS, &large) == 0);
    CHECK(reads(&place->segment, "for all"));
}

static void without_room_in_the_address_space_it_may_be_read_later(void **state)
{
    struct state *place = *state;
    hand_over(place, "for all");
    assert_int_equal(child_run(in_a_small_address_space, place), 0);
}

static void with_all_memory_locked(void *context)
{
    struct state *place = context;
    if (mlockall(MCL_CURRENT | MCL_FUTURE) == 0)
        CHECK(reads(&place->segment, "for all"));
}

static void a_program_with_all_its_memory_locked_reads_it(void **state)
{
    struct state *place = *state;
    hand_over(place, "for all");
    assert_int_equal(child_run(with_all_memory_locked, place), 0);
}

static void a_private_segment_has_none(void **state)
{
    struct segment segment;
    struct segment_error error;
    (void)state;
    assert_true(segment_private(&segment, "x", NULL));
    assert_true(reads(&segment, NULL));
    assert_false(handover_write(&segment, "x", 1, &error));
    segment_detach(&segment);
}

/* --- what the command meets --- */

static void on_a_full_file_system(void *context)
{
    struct state *place = context;
    struct segment_error error;
    static char large[4 << 20];
    CHECK(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    CHECK(mount("none", place->parent, "tmpfs", 0, "size=13m") == 0);
    CHECK(segment_attach(&place->segment, place->folder, STATE_IDENTITY, NULL, &error));
    CHECK(handover_write(&place->segment, "first", 5, &error));
    memset(large, 'x', sizeof large);
    CHECK(!handover_write(&place->segment, large, sizeof large, &error));
    CHECK(strstr(error.text, "no space left") != NULL);
    CHECK(reads(&place->segment, "first"));
    CHECK(handover_write(&place->segment, "second", 6, &error));
    CHECK(reads(&place->segment, "second"));
}

static void a_full_disk_leaves_the_former_one(void **state)
{
    if (geteuid() != 0 || !may_unshare(CLONE_NEWNS))
        skip();
    assert_int_equal(child_run(on_a_full_file_system, *state), 0);
}

static void a_limit_of_file_sizes_leaves_the_former_one(void **state)
{
    struct state *place = *state;
    struct rlimit limit, small;
    static char large[300000];
    hand_over(place, "first");
    getrlimit(RLIMIT_FSIZE, &limit);
    small = (struct rlimit){.rlim_cur = place->segment.size, .rlim_max = limit.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    memset(large, 'x', sizeof large);
    bool written = handover_write(&place->segment, large, sizeof large, &place->error);
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_false(written);
    assert_says(&place->error, "the policy can't be handed over");
    assert_true(reads(&place->segment, "first"));
}

static void no_descriptor_stays_open(void **state)
{
    struct state *place = *state;
    unsigned int before = open_descriptors();
    hand_over(place, "first");
    assert_true(reads(&place->segment, "first"));
    assert_int_equal(open_descriptors(), before);
}

/* --- while others write --- */

enum { WRITES = 300, LENGTH = 20000, WRITERS = 3 };
static _Atomic unsigned int writing;

static void *write_again_and_again(void *context)
{
    struct state *place = context;
    struct segment_error error;
    char *text = malloc(LENGTH + 256);
    for (unsigned int i = 0; i < WRITES; i++) {
        memset(text, 'a' + (int)(i % 26), LENGTH + i % 256);
        if (!handover_write(&place->segment, text, LENGTH + i % 256, &error))
            break;
    }
    free(text);
    atomic_fetch_sub(&writing, 1);
    return NULL;
}

static void a_reader_finds_a_whole_one_while_several_write(void **state)
{
    struct state *place = *state;
    pthread_t writers[WRITERS];
    unsigned int reads_done = 0;
    hand_over(place, "zzz");
    atomic_store(&writing, WRITERS);
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&writers[i], NULL, write_again_and_again, place), 0);
    while (atomic_load(&writing) > 0) {
        size_t size;
        bool again;
        char *bytes = handover_read(&place->segment, MOST, &size, &again);
        if (bytes == NULL) {
            assert_true(again); /* they are faster */
            continue;
        }
        assert_true(size == 3 || size >= LENGTH);
        for (size_t at = 1; at < size; at++)
            assert_int_equal(bytes[at], bytes[0]);
        handover_free(bytes, size);
        reads_done++;
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(writers[i], NULL);
    assert_true(reads_done > 0);
    /* None was lost: each had a number of its own. */
    assert_int_equal(atomic_load(handover_number(&place->segment)), 1 + WRITERS * WRITES);
}

#define STATE_TEST(name) cmocka_unit_test_setup_teardown(name, state_setup_attached, state_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STATE_TEST(what_was_written_is_read),
        STATE_TEST(large_and_small_ones_in_turn_let_the_file_grow_no_further_than_they_need),
        STATE_TEST(the_number_grows_with_each_one),
        STATE_TEST(a_hand_over_that_did_not_come_to_its_end_makes_the_former_no_later),
        STATE_TEST(after_the_last_number_comes_one_that_is_not_none),
        STATE_TEST(an_empty_one_is_none_and_a_large_one_is_not_read),
        STATE_TEST(a_place_beyond_the_files_end_is_not_read),
        STATE_TEST(what_is_damaged_is_not_read),
        STATE_TEST(a_file_that_was_cut_behind_its_tables_harms_nobody),
        STATE_TEST(a_writer_that_was_killed_in_the_middle_leaves_the_former_one),
        STATE_TEST(whoever_gave_up_his_rights_and_his_root_reads_it),
        STATE_TEST(a_deleted_file_can_still_be_read_but_not_written),
        STATE_TEST(no_descriptor_is_needed_to_read),
        STATE_TEST(without_room_in_the_address_space_it_may_be_read_later),
        STATE_TEST(a_program_with_all_its_memory_locked_reads_it),
        STATE_TEST(a_private_segment_has_none),
        STATE_TEST(a_full_disk_leaves_the_former_one),
        STATE_TEST(a_limit_of_file_sizes_leaves_the_former_one),
        STATE_TEST(no_descriptor_stays_open),
        STATE_TEST(a_reader_finds_a_whole_one_while_several_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
