/*
 * test_segment.c - finding and making a segment, and looking at it.
 *
 * The names, the fresh file and its folder, observers, lists and private segments. What can be wrong with a file that
 * is there already is in test_segment_faults.c.
 */
#define _GNU_SOURCE
#include "support_segment.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "segment/layout.h"
#include "segment/folder.h"

/* --- names -------------------------------------------------------------------------------------------------------- */

static const char *variables[3]; /* SOCKFUSE_STATE, XDG_RUNTIME_DIR */

static const char *environment(const char *name)
{
    return strcmp(name, "SOCKFUSE_STATE") == 0    ? variables[0]
           : strcmp(name, "XDG_RUNTIME_DIR") == 0 ? variables[1]
                                                  : NULL;
}

/* The places as one text, "A B C". */
static const char *places_with(const char *state, const char *runtime)
{
    static char text[1024];
    struct state_places places;
    variables[0] = state;
    variables[1] = runtime;
    assert_true(state_places(environment, &places));
    text[0] = '\0';
    for (unsigned int i = 0; i < places.count; i++) {
        strcat(text, i == 0 ? "" : " ");
        strcat(text, places.at[i].folder);
    }
    state_places_free(&places);
    return text;
}

static void as_another_user(void *unused)
{
    (void)unused;
    CHECK(setresuid(STATE_OTHER_USER, STATE_OTHER_USER, STATE_OTHER_USER) == 0);
    CHECK(strcmp(places_with(NULL, NULL), "/run/user/65534/sockfuse /dev/shm/sockfuse-65534 /tmp/sockfuse-65534") == 0);
    CHECK(strcmp(places_with(NULL, "/run/user/65534"), places_with(NULL, NULL)) == 0);
    CHECK(strcmp(places_with("/s", "/run/user/65534"), "/s") == 0);
    CHECK(strcmp(places_with(NULL, "/elsewhere//"), "/elsewhere/sockfuse /run/user/65534/sockfuse "
                                                    "/dev/shm/sockfuse-65534 /tmp/sockfuse-65534") == 0);
}

static void the_state_folder_that_is_named_is_the_only_one(void **state)
{
    (void)state;
    assert_string_equal(places_with("/var/lib/fuses", "/run/user/7"), "/var/lib/fuses");
    assert_string_equal(places_with("/var/lib/fuses///", NULL), "/var/lib/fuses");
    assert_string_equal(places_with("/", NULL), "/");
}

static void without_a_name_there_are_several_places_which_depend_on_the_user(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    const char *roots = "/run/sockfuse /run/user/0/sockfuse /dev/shm/sockfuse-0 /tmp/sockfuse-0";
    /* A relative XDG_RUNTIME_DIR is void. */
    assert_string_equal(places_with(NULL, NULL), roots);
    assert_string_equal(places_with("", ""), roots);
    assert_string_equal(places_with(NULL, "user/7"), roots);
    assert_string_equal(places_with(NULL, "/run/user/0"), roots);
    assert_string_equal(places_with(NULL, "/run/user/7"),
                        "/run/sockfuse /run/user/7/sockfuse /run/user/0/sockfuse /dev/shm/sockfuse-0 /tmp/sockfuse-0");
    assert_int_equal(child_run(as_another_user, NULL), 0);
}

static void a_relative_state_folder_stays_where_it_was_named(void **state)
{
    struct state *place = *state;
    char here[PATH_MAX], expected[PATH_MAX + 16];
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(place->parent), 0);
    snprintf(expected, sizeof expected, "%s/a/b", place->parent);
    const char *folder = places_with("a/b/", NULL);
    assert_int_equal(chdir("/"), 0);
    assert_string_equal(folder, expected);
    assert_string_equal(places_with("a", NULL), "/a");
    assert_int_equal(chdir(here), 0);
}

static void a_state_folder_that_does_not_fit_is_none(void **state)
{
    (void)state;
    struct state_places places = {0};
    char folder[PATH_MAX];
    memset(folder, 'x', sizeof folder);
    folder[0] = '/';
    folder[sizeof folder - 1] = '\0';
    assert_true(state_place_named(folder, &places));
    assert_false(state_places_name(&places, STATE_IDENTITY));
    state_places_free(&places);
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
    assert_true(segment_path("/", "/etc/a.policy + patterns: 10.0.0.0/8:1", path, sizeof path));
    assert_int_equal(strncmp(path, "/a-patterns-", 12), 0);
    assert_true(segment_path("/", "/etc/a.policy + options: fallback=unix:/run/x", path, sizeof path));
    assert_int_equal(strncmp(path, "/a-options-", 11), 0);
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
    static const mode_t masks[] = {0, 022, 077, 0777, 0277, 0177};
    char inner[96];
    for (size_t at = 0; at < sizeof masks / sizeof masks[0]; at++) {
        struct segment_error error;
        snprintf(place->folder, sizeof place->folder, "%s/state%u", place->parent, (unsigned int)at);
        snprintf(inner, sizeof inner, "%s/inner", place->folder);
        mode_t former = umask(masks[at]);
        bool attached = segment_attach(&place->segment, inner, STATE_IDENTITY, NULL, &error);
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

static void no_umask_takes_the_file_from_its_user(void **state)
{
    struct state *place = *state;
    make_folder(place->folder, 0700);
    mode_t former = umask(0777);
    bool attached = state_attach(place);
    umask(former);
    assert_true(attached);
    assert_int_equal(status_of(place->path).st_mode, S_IFREG | 0600);
}

static void all_blocks_of_a_fresh_file_are_there(void **state)
{
    struct state *place = *state;
    assert_true(state_attach(place));
    struct stat status = status_of(place->path);
    assert_int_equal(status.st_size, place->segment.size);
    assert_true((uint64_t)status.st_blocks * 512 >= place->segment.size);
}

static void a_fresh_segment_is_empty_and_says_whose_it_is(void **state)
{
    struct state *place = *state;
    uint64_t before = clock_wall_ns();
    assert_true(state_attach(place));
    const struct segment_header *map = place->segment.map;
    const struct segment_stamp *stamp = &map->stamp;
    assert_int_equal(stamp->magic, SEGMENT_MAGIC);
    assert_int_equal(stamp->version, SEGMENT_VERSION);
    assert_int_equal(stamp->size, place->segment.size);
    assert_memory_equal(&stamp->capacity, &CAPACITY_BUILT_IN, sizeof stamp->capacity);
    assert_int_equal(strlen(stamp->boot_id), 36);
    assert_true(stamp->created_ns >= before && stamp->created_ns <= clock_wall_ns());
    assert_string_equal(segment_identity(&place->segment), STATE_IDENTITY);
    const char *bytes = (const char *)map;
    size_t header = sizeof *map;
    for (size_t at = header; at < place->segment.size; at++)
        assert_int_equal(bytes[at], 0);
}

static void attaching_again_finds_what_was_written(void **state)
{
    struct state *place = *state;
    static struct segment second;
    unsigned int descriptors = open_descriptors();
    assert_true(state_attach(place));
    assert_true(segment_attach(&second, place->folder, STATE_IDENTITY, NULL, &place->error));
    assert_string_equal(place->error.text, "");
    assert_int_equal(open_descriptors(), descriptors);
    assert_int_equal(second.inode, place->segment.inode);
    atomic_store(&place->segment.map->no_room[0], 7);
    assert_int_equal(atomic_load(&second.map->no_room[0]), 7);
    segment_detach(&second);
    assert_null(second.map);
    segment_detach(&second);
    assert_true(state_attach(place));
    assert_int_equal(atomic_load(&place->segment.map->no_room[0]), 7);
}

static void each_policy_has_a_segment_of_its_own(void **state)
{
    struct state *place = *state;
    static struct segment other;
    assert_true(state_attach(place));
    assert_true(segment_attach(&other, place->folder, "/etc/other.policy", NULL, &place->error));
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
        assert_true(segment_attach(&segments[at], place->folder, identity, NULL, &place->error));
        assert_string_equal(place->error.text, "");
    }
    assert_int_equal(segments[0].inode, segments[1].inode);
    assert_int_equal(strlen(segment_identity(&segments[0])), SEGMENT_IDENTITY_MAX - 1);
    segment_detach(&segments[1]);
    /* One that differs behind the end of the place has another. */
    identity[SEGMENT_IDENTITY_MAX + 50] = 'y';
    assert_true(segment_attach(&segments[1], place->folder, identity, NULL, &place->error));
    assert_int_not_equal(segments[0].inode, segments[1].inode);
    segment_detach(&segments[0]);
    segment_detach(&segments[1]);
}

/* --- observers, lists, private ones ------------------------------------------------------------------------------- */

static void write_to_map(void *context)
{
    struct state *place = context;
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGSEGV, SIG_DFL);
    atomic_store(&place->segment.map->no_room[0], 1);
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
    assert_int_equal(atomic_load(&place->segment.map->no_room[0]), 1);
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
    leave_file(place, "a.segment.old");
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
    CHECK(atomic_load(&place->segment.map->no_room[0]) == 3);
    atomic_store(&place->segment.map->no_room[0], 4);
}

static void a_private_segment_is_shared_with_nobody(void **state)
{
    struct state *place = *state;
    assert_true(segment_private(&place->segment, STATE_IDENTITY, NULL));
    assert_string_equal(place->segment.path, "");
    assert_int_equal(place->segment.inode, 0);
    assert_true(segment_is_current(&place->segment));
    assert_string_equal(segment_identity(&place->segment), STATE_IDENTITY);
    atomic_store(&place->segment.map->no_room[0], 3);
    assert_int_equal(child_run(count_in_map, place), 0);
    assert_int_equal(atomic_load(&place->segment.map->no_room[0]), 3);
    assert_int_equal(count_files(place->parent), 0);
}

static void an_identity_without_an_end_is_not_read_beyond_its_place(void **state)
{
    struct state *place = *state;
    memset(place->segment.map->identity, 'x', SEGMENT_IDENTITY_MAX);
    memset(place->segment.processes, 'x', place->segment.capacity.processes * sizeof *place->segment.processes);
    assert_string_equal(segment_identity(&place->segment), "");
}

#define FRESH(name) cmocka_unit_test_setup_teardown(name, state_setup, state_teardown)
#define ATTACHED(name) cmocka_unit_test_setup_teardown(name, state_setup_attached, state_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(the_state_folder_that_is_named_is_the_only_one),
        FRESH(without_a_name_there_are_several_places_which_depend_on_the_user),
        FRESH(a_relative_state_folder_stays_where_it_was_named),
        FRESH(a_state_folder_that_does_not_fit_is_none),
        FRESH(a_segments_name_tells_people_its_policy),
        FRESH(a_missing_segment_is_made_with_its_folder_for_this_user_alone),
        FRESH(no_umask_takes_the_file_from_its_user),
        FRESH(all_blocks_of_a_fresh_file_are_there),
        FRESH(a_fresh_segment_is_empty_and_says_whose_it_is),
        FRESH(attaching_again_finds_what_was_written),
        FRESH(each_policy_has_a_segment_of_its_own),
        FRESH(an_identity_longer_than_its_place_still_has_one_segment),
        ATTACHED(an_observer_may_be_held_to_reading),
        FRESH(segments_are_listed_by_name),
        FRESH(a_private_segment_is_shared_with_nobody),
        ATTACHED(an_identity_without_an_end_is_not_read_beyond_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
