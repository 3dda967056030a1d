/*
 * test_editions.c - the texts of the policies in force, kept behind a segment's tables.
 */
#define _GNU_SOURCE
#include "support_segment.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "segment/editions.h"
#include "segment/handover.h"
#include "segment/layout.h"
#include "segment/processes.h"

static bool has(const struct segment *segment, uint64_t revision, const char *expected)
{
    size_t length = 0;
    char *text = edition_read(segment, revision, &length);
    bool right = expected != NULL ? text != NULL && length == strlen(expected) && memcmp(text, expected, length) == 0
                                  : text == NULL;
    if (text != NULL)
        edition_free(text, length);
    return right;
}

static void what_came_into_force_is_read_by_its_revision(void **state)
{
    struct state *place = *state;
    assert_true(has(&place->segment, 7, NULL));
    assert_int_equal(editions_last(&place->segment), 0);
    editions_keep(&place->segment, 7, "[a:1]\n", true);
    editions_keep(&place->segment, 8, "[b:2]\nmode = observe\n", true);
    assert_true(has(&place->segment, 7, "[a:1]\n"));
    assert_true(has(&place->segment, 8, "[b:2]\nmode = observe\n"));
    assert_true(has(&place->segment, 9, NULL));
    assert_int_equal(editions_last(&place->segment), 8);
    /* The former one is put in force again. */
    editions_keep(&place->segment, 7, "[a:1]\n", true);
    assert_int_equal(editions_last(&place->segment), 7);
    /* Who attaches later finds them, and so does who may only read. */
    struct segment other;
    assert_true(segment_open(&other, place->path, false, &place->error));
    assert_true(has(&other, 8, "[b:2]\nmode = observe\n"));
    segment_detach(&other);
}

static void one_that_is_kept_is_not_written_again(void **state)
{
    struct state *place = *state;
    editions_keep(&place->segment, 7, "[a:1]\n", true);
    struct stat before = status_of(place->path);
    for (int i = 0; i < 100; i++)
        editions_keep(&place->segment, 7, "[a:1]\n", true);
    struct stat after = status_of(place->path);
    assert_int_equal(after.st_size, before.st_size);
    assert_int_equal(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
}

static void what_nobody_runs_goes_before_what_somebody_runs(void **state)
{
    struct state *place = *state;
    uint32_t runner = process_join(&place->segment, "runner", 100);
    editions_keep(&place->segment, 100, "in force", true);
    for (uint64_t revision = 1; revision <= 3 * EDITIONS; revision++) {
        editions_keep(&place->segment, revision, "passing", true);
        assert_true(has(&place->segment, revision, "passing"));
        assert_true(has(&place->segment, 100, "in force"));
    }
    process_leave(&place->segment, runner);
    for (uint64_t revision = 1001; revision <= 1000 + EDITIONS; revision++)
        editions_keep(&place->segment, revision, "passing", true);
    assert_true(has(&place->segment, 100, NULL));
}

static void the_file_grows_no_further_than_so_many_need(void **state)
{
    struct state *place = *state;
    char *text = malloc(150000);
    memset(text, 'x', 149999);
    off_t largest = (off_t)place->segment.size + 2 * (EDITIONS + 1) * 3 * SEGMENT_BASE_GRAIN; /* with gaps */
    for (uint64_t revision = 1; revision <= 100; revision++) {
        text[revision * 1400] = '\0';
        editions_keep(&place->segment, revision, text, true);
        assert_true(has(&place->segment, revision, text));
        assert_true(handover_write(&place->segment, text, strlen(text), &place->error));
        text[revision * 1400] = 'x';
        assert_true(status_of(place->path).st_size <= largest);
    }
    free(text);
}

static void a_handover_and_the_editions_leave_each_other_alone(void **state)
{
    struct state *place = *state;
    size_t size;
    bool again;
    editions_keep(&place->segment, 1, "one", true);
    assert_true(handover_write(&place->segment, "handed over", 11, &place->error));
    editions_keep(&place->segment, 2, "two", true);
    assert_true(handover_write(&place->segment, "once more!!", 11, &place->error));
    editions_keep(&place->segment, 3, "three", true);
    assert_true(has(&place->segment, 1, "one") && has(&place->segment, 2, "two") && has(&place->segment, 3, "three"));
    char *bytes = handover_read(&place->segment, 100, &size, &again);
    assert_non_null(bytes);
    assert_memory_equal(bytes, "once more!!", 11);
    handover_free(bytes, size);
}

static void what_is_damaged_is_not_believed(void **state)
{
    struct state *place = *state;
    struct segment_header *map = place->segment.map;
    editions_keep(&place->segment, 7, "[a:1]\n", true);
    static const uint32_t wrong[] = {1, 1000, 0x7fffffff, UINT32_MAX};
    uint32_t right = atomic_load(&map->edition_at[0]);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        atomic_store(&map->edition_at[0], wrong[i]);
        assert_true(has(&place->segment, 7, NULL));
    }
    atomic_store(&map->edition_at[0], right);
    assert_true(has(&place->segment, 7, "[a:1]\n"));
    atomic_store(&map->edition_last, 4000000000u);
    assert_int_equal(editions_last(&place->segment), 0);
    editions_keep(&place->segment, 8, "x", true); /* goes on from any number */
    assert_true(has(&place->segment, 8, "x"));
    change_file(place, place->segment.size + right * SEGMENT_BASE_GRAIN + 64, "Z", 1);
    assert_true(has(&place->segment, 7, NULL));
}

static void what_can_not_be_kept_harms_nobody(void **state)
{
    struct state *place = *state;
    struct rlimit limit, small;
    getrlimit(RLIMIT_FSIZE, &limit);
    small = (struct rlimit){.rlim_cur = place->segment.size, .rlim_max = limit.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    editions_keep(&place->segment, 7, "text", true);
    setrlimit(RLIMIT_FSIZE, &limit);
    assert_true(has(&place->segment, 7, NULL));
    editions_keep(&place->segment, 7, NULL, true);
    editions_keep(&place->segment, 7, "", true);
    assert_true(has(&place->segment, 7, NULL));
    editions_keep(&place->segment, 7, "text", false);
    assert_true(has(&place->segment, 7, "text"));
}

static void no_descriptor_stays_open(void **state)
{
    struct state *place = *state;
    unsigned int before = open_descriptors();
    editions_keep(&place->segment, 7, "text", true);
    assert_true(has(&place->segment, 7, "text"));
    assert_int_equal(open_descriptors(), before);
}

enum { STARTERS = 40 };

static void start(void *context)
{
    struct state *place = context;
    struct segment segment;
    CHECK(segment_attach(&segment, place->folder, STATE_IDENTITY, NULL, &place->error));
    editions_keep(&segment, (uint64_t)getpid() % 3 + 1, "the same text for all", true);
}

static void many_that_start_at_once_write_each_revision_once(void **state)
{
    struct state *place = *state;
    pid_t children[STARTERS];
    for (int i = 0; i < STARTERS; i++)
        children[i] = child_start(start, place);
    for (int i = 0; i < STARTERS; i++)
        assert_int_equal(child_end(children[i]), 0);
    unsigned int kept = 0;
    for (unsigned int i = 0; i < EDITIONS; i++)
        kept += atomic_load(&place->segment.map->edition_revision[i]) != 0;
    assert_in_range(kept, 1, 3);
}

#define STATE_TEST(name) cmocka_unit_test_setup_teardown(name, state_setup_attached, state_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STATE_TEST(what_came_into_force_is_read_by_its_revision),
        STATE_TEST(one_that_is_kept_is_not_written_again),
        STATE_TEST(what_nobody_runs_goes_before_what_somebody_runs),
        STATE_TEST(the_file_grows_no_further_than_so_many_need),
        STATE_TEST(a_handover_and_the_editions_leave_each_other_alone),
        STATE_TEST(what_is_damaged_is_not_believed),
        STATE_TEST(what_can_not_be_kept_harms_nobody),
        STATE_TEST(no_descriptor_stays_open),
        STATE_TEST(many_that_start_at_once_write_each_revision_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
