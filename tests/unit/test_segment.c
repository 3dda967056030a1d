/*
 * test_segment.c - finding, making, replacing and refusing a segment's file, and what stands in a mapped one.
 *
 * Most files that are wrong are made from a good one by a small change. Tests that need another user, another file
 * system or a limit run in a child, as root where they must (else they are skipped).
 */
#define _GNU_SOURCE
#include "support_segment.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "segment/calls.h"
#include "segment/circuits.h"
#include "segment/clock.h"
#include "segment/journal.h"
#include "segment/layout.h"
#include "segment/process.h"

static struct stat status_of(const char *path)
{
    struct stat status;
    assert_int_equal(lstat(path, &status), 0);
    return status;
}

static void make_folder(const char *folder, mode_t mode)
{
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(chmod(folder, mode), 0);
}

static void assert_says(const struct segment_error *error, const char *part)
{
    if (!strstr(error->text, part))
        fail_msg("\"%s\" does not say \"%s\"", error->text, part);
    assert_null(strchr(error->text, '\n'));
}

static void assert_refused(struct state *place, const char *part)
{
    assert_false(state_attach(place));
    assert_null(place->segment.map);
    assert_says(&place->error, part);
}

/* The first attach replaces, and says why; the second finds the same fresh file, and says nothing. */
static void assert_replaced(struct state *place, const char *why)
{
    struct stat before = status_of(place->path);
    assert_true(state_attach(place));
    assert_says(&place->error, place->path);
    assert_says(&place->error, "replaced");
    assert_says(&place->error, why);
    struct stat after = status_of(place->path);
    assert_int_not_equal(before.st_ino, after.st_ino);
    assert_int_equal(after.st_size, sizeof(struct segment_layout));
    assert_int_equal(after.st_mode, S_IFREG | 0600);
    assert_int_equal(after.st_nlink, 1);
    assert_int_equal(place->segment.inode, after.st_ino);
    assert_int_equal(atomic_load(&place->segment.map->events_head), 0);
    assert_true(state_attach(place));
    assert_string_equal(place->error.text, "");
    assert_int_equal(place->segment.inode, after.st_ino);
}

static unsigned int count_files(const char *folder)
{
    char command[256];
    unsigned int count = 0;
    snprintf(command, sizeof command, "ls -A '%s' | wc -l", folder);
    FILE *listing = popen(command, "re");
    assert_non_null(listing);
    assert_int_equal(fscanf(listing, "%u", &count), 1);
    pclose(listing);
    return count;
}

/* --- names -------------------------------------------------------------------------------------------------------- */

static const char *variables[3]; /* SOCKFUSE_STATE, XDG_RUNTIME_DIR */

static const char *environment(const char *name)
{
    return strcmp(name, "SOCKFUSE_STATE") == 0 ? variables[0] : strcmp(name, "XDG_RUNTIME_DIR") == 0 ? variables[1] : NULL;
}

static const char *folder_with(const char *state, const char *runtime)
{
    static char folder[PATH_MAX];
    variables[0] = state;
    variables[1] = runtime;
    assert_true(state_folder(environment, folder, sizeof folder));
    return folder;
}

static void as_another_user(void *unused)
{
    (void)unused;
    CHECK(setresuid(STATE_OTHER_USER, STATE_OTHER_USER, STATE_OTHER_USER) == 0);
    CHECK(strcmp(folder_with(NULL, NULL), "/tmp/sockfuse-65534") == 0);
}

static void the_state_folder_comes_from_the_environment(void **state)
{
    (void)state;
    assert_string_equal(folder_with("/var/lib/fuses", "/run/user/7"), "/var/lib/fuses");
    assert_string_equal(folder_with("/var/lib/fuses///", NULL), "/var/lib/fuses");
    assert_string_equal(folder_with(NULL, "/run/user/7"), "/run/user/7/sockfuse");
    assert_string_equal(folder_with("", "/run/user/7/"), "/run/user/7/sockfuse");
    /* A relative XDG_RUNTIME_DIR is void. */
    char expected[64];
    if (geteuid() == 0)
        snprintf(expected, sizeof expected, "/run/sockfuse");
    else
        snprintf(expected, sizeof expected, "/tmp/sockfuse-%u", (unsigned int)geteuid());
    assert_string_equal(folder_with(NULL, "user/7"), expected);
    assert_string_equal(folder_with("", ""), expected);
    if (geteuid() == 0)
        assert_int_equal(child_run(as_another_user, NULL), 0);
}

static void a_relative_state_folder_stays_where_it_was_named(void **state)
{
    struct state *place = *state;
    char here[PATH_MAX], expected[PATH_MAX + 16];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(place->parent), 0);
    snprintf(expected, sizeof expected, "%s/a/b", place->parent);
    const char *folder = folder_with("a/b/", NULL);
    assert_int_equal(chdir(here), 0);
    assert_string_equal(folder, expected);
}

static void a_state_folder_that_does_not_fit_is_none(void **state)
{
    (void)state;
    char folder[PATH_MAX];
    variables[0] = "/0123456789";
    variables[1] = NULL;
    assert_false(state_folder(environment, folder, 11));
    assert_true(state_folder(environment, folder, 12));
    variables[0] = "0123456789";
    assert_false(state_folder(environment, folder, 11));
    variables[0] = NULL;
    variables[1] = "/0123456789";
    assert_false(state_folder(environment, folder, 20));
    assert_true(state_folder(environment, folder, 21));
}

static void a_segments_name_tells_people_its_policy(void **state)
{
    (void)state;
    char path[PATH_MAX], other[PATH_MAX];
    assert_true(segment_path("/run/sockfuse", "/etc/pay ments.policy", path, sizeof path));
    assert_int_equal(strncmp(path, "/run/sockfuse/pay_ments-", 24), 0);
    assert_int_equal(strlen(path), 24 + 16 + strlen(".segment"));
    assert_string_equal(path + 40, ".segment");
    /* The same name elsewhere is another policy. */
    assert_true(segment_path("/run/sockfuse", "/opt/pay ments.policy", other, sizeof other));
    assert_string_not_equal(path, other);
    assert_true(segment_path("/run/sockfuse/", "/etc/pay ments.policy", other, sizeof other));
    assert_string_equal(path, other);
    assert_true(segment_path("/", "patterns: 127.0.0.1:1 b:2", path, sizeof path));
    assert_int_equal(strncmp(path, "/patterns-", 10), 0);
    /* No name is hidden, climbs or lacks an end. */
    assert_true(segment_path("/s", "/etc/..", path, sizeof path));
    assert_int_equal(strncmp(path, "/s/_.-", 6), 0);
    assert_true(segment_path("/s", "/etc/.policy", path, sizeof path));
    assert_int_equal(strncmp(path, "/s/_policy-", 11), 0);
    char name[300];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    assert_true(segment_path("/s", name, path, sizeof path));
    assert_int_equal(strlen(path), strlen("/s/") + 32 + strlen("-0123456789abcdef.segment"));
    assert_false(segment_path("/s", name, path, strlen(path)));
}

/* --- making ------------------------------------------------------------------------------------------------------- */

static void a_missing_segment_is_made_with_its_folder_for_this_user_alone(void **state)
{
    struct state *place = *state;
    static const mode_t masks[] = {0, 022, 077};
    char inner[96];
    for (size_t at = 0; at < sizeof masks / sizeof masks[0]; at++) {
        struct segment_error error;
        snprintf(place->folder, sizeof place->folder, "%s/state%u", place->parent, (unsigned int)at);
        snprintf(inner, sizeof inner, "%s/inner", place->folder);
        mode_t former = umask(masks[at]);
        bool attached = segment_attach(&place->segment, inner, STATE_IDENTITY, &error);
        umask(former);
        assert_true(attached);
        assert_string_equal(error.text, "");
        assert_int_equal(status_of(place->folder).st_mode, S_IFDIR | 0700);
        assert_int_equal(status_of(inner).st_mode, S_IFDIR | 0700);
        assert_int_equal(status_of(place->segment.path).st_mode, S_IFREG | 0600);
        assert_int_equal(count_files(inner), 1);
        segment_detach(&place->segment);
    }
}

static void all_blocks_of_a_fresh_file_are_there(void **state)
{
    struct state *place = *state;
    assert_true(state_attach(place));
    struct stat status = status_of(place->path);
    assert_int_equal(status.st_size, sizeof(struct segment_layout));
    assert_true((uint64_t)status.st_blocks * 512 >= sizeof(struct segment_layout));
}

static void a_fresh_segment_is_empty_and_says_whose_it_is(void **state)
{
    struct state *place = *state;
    uint64_t before = clock_wall_ns();
    assert_true(state_attach(place));
    const struct segment_layout *map = place->segment.map;
    assert_int_equal(map->magic, SEGMENT_MAGIC);
    assert_int_equal(map->version, SEGMENT_VERSION);
    assert_int_equal(map->size, sizeof *map);
    assert_int_equal(strlen(map->boot_id), 36);
    assert_true(map->created_ns >= before && map->created_ns <= clock_wall_ns());
    assert_string_equal(segment_identity(&place->segment), STATE_IDENTITY);
    const char *bytes = (const char *)map;
    size_t header = offsetof(struct segment_layout, identity) + SEGMENT_IDENTITY_MAX;
    for (size_t at = header; at < sizeof *map; at++)
        assert_int_equal(bytes[at], 0);
}

static void attaching_again_finds_what_was_written(void **state)
{
    struct state *place = *state;
    static struct segment second;
    unsigned int descriptors = open_descriptors();
    assert_true(state_attach(place));
    assert_true(segment_attach(&second, place->folder, STATE_IDENTITY, &place->error));
    assert_string_equal(place->error.text, "");
    assert_int_equal(open_descriptors(), descriptors);
    assert_int_equal(second.inode, place->segment.inode);
    atomic_store(&place->segment.map->unguarded, 7);
    assert_int_equal(atomic_load(&second.map->unguarded), 7);
    segment_detach(&second);
    assert_null(second.map);
    segment_detach(&second);
    assert_true(state_attach(place));
    assert_int_equal(atomic_load(&place->segment.map->unguarded), 7);
}

static void each_policy_has_a_segment_of_its_own(void **state)
{
    struct state *place = *state;
    static struct segment other;
    assert_true(state_attach(place));
    assert_true(segment_attach(&other, place->folder, "/etc/other.policy", &place->error));
    assert_int_not_equal(other.inode, place->segment.inode);
    assert_string_equal(segment_identity(&other), "/etc/other.policy");
    segment_detach(&other);
}

static void an_identity_longer_than_its_place_still_has_one_segment(void **state)
{
    struct state *place = *state;
    static struct segment segments[2];
    static char identity[SEGMENT_IDENTITY_MAX + 100];
    memset(identity, 'x', sizeof identity - 1);
    for (unsigned int at = 0; at < 2; at++) {
        assert_true(segment_attach(&segments[at], place->folder, identity, &place->error));
        assert_string_equal(place->error.text, "");
    }
    assert_int_equal(segments[0].inode, segments[1].inode);
    assert_int_equal(strlen(segment_identity(&segments[0])), SEGMENT_IDENTITY_MAX - 1);
    segment_detach(&segments[1]);
    /* One that differs behind the end of the place has another. */
    identity[SEGMENT_IDENTITY_MAX + 50] = 'y';
    assert_true(segment_attach(&segments[1], place->folder, identity, &place->error));
    assert_int_not_equal(segments[0].inode, segments[1].inode);
    segment_detach(&segments[0]);
    segment_detach(&segments[1]);
}

/* --- files that are wrong ----------------------------------------------------------------------------------------- */

struct fault {
    const char *name, *why;
    void (*make)(struct state *place);
};

static void make_short(struct state *place)
{
    assert_int_equal(truncate(place->path, (off_t)sizeof(struct segment_layout) - 1), 0);
}

static void make_empty(struct state *place)
{
    assert_int_equal(truncate(place->path, 0), 0);
}

static void make_long(struct state *place)
{
    assert_int_equal(truncate(place->path, (off_t)sizeof(struct segment_layout) + 1), 0);
}

static void make_zero(struct state *place)
{
    make_empty(place);
    assert_int_equal(truncate(place->path, (off_t)sizeof(struct segment_layout)), 0);
}

static void change(struct state *place, size_t offset, const void *bytes, size_t count)
{
    int fd = open(place->path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, count, (off_t)offset), count);
    close(fd);
}

static void make_foreign(struct state *place)
{
    change(place, offsetof(struct segment_layout, magic), "#!/bin/sh", 8);
}

static void make_old(struct state *place)
{
    uint32_t version = SEGMENT_VERSION + 1;
    change(place, offsetof(struct segment_layout, version), &version, sizeof version);
}

static void make_other_size(struct state *place)
{
    uint64_t size = sizeof(struct segment_layout) - 64;
    change(place, offsetof(struct segment_layout, size), &size, sizeof size);
}

static void make_other_boot(struct state *place)
{
    change(place, offsetof(struct segment_layout, boot_id), "01234567-89ab-cdef-0123-456789abcdef", 37);
}

static void make_endless_boot(struct state *place)
{
    char bytes[BOOT_ID_SIZE];
    memset(bytes, 'x', sizeof bytes);
    change(place, offsetof(struct segment_layout, boot_id), bytes, sizeof bytes);
}

static void make_other_policy(struct state *place)
{
    change(place, offsetof(struct segment_layout, identity), "/etc/other.policy", 18);
}

static void make_endless_identity(struct state *place)
{
    static char bytes[SEGMENT_IDENTITY_MAX];
    memset(bytes, 'x', sizeof bytes);
    change(place, offsetof(struct segment_layout, identity), bytes, sizeof bytes);
}

static void make_random(struct state *place)
{
    static unsigned char bytes[sizeof(struct segment_layout)];
    srandom(7);
    for (size_t at = 0; at < sizeof bytes; at++)
        bytes[at] = (unsigned char)random();
    change(place, 0, bytes, sizeof bytes);
}

static void make_linked(struct state *place)
{
    char other[PATH_MAX + 8];
    snprintf(other, sizeof other, "%s/other", place->parent);
    unlink(other);
    assert_int_equal(link(place->path, other), 0);
}

static const struct fault faults[] = {
    {"cut short", "wrong size", make_short},
    {"empty", "wrong size", make_empty},
    {"too long", "wrong size", make_long},
    {"all zero", "no segment", make_zero},
    {"foreign", "no segment", make_foreign},
    {"of another version", "another version", make_old},
    {"of another layout", "another version", make_other_size},
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
    change(place, offsetof(struct segment_layout, boot_id), none, sizeof none);
    uint64_t inode = place->segment.inode;
    assert_true(state_attach(place));
    assert_string_equal(place->error.text, "");
    assert_int_equal(place->segment.inode, inode);
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
    assert_false(segment_attach(&place->segment, slashed, STATE_IDENTITY, &place->error));
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
    assert_false(segment_attach(&place->segment, folder, STATE_IDENTITY, &place->error));
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
    change(place, offsetof(struct segment_layout, magic), &(uint64_t){SEGMENT_MAGIC}, 8);
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

/* --- scarcity ----------------------------------------------------------------------------------------------------- */

static void attach_without_descriptors(void *context)
{
    struct state *place = context;
    for (rlim_t limit = 0; limit < 8; limit++) {
        const struct rlimit few = {limit, 1024};
        CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
        bool attached = state_attach(place);
        CHECK(attached || strstr(place->error.text, "no descriptor left (EMFILE)"));
        CHECK(limit > 0 || !attached);
        CHECK(attached == (place->segment.map != NULL));
    }
    const struct rlimit enough = {64, 1024};
    CHECK(setrlimit(RLIMIT_NOFILE, &enough) == 0);
    CHECK(state_attach(place));
}

static void without_a_descriptor_left_attaching_fails_with_a_reason(void **state)
{
    assert_int_equal(child_run(attach_without_descriptors, *state), 0);
}

static void attach_with_small_files(void *context)
{
    struct state *place = context;
    const struct rlimit small = {sizeof(struct segment_layout) - 1, RLIM_INFINITY};
    const struct rlimit exact = {sizeof(struct segment_layout), RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    CHECK(!state_attach(place));
    CHECK(strstr(place->error.text, "ulimit -f"));
    CHECK(setrlimit(RLIMIT_FSIZE, &exact) == 0);
    CHECK(state_attach(place));
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    CHECK(state_attach(place));
}

static void a_limit_of_file_sizes_does_not_kill(void **state)
{
    struct state *place = *state;
    assert_int_equal(child_run(attach_with_small_files, place), 0);
    assert_int_equal(count_files(place->folder), 1);
}

static void tick(int signal_number)
{
    (void)signal_number;
}

static void attach_in_a_storm_of_signals(void *context)
{
    struct state *place = context;
    /* Without SA_RESTART, so that every call that can be broken off is. */
    const struct sigaction action = {.sa_handler = tick};
    const struct itimerval fast = {{0, 100}, {0, 100}};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &fast, NULL) == 0);
    for (unsigned int round = 0; round < 20; round++) {
        CHECK(unlink(place->path) == 0 || errno == ENOENT);
        CHECK(state_attach(place));
    }
}

static void a_storm_of_signals_does_not_keep_from_attaching(void **state)
{
    assert_int_equal(child_run(attach_in_a_storm_of_signals, *state), 0);
}

static void attach_on_a_full_disk(void *context)
{
    struct state *place = context;
    struct stat status;
    CHECK(unshare(CLONE_NEWNS) == 0);
    CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    CHECK(mkdir(place->folder, 0700) == 0);
    CHECK(mount("tmpfs", place->folder, "tmpfs", 0, "mode=0700,size=1m") == 0);
    CHECK(!state_attach(place));
    CHECK(strstr(place->error.text, "no space left on the device (ENOSPC)"));
    /* Nothing is left of it. */
    CHECK(stat(place->path, &status) != 0);
    int folder = open(place->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(fstat(folder, &status) == 0 && status.st_size == 40);
    close(folder);
    CHECK(mount("tmpfs", place->folder, "tmpfs", MS_REMOUNT, "mode=0700,size=8m") == 0);
    CHECK(state_attach(place));
    segment_detach(&place->segment);
    CHECK(mount("tmpfs", place->folder, "tmpfs", MS_REMOUNT | MS_RDONLY, "mode=0700") == 0);
    CHECK(!state_attach(place));
    CHECK(strstr(place->error.text, "read-only (EROFS)"));
    CHECK(segment_open(&place->segment, place->path, false, &place->error));
}

static bool may_unshare(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(unshare(CLONE_NEWNS) == 0 ? 0 : 1);
    return child > 0 && child_end(child) == 0;
}

static void a_full_or_read_only_disk_is_told_when_attaching(void **state)
{
    if (!may_unshare())
        skip();
    assert_int_equal(child_run(attach_on_a_full_disk, *state), 0);
}

static void attach_with_closed_stdio(void *context)
{
    struct state *place = context;
    int report = dup(STDERR_FILENO);
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    bool made = state_attach(place), found = made && state_attach(place);
    bool closed = true;
    for (int fd = 0; fd < 3; fd++)
        closed = closed && fcntl(fd, F_GETFD) == -1;
    dup2(report, STDERR_FILENO);
    CHECK(made && found);
    CHECK(closed);
}

static void closed_standard_descriptors_stay_closed(void **state)
{
    assert_int_equal(child_run(attach_with_closed_stdio, *state), 0);
}

/* --- a file that goes while it is mapped -------------------------------------------------------------------------- */

static void a_deleted_or_replaced_file_is_not_the_current_one(void **state)
{
    struct state *place = *state;
    static struct segment former;
    assert_true(segment_is_current(&place->segment));
    former = place->segment;
    place->segment.map = NULL;
    assert_int_equal(unlink(place->path), 0);
    assert_false(segment_is_current(&former));
    assert_true(state_attach(place));
    assert_string_equal(place->error.text, "");
    assert_true(segment_is_current(&place->segment));
    assert_false(segment_is_current(&former));
    /* The old one is still mapped: nobody is harmed by the deletion. */
    atomic_fetch_add(&former.map->unguarded, 1);
    assert_int_equal(atomic_load(&place->segment.map->unguarded), 0);
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

/* --- many at once ------------------------------------------------------------------------------------------------- */

#define STARTERS 100

struct crowd {
    struct state *place;
    _Atomic uint32_t waiting, replaced;
    _Atomic uint32_t go;
    _Atomic uint64_t inodes[STARTERS];
};

static void start_in_a_crowd(void *context)
{
    struct crowd *crowd = context;
    uint32_t number = atomic_fetch_add(&crowd->waiting, 1);
    while (atomic_load(&crowd->go) == 0)
        usleep(200);
    CHECK(state_attach(crowd->place));
    if (crowd->place->error.text[0])
        atomic_fetch_add(&crowd->replaced, 1);
    atomic_store(&crowd->inodes[number], crowd->place->segment.inode);
    atomic_fetch_add(&crowd->place->segment.map->unguarded, 1);
}

/* Starts a hundred processes at the same moment; returns how many of them said that they had replaced a file. */
static uint32_t start_crowd(struct state *place)
{
    pid_t children[STARTERS];
    struct crowd *crowd = mmap(NULL, sizeof *crowd, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(crowd != MAP_FAILED);
    crowd->place = place;
    for (unsigned int at = 0; at < STARTERS; at++)
        children[at] = child_start(start_in_a_crowd, crowd);
    for (unsigned int tries = 0; tries < 30000 && atomic_load(&crowd->waiting) < STARTERS; tries++)
        usleep(1000);
    atomic_store(&crowd->go, 1);
    for (unsigned int at = 0; at < STARTERS; at++)
        assert_int_equal(child_end(children[at]), 0);
    assert_true(state_attach(place));
    for (unsigned int at = 0; at < STARTERS; at++)
        assert_int_equal(atomic_load(&crowd->inodes[at]), place->segment.inode);
    assert_int_equal(atomic_load(&place->segment.map->unguarded), STARTERS);
    assert_int_equal(count_files(place->folder), 1);
    uint32_t replaced = atomic_load(&crowd->replaced);
    munmap(crowd, sizeof *crowd);
    return replaced;
}

static void a_hundred_starters_end_up_on_one_file(void **state)
{
    for (unsigned int round = 0; round < 3; round++) {
        struct state *place = *state;
        snprintf(place->folder, sizeof place->folder, "%s/round%u", place->parent, round);
        segment_path(place->folder, STATE_IDENTITY, place->path, sizeof place->path);
        assert_int_equal(start_crowd(place), 0);
    }
}

static void a_hundred_starters_replace_a_bad_file_once(void **state)
{
    struct state *place = *state;
    static void (*const makes[])(struct state *) = {make_short, make_foreign, make_other_boot, make_linked};
    for (size_t at = 0; at < sizeof makes / sizeof makes[0]; at++) {
        assert_true(state_attach(place));
        segment_detach(&place->segment);
        makes[at](place);
        assert_int_equal(start_crowd(place), 1);
    }
}

/* --- leftovers ---------------------------------------------------------------------------------------------------- */

static int (*const real_gettime)(clockid_t, struct timespec *) = clock_gettime;
static int64_t shift_s;

static int shifted_time(clockid_t clock, struct timespec *time)
{
    int result = real_gettime(clock, time);
    if (clock == CLOCK_REALTIME)
        time->tv_sec += shift_s;
    return result;
}

static void leave_file(struct state *place, const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", place->folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void what_killed_starters_left_is_swept_after_a_minute(void **state)
{
    struct state *place = *state;
    char foreign[128];
    leave_file(place, ".new-0123");
    leave_file(place, ".hidden");
    leave_file(place, "new-0123");
    leave_file(place, ".new-foreign");
    snprintf(foreign, sizeof foreign, "%s/.new-foreign", place->folder);
    if (geteuid() == 0)
        assert_int_equal(chown(foreign, STATE_OTHER_USER, STATE_OTHER_USER), 0);
    clock_use(shifted_time);
    shift_s = 55;
    assert_true(state_attach(place));
    assert_int_equal(count_files(place->folder), 5);
    shift_s = 65;
    assert_true(state_attach(place));
    assert_int_equal(count_files(place->folder), geteuid() == 0 ? 4 : 3);
    /* Made before the clock was set back. */
    leave_file(place, ".new-0123");
    shift_s = -3600;
    assert_true(state_attach(place));
    assert_int_equal(count_files(place->folder), geteuid() == 0 ? 4 : 3);
    clock_use(NULL);
}

static void a_file_swept_under_its_maker_is_made_again(void **state)
{
    struct state *place = *state;
    /* One starter whose clock is an hour off sweeps what others are about to give its name. */
    pid_t sweepers[2];
    for (unsigned int at = 0; at < 2; at++) {
        sweepers[at] = fork();
        assert_true(sweepers[at] >= 0);
        if (sweepers[at] == 0) {
            alarm(60);
            clock_use(shifted_time);
            shift_s = 3600;
            for (unsigned int round = 0; round < 100; round++)
                CHECK(state_attach(place) || strstr(place->error.text, "again and again"));
            _exit(0);
        }
    }
    for (unsigned int round = 0; round < 80; round++) {
        unlink(place->path);
        assert_true(state_attach(place) || strstr(place->error.text, "again and again"));
    }
    for (unsigned int at = 0; at < 2; at++)
        assert_int_equal(child_end(sweepers[at]), 0);
    assert_true(state_attach(place));
}

/* --- observers, lists, private ones ------------------------------------------------------------------------------- */

static void write_to_map(void *context)
{
    struct state *place = context;
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGSEGV, SIG_DFL);
    atomic_store(&place->segment.map->unguarded, 1);
}

static void an_observer_may_be_held_to_reading(void **state)
{
    struct state *place = *state;
    struct segment_error error;
    char missing[128];
    segment_detach(&place->segment);
    assert_true(segment_open(&place->segment, place->path, false, &error));
    assert_string_equal(segment_identity(&place->segment), STATE_IDENTITY);
    assert_string_equal(place->segment.path, place->path);
    assert_true(segment_is_current(&place->segment));
    if (sizeof(void *) > 4)
        assert_int_equal(child_run(write_to_map, place), 128 + SIGSEGV);
    segment_detach(&place->segment);
    assert_true(segment_open(&place->segment, place->path, true, &error));
    assert_int_equal(child_run(write_to_map, place), 0);
    assert_int_equal(atomic_load(&place->segment.map->unguarded), 1);
    segment_detach(&place->segment);
    snprintf(missing, sizeof missing, "%s/missing.segment", place->folder);
    assert_false(segment_open(&place->segment, missing, false, &error));
    assert_says(&error, "ENOENT");
    assert_int_equal(count_files(place->folder), 1);
}

struct listing {
    char names[8][32];
    unsigned int count, stop_at;
};

static bool note_name(const char *path, void *context)
{
    struct listing *listing = context;
    snprintf(listing->names[listing->count++], sizeof listing->names[0], "%s", strrchr(path, '/') + 1);
    return listing->count != listing->stop_at;
}

static void segments_are_listed_by_name(void **state)
{
    struct state *place = *state;
    struct listing listing = {.count = 0};
    make_folder(place->folder, 0700);
    leave_file(place, "b.segment");
    leave_file(place, ".new-0123");
    leave_file(place, "c.segment");
    leave_file(place, ".hidden.segment");
    leave_file(place, "a.segment");
    leave_file(place, "a.segment.options");
    leave_file(place, ".segment");
    leave_file(place, "B.segment");
    assert_true(segment_list(place->folder, note_name, &listing));
    assert_int_equal(listing.count, 4);
    assert_string_equal(listing.names[0], "B.segment");
    assert_string_equal(listing.names[1], "a.segment");
    assert_string_equal(listing.names[2], "b.segment");
    assert_string_equal(listing.names[3], "c.segment");
    listing = (struct listing){.stop_at = 2};
    assert_true(segment_list(place->folder, note_name, &listing));
    assert_int_equal(listing.count, 2);
    listing.count = 0;
    assert_false(segment_list("/proc/self/status", note_name, &listing));
    assert_int_equal(errno, ENOTDIR);
    snprintf(place->folder, sizeof place->folder, "%s/missing", place->parent);
    assert_true(segment_list(place->folder, note_name, &listing));
    assert_int_equal(listing.count, 0);
}

static void count_in_map(void *context)
{
    struct state *place = context;
    CHECK(atomic_load(&place->segment.map->unguarded) == 3);
    atomic_store(&place->segment.map->unguarded, 4);
}

static void a_private_segment_is_shared_with_nobody(void **state)
{
    struct state *place = *state;
    assert_true(segment_private(&place->segment, STATE_IDENTITY));
    assert_string_equal(place->segment.path, "");
    assert_int_equal(place->segment.inode, 0);
    assert_true(segment_is_current(&place->segment));
    assert_string_equal(segment_identity(&place->segment), STATE_IDENTITY);
    atomic_store(&place->segment.map->unguarded, 3);
    assert_int_equal(child_run(count_in_map, place), 0);
    assert_int_equal(atomic_load(&place->segment.map->unguarded), 3);
    assert_int_equal(count_files(place->parent), 0);
}

static void an_identity_without_an_end_is_not_read_beyond_its_place(void **state)
{
    struct state *place = *state;
    memset(place->segment.map->identity, 'x', SEGMENT_IDENTITY_MAX);
    memset(place->segment.map->processes, 'x', sizeof place->segment.map->processes);
    assert_string_equal(segment_identity(&place->segment), "");
}

/* --- 32 bit ------------------------------------------------------------------------------------------------------- */

/* A program of its own, since one test program has one word size. It joins, notes an event and stays. */
static const char other_program[] =
    "#include <stdio.h>\n#include <string.h>\n#include \"segment/journal.h\"\n#include \"segment/process.h\"\n"
    "int main(int count, char **arguments)\n{\n"
    "    static struct segment segment;\n    static struct segment_error error;\n"
    "    struct event event = {.type = EVENT_FAILURE, .kind = FAILURE_RESET, .mono_ns = 123456789012345, .pid = 42,"
    " .program = \"other\", .target = \"target\", .destination = \"127.0.0.1:1\"}, found;\n"
    "    if (count != 3 || sizeof(void *) != 4)\n        return 2;\n"
    "    if (!segment_attach(&segment, arguments[1], arguments[2], &error) || error.text[0])\n"
    "        return fprintf(stderr, \"%s\\n\", error.text), 3;\n"
    "    if (!journal_read(&segment, 0, &found) || found.mono_ns != 543210987654321 || strcmp(found.program, \"first\"))\n"
    "        return 4;\n"
    "    journal_append(&segment, &event);\n"
    "    return process_join(&segment, \"other\", 5) == (2 << 20 | 1) ? 0 : 5;\n}\n";

static void programs_of_32_and_64_bit_share_a_segment(void **state)
{
    struct state *place = *state;
    char source[128], program[128], command[1024];
    struct event event = {.type = EVENT_OPEN, .mono_ns = UINT64_C(543210987654321), .program = "first"};
    if (sizeof(void *) != 8 || access("src/segment/segment.c", R_OK) != 0)
        skip();
    snprintf(source, sizeof source, "%s/other.c", place->parent);
    snprintf(program, sizeof program, "%s/other", place->parent);
    FILE *file = fopen(source, "we");
    assert_non_null(file);
    assert_true(fputs(other_program, file) >= 0);
    assert_int_equal(fclose(file), 0);
    snprintf(command, sizeof command, "echo 'int main(void) { return 0; }' | gcc -m32 -x c - -o %s 2>/dev/null", program);
    if (system(command) != 0) {
        print_message("    no compiler for 32 bit here\n");
        skip();
    }
    snprintf(command, sizeof command,
             "gcc -m32 -std=gnu11 -Wno-psabi -Isrc %s src/segment/segment.c src/segment/file.c src/segment/folder.c "
             "src/segment/process.c src/segment/life.c src/segment/journal.c src/segment/clock.c src/segment/text.c -o %s",
             source, program);
    assert_int_equal(system(command), 0);
    journal_append(&place->segment, &event);
    uint32_t holder = process_join(&place->segment, "first", 1);
    snprintf(command, sizeof command, "%s %s %s", program, place->folder, STATE_IDENTITY);
    assert_int_equal(system(command), 0);
    assert_true(journal_read(&place->segment, 1, &event));
    assert_int_equal(event.mono_ns, UINT64_C(123456789012345));
    assert_int_equal(event.pid, 42);
    assert_string_equal(event.destination, "127.0.0.1:1");
    assert_true(process_alive(&place->segment, holder));
    assert_false(process_alive(&place->segment, 2 << 20 | 1));
}

/* --- any bytes ---------------------------------------------------------------------------------------------------- */

static bool look_and_go_on(const char *path, void *context)
{
    (void)path;
    (void)context;
    return true;
}

/* Calls all that may be called on a segment. */
static void use_all(struct state *place)
{
    static char line[EVENT_JSON_MAX];
    struct segment *segment = &place->segment;
    struct event event = {.type = EVENT_FAILURE, .program = "one"};
    struct process_view view;
    struct circuit_texts texts;
    assert_true(strlen(segment_identity(segment)) < SEGMENT_IDENTITY_MAX);
    segment_is_current(segment);
    segment_list(place->folder, look_and_go_on, NULL);
    journal_append(segment, &event);
    uint64_t oldest = journal_oldest(segment), head = journal_head(segment);
    assert_true(head - oldest <= SEGMENT_EVENTS);
    for (uint64_t number = oldest; number != head; number++) {
        if (journal_read(segment, number, &event)) {
            assert_true(event_json(&event, line, sizeof line) > 0);
            assert_true(event_line(&event, line, sizeof line) > 0);
        }
    }
    for (uint32_t cursor = 0; process_next(segment, &cursor, &view);)
        assert_true(strlen(view.program) < sizeof view.program);
    uint32_t holder = process_join(segment, "one", 1);
    process_describe(segment, holder, &view);
    process_alive(segment, holder);
    process_leave(segment, holder);
    for (uint32_t cursor = 0, index; (index = circuits_next(segment, &cursor, &texts)) != CIRCUIT_INDEX_NONE;) {
        assert_true(strlen(texts.target) < sizeof texts.target);
        assert_true(strlen(texts.destination) < sizeof texts.destination);
        assert_non_null(circuits_at(segment, index));
        if (circuits_last_failure(segment, index, &event))
            assert_true(event_line(&event, line, sizeof line) > 0);
        if (circuits_last_transition(segment, index, &event))
            assert_true(event_line(&event, line, sizeof line) > 0);
    }
    assert_null(circuits_at(segment, SEGMENT_CIRCUITS));
    uint32_t index = circuits_find(segment, "target", "127.0.0.1:1", 5);
    if (index != CIRCUIT_INDEX_NONE)
        calls_in_flight(segment, index);
}

static void any_bytes_in_a_mapped_segment_are_harmless(void **state)
{
    struct state *place = *state;
    static struct segment_layout copy;
    unsigned char *bytes = (unsigned char *)place->segment.map;
    /* A segment in use, so that there is something to spoil. */
    use_all(place);
    use_all(place);
    process_join(&place->segment, "stays", 1);
    memcpy(&copy, place->segment.map, sizeof copy);
    srandom(11);
    for (unsigned int round = 0; round < 60; round++) {
        memcpy(place->segment.map, &copy, sizeof copy);
        /* From a few wrong bytes to nothing but wrong bytes; and the extreme values. */
        if (round < 40) {
            for (unsigned long spoiled = 0; spoiled < 8ul << (round / 2); spoiled++)
                bytes[(size_t)random() % sizeof copy] = (unsigned char)random();
        } else {
            memset(bytes + (round % 2 ? 192 : 0), round < 50 ? 0xff : 0x7f + (int)round % 3, sizeof copy - 192);
        }
        use_all(place);
    }
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, state_setup, state_teardown)
#define ATTACHED(name) cmocka_unit_test_setup_teardown(name, state_setup_attached, state_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(the_state_folder_comes_from_the_environment),
        FRESH(a_relative_state_folder_stays_where_it_was_named),
        FRESH(a_state_folder_that_does_not_fit_is_none),
        FRESH(a_segments_name_tells_people_its_policy),
        FRESH(a_missing_segment_is_made_with_its_folder_for_this_user_alone),
        FRESH(all_blocks_of_a_fresh_file_are_there),
        FRESH(a_fresh_segment_is_empty_and_says_whose_it_is),
        FRESH(attaching_again_finds_what_was_written),
        FRESH(each_policy_has_a_segment_of_its_own),
        FRESH(an_identity_longer_than_its_place_still_has_one_segment),
        ATTACHED(a_bad_file_of_ours_is_replaced_once),
        ATTACHED(an_observer_says_what_is_wrong_and_changes_nothing),
        ATTACHED(an_unknown_boot_proves_nothing),
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
        FRESH(without_a_descriptor_left_attaching_fails_with_a_reason),
        FRESH(a_limit_of_file_sizes_does_not_kill),
        FRESH(a_storm_of_signals_does_not_keep_from_attaching),
        FRESH(a_full_or_read_only_disk_is_told_when_attaching),
        FRESH(closed_standard_descriptors_stay_closed),
        ATTACHED(a_deleted_or_replaced_file_is_not_the_current_one),
        ATTACHED(a_file_that_was_cut_short_is_not_the_current_one),
        FRESH(a_hundred_starters_end_up_on_one_file),
        FRESH(a_hundred_starters_replace_a_bad_file_once),
        ATTACHED(what_killed_starters_left_is_swept_after_a_minute),
        FRESH(a_file_swept_under_its_maker_is_made_again),
        ATTACHED(an_observer_may_be_held_to_reading),
        FRESH(segments_are_listed_by_name),
        FRESH(a_private_segment_is_shared_with_nobody),
        ATTACHED(an_identity_without_an_end_is_not_read_beyond_its_place),
        ATTACHED(programs_of_32_and_64_bit_share_a_segment),
        ATTACHED(any_bytes_in_a_mapped_segment_are_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
