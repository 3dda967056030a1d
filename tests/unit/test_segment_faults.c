/*
 * test_segment_faults.c - files and folders that are wrong: replaced where they are ours, refused where they are not.
 *
 * Most wrong files are made from a good one by a small change. Tests that need another user are skipped unless root
 * runs them.
 */
#define _GNU_SOURCE
#include "support_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "segment/file.h"
#include "segment/layout.h"

/* --- files that are wrong ----------------------------------------------------------------------------------------- */

struct fault {
    const char *name, *why;
    void (*make)(struct state *place);
};

static void make_empty(struct state *place)
{
    assert_int_equal(truncate(place->path, 0), 0);
}

static void make_zero(struct state *place)
{
    make_empty(place);
    assert_int_equal(truncate(place->path, (off_t)place->segment.size), 0);
}

static void make_old(struct state *place)
{
    uint32_t version = SEGMENT_VERSION + 1;
    change_file(place, offsetof(struct segment_stamp, version), &version, sizeof version);
}

static void make_other_size(struct state *place)
{
    uint64_t size = place->segment.size - 64;
    change_file(place, offsetof(struct segment_stamp, size), &size, sizeof size);
}

/* Of one capacity more than the file has room for; and of one that nothing can have. */
static void make_larger_inside(struct state *place)
{
    uint32_t circuits = place->segment.capacity.circuits + 1000;
    change_file(place, offsetof(struct segment_stamp, capacity.circuits), &circuits, sizeof circuits);
}

static void make_endless_inside(struct state *place)
{
    const uint32_t calls = UINT32_MAX;
    change_file(place, offsetof(struct segment_stamp, capacity.calls), &calls, sizeof calls);
}

static void make_empty_inside(struct state *place)
{
    const struct capacity none = {0};
    change_file(place, offsetof(struct segment_stamp, capacity), &none, sizeof none);
}

/* Its capacities and its size agree, and the file ends before. */
static void make_larger_outside(struct state *place)
{
    struct capacity capacity = place->segment.capacity;
    capacity.events += 100000;
    uint64_t size = layout_measure(&capacity).size;
    change_file(place, offsetof(struct segment_stamp, capacity), &capacity, sizeof capacity);
    change_file(place, offsetof(struct segment_stamp, size), &size, sizeof size);
}

static void make_endless_boot(struct state *place)
{
    char bytes[BOOT_ID_SIZE];
    memset(bytes, 'x', sizeof bytes);
    change_file(place, offsetof(struct segment_stamp, boot_id), bytes, sizeof bytes);
}

static void make_other_policy(struct state *place)
{
    change_file(place, offsetof(struct segment_header, identity), "/etc/other.policy", 18);
}

static void make_endless_identity(struct state *place)
{
    static char bytes[SEGMENT_IDENTITY_MAX];
    memset(bytes, 'x', sizeof bytes);
    change_file(place, offsetof(struct segment_header, identity), bytes, sizeof bytes);
}

static void make_random(struct state *place)
{
    static unsigned char bytes[1 << 20];
    srandom(7);
    for (size_t at = 0; at < sizeof bytes; at++)
        bytes[at] = (unsigned char)random();
    change_file(place, 0, bytes, sizeof bytes);
}

static const struct fault faults[] = {
    {"cut short", "wrong size", make_short},
    {"empty", "wrong size", make_empty},
    {"all zero", "no segment", make_zero},
    {"foreign", "no segment", make_foreign},
    {"of another version", "another version", make_old},
    {"of another layout", "capacities are damaged", make_other_size},
    {"with more circuits than it has room for", "capacities are damaged", make_larger_inside},
    {"with calls without end", "capacities are damaged", make_endless_inside},
    {"with no room for anything", "capacities are damaged", make_empty_inside},
    {"that ends before its tables do", "wrong size", make_larger_outside},
    {"of another boot", "before the last boot", make_other_boot},
    {"with a boot id without an end", "before the last boot", make_endless_boot},
    {"of another policy", "another policy", make_other_policy},
    {"with an identity without an end", "another policy", make_endless_identity},
    {"random bytes", "no segment", make_random},
    {"with a second name", "second name", make_linked},
};
#define FAULTS (sizeof faults / sizeof faults[0])

static void a_bad_file_of_ours_is_replaced_once(void **state)
{
    struct state *place = *state;
    for (size_t at = 0; at < FAULTS; at++) {
        print_message("    a file %s\n", faults[at].name);
        assert_true(state_attach(place));
        atomic_store(&place->segment.map->events_head, 9);
        faults[at].make(place);
        assert_replaced(place, faults[at].why);
        assert_int_equal(count_files(place->folder), 1);
    }
}

static void an_observer_says_what_is_wrong_and_changes_nothing(void **state)
{
    struct state *place = *state;
    static struct segment observer;
    for (size_t at = 0; at < FAULTS; at++) {
        struct segment_error error;
        assert_true(state_attach(place));
        segment_detach(&place->segment);
        faults[at].make(place);
        struct stat before = status_of(place->path);
        /* It looks at any policy's, also under two names. */
        bool usable = faults[at].make == make_other_policy || faults[at].make == make_endless_identity ||
                      faults[at].make == make_linked;
        assert_int_equal(segment_open(&observer, place->path, false, &error), usable);
        assert_int_equal(observer.map != NULL, usable);
        if (!usable)
            assert_says(&error, faults[at].why);
        segment_detach(&observer);
        assert_int_equal(status_of(place->path).st_ino, before.st_ino);
        assert_int_equal(status_of(place->path).st_size, before.st_size);
    }
}

static void an_unknown_boot_proves_nothing(void **state)
{
    struct state *place = *state;
    char none[BOOT_ID_SIZE] = "";
    change_file(place, offsetof(struct segment_stamp, boot_id), none, sizeof none);
    uint64_t inode = place->segment.inode;
    assert_true(state_attach(place));
    assert_string_equal(place->error.text, "");
    assert_int_equal(place->segment.inode, inode);
}

static void only_the_file_that_was_found_bad_is_replaced(void **state)
{
    struct state *place = *state;
    static struct contents contents;
    struct stat bad = status_of(place->path);
    bool installed;
    contents_know(&contents, STATE_IDENTITY, NULL);
    int folder = open(place->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const char *name = strrchr(place->path, '/') + 1;
    /* Meanwhile another starter put a fresh one in its place. */
    bad.st_ino++;
    assert_true(file_install(folder, name, &bad, &contents, place->path, &place->error, &installed));
    assert_false(installed);
    assert_int_equal(status_of(place->path).st_ino, place->segment.inode);
    bad.st_ino--;
    assert_true(file_install(folder, name, &bad, &contents, place->path, &place->error, &installed));
    assert_true(installed);
    assert_int_not_equal(status_of(place->path).st_ino, place->segment.inode);
    /* Where one stands already, none is installed; where none stands, one is. */
    assert_true(file_install(folder, name, NULL, &contents, place->path, &place->error, &installed));
    assert_false(installed);
    assert_int_equal(unlink(place->path), 0);
    assert_true(file_install(folder, name, NULL, &contents, place->path, &place->error, &installed));
    assert_true(installed);
    assert_int_equal(count_files(place->folder), 1);
    close(folder);
}

static void the_folders_lock_delays_a_replacement_but_not_for_ever(void **state)
{
    struct state *place = *state;
    int folder = open(place->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(folder, LOCK_EX), 0);
    make_foreign(place);
    uint64_t before = clock_real_ns();
    assert_replaced(place, "no segment");
    uint64_t took = clock_real_ns() - before;
    assert_true(took >= 100 * NS_PER_MS);
    assert_true(took < 20 * NS_PER_S);
    close(folder);
}

/* --- files and folders that are not ours to use ------------------------------------------------------------------- */

static void a_folder_that_others_may_enter_is_refused(void **state)
{
    struct state *place = *state;
    static const mode_t modes[] = {0755, 0711, 0710, 0770, 0702, 01777};
    make_folder(place->folder, 0700);
    for (size_t at = 0; at < sizeof modes / sizeof modes[0]; at++) {
        assert_int_equal(chmod(place->folder, modes[at]), 0);
        assert_refused(place, "chmod 700");
        assert_says(&place->error, place->folder);
    }
    assert_int_equal(count_files(place->folder), 0);
    assert_int_equal(chmod(place->folder, 0700), 0);
    assert_true(state_attach(place));
}

static void what_is_no_folder_is_refused(void **state)
{
    struct state *place = *state;
    char target[80];
    snprintf(target, sizeof target, "%s/target", place->parent);
    make_folder(target, 0700);
    assert_int_equal(symlink(target, place->folder), 0);
    assert_refused(place, "symbolic link");
    /* Nor by a slash at its end. */
    char slashed[90];
    snprintf(slashed, sizeof slashed, "%s/", place->folder);
    assert_false(segment_attach(&place->segment, slashed, STATE_IDENTITY, NULL, &place->error));
    assert_says(&place->error, "symbolic link");
    assert_int_equal(count_files(target), 0);
    assert_int_equal(unlink(place->folder), 0);
    assert_int_equal(mkfifo(place->folder, 0600), 0);
    assert_refused(place, "can't be opened: not a folder (ENOTDIR)");
}

static void only_one_level_above_the_folder_is_made(void **state)
{
    struct state *place = *state;
    char folder[128];
    snprintf(folder, sizeof folder, "%s/a/b/c", place->parent);
    assert_false(segment_attach(&place->segment, folder, STATE_IDENTITY, NULL, &place->error));
    assert_says(&place->error, "can't be made: no such file or folder (ENOENT)");
    assert_says(&place->error, folder);
    assert_int_equal(count_files(place->parent), 0);
}

static void another_users_folder_is_refused(void **state)
{
    struct state *place = *state;
    if (geteuid() != 0)
        skip();
    make_folder(place->folder, 0700);
    assert_int_equal(chown(place->folder, STATE_OTHER_USER, STATE_OTHER_USER), 0);
    assert_refused(place, "belongs to another user");
    assert_int_equal(count_files(place->folder), 0);
}

static void another_users_file_is_refused(void **state)
{
    struct state *place = *state;
    static struct segment observer;
    if (geteuid() != 0)
        skip();
    assert_int_equal(chown(place->path, STATE_OTHER_USER, STATE_OTHER_USER), 0);
    make_foreign(place);
    struct stat before = status_of(place->path);
    assert_refused(place, "belongs to another user");
    assert_int_equal(status_of(place->path).st_ino, before.st_ino);
    /* root may look at it, and no more. */
    change_file(place, offsetof(struct segment_stamp, magic), &(uint64_t){SEGMENT_MAGIC}, 8);
    assert_true(segment_open(&observer, place->path, false, &place->error));
    segment_detach(&observer);
    assert_false(segment_open(&observer, place->path, true, &place->error));
    assert_says(&place->error, "belongs to another user");
}

static void a_file_that_others_may_write_is_refused(void **state)
{
    struct state *place = *state;
    uint64_t inode = place->segment.inode;
    static const mode_t modes[] = {0620, 0602, 0666};
    for (size_t at = 0; at < sizeof modes / sizeof modes[0]; at++) {
        assert_int_equal(chmod(place->path, modes[at]), 0);
        assert_refused(place, "chmod 600");
    }
    assert_int_equal(chmod(place->path, 0644), 0);
    assert_true(state_attach(place));
    assert_int_equal(place->segment.inode, inode);
}

static void what_is_no_regular_file_is_refused(void **state)
{
    struct state *place = *state;
    struct segment observer;
    struct segment_error error;
    char target[80];
    snprintf(target, sizeof target, "%s/target", place->parent);
    make_folder(place->folder, 0700);
    assert_int_equal(symlink(target, place->path), 0);
    assert_refused(place, "symbolic link");
    assert_int_equal(access(target, F_OK), -1);
    assert_false(segment_open(&observer, place->path, false, &error));
    assert_int_equal(unlink(place->path), 0);
    make_folder(place->path, 0700);
    assert_refused(place, "a folder is in the segment's place");
    assert_false(segment_open(&observer, place->path, false, &error));
    assert_says(&error, "no regular file");
    assert_int_equal(rmdir(place->path), 0);
    assert_int_equal(mkfifo(place->path, 0600), 0);
    assert_refused(place, "no regular file");
    assert_false(segment_open(&observer, place->path, false, &error));
    assert_says(&error, "no regular file");
}

static void attach_as_another_user(void *context)
{
    struct state *place = context;
    CHECK(setresuid(STATE_OTHER_USER, STATE_OTHER_USER, STATE_OTHER_USER) == 0);
    CHECK(!state_attach(place));
    CHECK(strstr(place->error.text, "permission denied (EACCES)"));
    /* A file of its own that it may not write is the same to it. */
    CHECK(chdir("/") == 0);
}

static void a_place_without_permission_is_refused(void **state)
{
    struct state *place = *state;
    if (geteuid() != 0)
        skip();
    /* The fixture's own folder is root's, 0700. */
    assert_int_equal(child_run(attach_as_another_user, place), 0);
}

static void open_unwritable_as_another_user(void *context)
{
    struct state *place = context;
    struct segment observer;
    CHECK(setresuid(STATE_OTHER_USER, STATE_OTHER_USER, STATE_OTHER_USER) == 0);
    CHECK(state_attach(place));
    segment_detach(&place->segment);
    CHECK(chmod(place->path, 0400) == 0);
    CHECK(!state_attach(place));
    CHECK(strstr(place->error.text, "permission denied (EACCES)"));
    CHECK(segment_open(&observer, place->path, false, &place->error));
    CHECK(!segment_open(&observer, place->path, true, &place->error));
}

static void an_unwritable_file_is_refused_to_all_but_readers(void **state)
{
    struct state *place = *state;
    if (geteuid() != 0)
        skip();
    assert_int_equal(chmod(place->parent, 0777), 0);
    assert_int_equal(child_run(open_unwritable_as_another_user, place), 0);
}

/* --- a file that goes while it is mapped -------------------------------------------------------------------------- */

static void a_deleted_or_replaced_file_is_not_the_current_one(void **state)
{
    struct state *place = *state;
    static struct segment former;
    assert_true(segment_is_current(&place->segment));
    former = place->segment;
    place->segment.map = NULL;
    place->segment.own_path = NULL; /* it is the former one's */
    assert_int_equal(unlink(place->path), 0);
    assert_false(segment_is_current(&former));
    assert_true(state_attach(place));
    assert_string_equal(place->error.text, "");
    assert_true(segment_is_current(&place->segment));
    assert_false(segment_is_current(&former));
    /* The old one is still mapped: nobody is harmed by the deletion. */
    atomic_fetch_add(&former.map->no_room[0], 1);
    assert_int_equal(atomic_load(&place->segment.map->no_room[0]), 0);
    segment_detach(&former);
}

static void a_file_that_was_cut_short_is_not_the_current_one(void **state)
{
    struct state *place = *state;
    make_short(place);
    assert_false(segment_is_current(&place->segment));
    assert_replaced(place, "wrong size");
    assert_true(segment_is_current(&place->segment));
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, state_setup, state_teardown)
#define ATTACHED(name) cmocka_unit_test_setup_teardown(name, state_setup_attached, state_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ATTACHED(a_bad_file_of_ours_is_replaced_once),
        ATTACHED(an_observer_says_what_is_wrong_and_changes_nothing),
        ATTACHED(an_unknown_boot_proves_nothing),
        ATTACHED(only_the_file_that_was_found_bad_is_replaced),
        ATTACHED(the_folders_lock_delays_a_replacement_but_not_for_ever),
        FRESH(a_folder_that_others_may_enter_is_refused),
        FRESH(what_is_no_folder_is_refused),
        FRESH(only_one_level_above_the_folder_is_made),
        FRESH(another_users_folder_is_refused),
        ATTACHED(another_users_file_is_refused),
        ATTACHED(a_file_that_others_may_write_is_refused),
        FRESH(what_is_no_regular_file_is_refused),
        FRESH(a_place_without_permission_is_refused),
        FRESH(an_unwritable_file_is_refused_to_all_but_readers),
        ATTACHED(a_deleted_or_replaced_file_is_not_the_current_one),
        ATTACHED(a_file_that_was_cut_short_is_not_the_current_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
