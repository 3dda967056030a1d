/*
 * test_handover.c - the file beside the segment by which an edited policy comes into running processes.
 */
#include "support_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "segment/clock.h"
#include "segment/handover.h"
#include "segment/layout.h"
#include "segment/process.h"

#define MOST 65536u

static const char *file_of(const struct state *place)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%.*s.policy", (int)(strlen(place->path) - strlen(".segment")), place->path);
    return path;
}

static void hand_over(struct state *place, const char *text)
{
    if (!handover_write(&place->segment, text, strlen(text), &place->error))
        fail_msg("%s", place->error.text);
}

static void assert_reads(const struct state *place, const char *expected)
{
    size_t size = 0;
    bool again;
    char *bytes = handover_read(&place->segment, MOST, &size, &again);
    assert_false(again); /* what is no good stays so */
    if (expected == NULL) {
        assert_null(bytes);
        return;
    }
    assert_non_null(bytes);
    assert_int_equal(size, strlen(expected));
    assert_memory_equal(bytes, expected, size);
    bytes[0] = 'x'; /* it is the reader's own */
    handover_free(bytes, size);
}

static void what_was_written_is_read(void **state)
{
    struct state *place = *state;
    assert_reads(place, NULL);
    hand_over(place, "first");
    assert_reads(place, "first");
    hand_over(place, "and another one, which is longer");
    assert_reads(place, "and another one, which is longer");
    assert_reads(place, "and another one, which is longer");
    assert_int_equal(status_of(file_of(place)).st_mode & 07777, 0600);
    assert_int_equal(count_files(place->folder), 2); /* nothing is left over */
}

static void it_is_the_users_alone_whatever_the_umask(void **state)
{
    struct state *place = *state;
    mode_t before = umask(0777);
    hand_over(place, "first");
    umask(0);
    hand_over(place, "second");
    umask(before);
    assert_int_equal(status_of(file_of(place)).st_mode & 07777, 0600);
    assert_reads(place, "second");
}

static void the_number_grows_with_each_announcement(void **state)
{
    struct state *place = *state;
    const _Atomic uint32_t *number = handover_number(&place->segment);
    assert_int_equal(atomic_load(number), 0);
    assert_false(handover_was_since(&place->segment, 0));
    uint64_t before = clock_real_ns();
    handover_announce(&place->segment);
    uint64_t after = clock_real_ns();
    assert_int_equal(atomic_load(number), 1);
    assert_true(handover_was_since(&place->segment, 0));
    assert_true(handover_was_since(&place->segment, before));
    assert_false(handover_was_since(&place->segment, after + 1));
    handover_announce(&place->segment);
    assert_int_equal(atomic_load(number), 2);
    assert_true(handover_was_since(&place->segment, after));
}

static void what_is_not_ours_alone_is_not_read(void **state)
{
    struct state *place = *state;
    hand_over(place, "first");
    assert_int_equal(chmod(file_of(place), 0620), 0);
    assert_reads(place, NULL);
    assert_int_equal(chmod(file_of(place), 0602), 0);
    assert_reads(place, NULL);
    assert_int_equal(chmod(file_of(place), 0600), 0);
    assert_reads(place, "first");
    if (geteuid() == 0) {
        assert_int_equal(chown(file_of(place), STATE_OTHER_USER, STATE_OTHER_USER), 0);
        assert_reads(place, NULL);
        assert_int_equal(chown(file_of(place), 0, 0), 0);
    }
    assert_int_equal(unlink(file_of(place)), 0);
    assert_int_equal(symlink("/etc/passwd", file_of(place)), 0);
    assert_reads(place, NULL);
    assert_int_equal(unlink(file_of(place)), 0);
    assert_int_equal(mkdir(file_of(place), 0700), 0);
    assert_reads(place, NULL);
    assert_false(handover_write(&place->segment, "x", 1, &place->error));
    assert_says(&place->error, "the policy can't be handed over");
    assert_int_equal(rmdir(file_of(place)), 0);
    assert_int_equal(mkfifo(file_of(place), 0600), 0); /* nobody waits for a writer */
    assert_reads(place, NULL);
    assert_int_equal(unlink(file_of(place)), 0);
    assert_int_equal(count_files(place->folder), 1);
}

static void one_that_is_empty_or_too_large_is_not_read(void **state)
{
    struct state *place = *state;
    size_t size;
    bool again;
    hand_over(place, "");
    assert_reads(place, NULL);
    hand_over(place, "0123456789");
    assert_null(handover_read(&place->segment, 9, &size, &again));
    void *bytes = handover_read(&place->segment, 10, &size, &again);
    assert_non_null(bytes);
    handover_free(bytes, size);
}

/* What was copied stays, whatever becomes of the file. */
static void a_file_that_is_cut_short_later_harms_nobody(void **state)
{
    struct state *place = *state;
    size_t size;
    bool again;
    hand_over(place, "first");
    char *bytes = handover_read(&place->segment, MOST, &size, &again);
    assert_int_equal(truncate(file_of(place), 0), 0);
    assert_memory_equal(bytes, "first", size);
    handover_free(bytes, size);
}

static void a_full_disk_leaves_the_former_one(void **state)
{
    struct state *place = *state;
    struct rlimit limit, small;
    static char large[100000];
    hand_over(place, "first");
    getrlimit(RLIMIT_FSIZE, &limit);
    small = (struct rlimit){.rlim_cur = 4096, .rlim_max = limit.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    memset(large, 'x', sizeof large);
    bool written = handover_write(&place->segment, large, sizeof large, &place->error);
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, handler);
    assert_false(written);
    assert_says(&place->error, "the policy can't be handed over");
    assert_reads(place, "first");
    assert_int_equal(count_files(place->folder), 2);
}

static void a_private_segment_has_no_file(void **state)
{
    struct segment segment;
    struct segment_error error;
    size_t size;
    bool again;
    (void)state;
    assert_true(segment_private(&segment, "x", NULL));
    assert_null(handover_read(&segment, MOST, &size, &again));
    assert_false(handover_write(&segment, "x", 1, &error));
    segment_detach(&segment);
}

/* The process's limit of descriptors, so that none is left. */
static struct rlimit starve(void)
{
    struct rlimit limit, none;
    getrlimit(RLIMIT_NOFILE, &limit);
    none = (struct rlimit){.rlim_cur = 3, .rlim_max = limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    return limit;
}

static void without_a_descriptor_left_it_may_be_read_again(void **state)
{
    struct state *place = *state;
    size_t size;
    bool again = false;
    hand_over(place, "first");
    struct rlimit limit = starve();
    void *bytes = handover_read(&place->segment, MOST, &size, &again);
    setrlimit(RLIMIT_NOFILE, &limit);
    assert_null(bytes);
    assert_true(again);
    assert_reads(place, "first");
}

static void no_descriptor_stays_open(void **state)
{
    struct state *place = *state;
    bool again;
    unsigned int before = open_descriptors();
    hand_over(place, "first");
    assert_reads(place, "first");
    assert_null(handover_read(&place->segment, 2, &(size_t){0}, &again));
    assert_int_equal(open_descriptors(), before);
}

/* --- while others write --- */

enum { WRITES = 300, LENGTH = 20000 };
static _Atomic bool stops;

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
    atomic_store(&stops, true);
    return NULL;
}

static void a_reader_finds_one_whole_file_while_it_is_replaced(void **state)
{
    struct state *place = *state;
    pthread_t writer;
    unsigned int reads = 0;
    hand_over(place, "zzz");
    atomic_store(&stops, false);
    assert_int_equal(pthread_create(&writer, NULL, write_again_and_again, place), 0);
    while (!atomic_load(&stops)) {
        size_t size;
        bool again;
        char *bytes = handover_read(&place->segment, MOST, &size, &again);
        assert_non_null(bytes);
        assert_true(size == 3 || size >= LENGTH);
        for (size_t i = 1; i < size; i++)
            assert_true(bytes[i] == bytes[0]);
        handover_free(bytes, size);
        reads++;
    }
    pthread_join(writer, NULL);
    assert_true(reads > 0);
}

static void write_for_ever(void *context)
{
    struct state *place = context;
    struct segment_error error;
    static char text[1 << 20];
    for (unsigned char byte = 'a';; byte = byte < 'z' ? byte + 1 : 'a') {
        memset(text, byte, sizeof text);
        handover_write(&place->segment, text, 50000, &error);
    }
}

static void a_writer_that_is_killed_leaves_a_whole_file(void **state)
{
    struct state *place = *state;
    hand_over(place, "zzz");
    for (unsigned int i = 0; i < 30; i++) {
        size_t size;
        bool again;
        pid_t child = child_start(write_for_ever, place);
        usleep(1000 + i * 300); /* any instant will do */
        child_kill(child);
        char *bytes = handover_read(&place->segment, MOST, &size, &again);
        assert_non_null(bytes);
        assert_true(size == 3 || size == 50000);
        for (size_t at = 1; at < size; at++)
            assert_true(bytes[at] == bytes[0]);
        handover_free(bytes, size);
    }
    hand_over(place, "at last");
    assert_reads(place, "at last");
}

/* --- what processes run --- */

static void a_process_tells_what_it_runs_and_whether_it_keeps_it(void **state)
{
    struct state *place = *state;
    struct process_view view;
    uint32_t holder = process_join(&place->segment, "bench", 7);
    assert_true(process_describe(&place->segment, holder, &view));
    assert_int_equal(view.revision, 7);
    assert_false(view.keeps_policy);
    process_runs(&place->segment, holder, 8, true);
    assert_true(process_describe(&place->segment, holder, &view));
    assert_int_equal(view.revision, 8);
    assert_true(view.keeps_policy);
    process_leave(&place->segment, holder);
    process_runs(&place->segment, holder, 9, true);           /* nobody's any more */
    process_runs(&place->segment, 0, 9, true);
    process_runs(&place->segment, UINT32_MAX, 9, true);
    uint32_t next = process_join(&place->segment, "bench", 10); /* takes the place, not what the former one said */
    assert_true(process_describe(&place->segment, next, &view));
    assert_int_equal(view.revision, 10);
    assert_false(view.keeps_policy);
    process_leave(&place->segment, next);
}

#define STATE_TEST(name) cmocka_unit_test_setup_teardown(name, state_setup_attached, state_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STATE_TEST(what_was_written_is_read),
        STATE_TEST(it_is_the_users_alone_whatever_the_umask),
        STATE_TEST(the_number_grows_with_each_announcement),
        STATE_TEST(what_is_not_ours_alone_is_not_read),
        STATE_TEST(one_that_is_empty_or_too_large_is_not_read),
        STATE_TEST(a_file_that_is_cut_short_later_harms_nobody),
        STATE_TEST(a_full_disk_leaves_the_former_one),
        cmocka_unit_test(a_private_segment_has_no_file),
        STATE_TEST(without_a_descriptor_left_it_may_be_read_again),
        STATE_TEST(no_descriptor_stays_open),
        STATE_TEST(a_reader_finds_one_whole_file_while_it_is_replaced),
        STATE_TEST(a_writer_that_is_killed_leaves_a_whole_file),
        STATE_TEST(a_process_tells_what_it_runs_and_whether_it_keeps_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
