/*
 * stress_segment.c - many threads and processes on one segment, some of them killed at any moment.
 *
 * The journal's readers never see a mixed event, a place in the table of processes never has two owners, and starters
 * that are killed, with a saboteur who spoils and deletes the file meanwhile, leave a segment that the next one can
 * use.
 */
#define _GNU_SOURCE
#include "support_segment.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "segment/journal.h"
#include "segment/layout.h"
#include "segment/processes.h"

#define WRITERS 4u
#define EVENTS_EACH 20000u

/* --- the journal -------------------------------------------------------------------------------------------------- */

/* All of an event follows from two numbers: a mix of two events shows. */
static struct event event_of(uint32_t writer, uint32_t number)
{
    struct event event = {.type = EVENT_FAILURE, .kind = FAILURE_RESET, .pid = writer, .elapsed_ms = number};
    event.time_ns = (uint64_t)writer << 32 | number;
    event.mono_ns = ~event.time_ns;
    event.refused = event.time_ns * UINT64_C(0x9e3779b97f4a7c15);
    snprintf(event.program, sizeof event.program, "writer %u", writer);
    memset(event.target, 'a' + (int)(number % 26), sizeof event.target - 1);
    memset(event.destination, 'a' + (int)(number % 23), sizeof event.destination - 1);
    return event;
}

static bool is_whole(const struct event *event)
{
    struct event expected = event_of(event->pid, event->elapsed_ms);
    return memcmp(event, &expected, sizeof expected) == 0;
}

struct press {
    struct segment *segment;
    _Atomic uint32_t writers, next_writer;
    _Atomic uint64_t mixed, read;
};

static void *write_events(void *context)
{
    struct press *press = context;
    uint32_t writer = atomic_fetch_add(&press->next_writer, 1);
    for (uint32_t number = 0; number < EVENTS_EACH; number++) {
        struct event event = event_of(writer, number);
        journal_append(press->segment, &event);
    }
    atomic_fetch_sub(&press->writers, 1);
    return NULL;
}

static void read_all(struct press *press)
{
    struct event event;
    uint64_t head = journal_head(press->segment);
    for (uint64_t number = journal_oldest(press->segment); number != head; number++) {
        if (!journal_read(press->segment, number, &event))
            continue;
        atomic_fetch_add(&press->read, 1);
        if (!is_whole(&event))
            atomic_fetch_add(&press->mixed, 1);
    }
}

static void *read_events(void *context)
{
    struct press *press = context;
    while (atomic_load(&press->writers) > 0)
        read_all(press);
    return NULL;
}

static void readers_never_see_a_mixed_event(void **state)
{
    struct state *place = *state;
    struct press press = {.segment = &place->segment, .writers = WRITERS};
    pthread_t threads[WRITERS + 2];
    for (unsigned int at = 0; at < WRITERS + 2; at++)
        assert_int_equal(pthread_create(&threads[at], NULL, at < WRITERS ? write_events : read_events, &press), 0);
    for (unsigned int at = 0; at < WRITERS + 2; at++)
        assert_int_equal(pthread_join(threads[at], NULL), 0);
    assert_int_equal(journal_head(&place->segment), WRITERS * EVENTS_EACH);
    assert_int_equal(atomic_load(&press.mixed), 0);
    /* Afterwards the ring is full, but for places where a writer was overtaken by a whole round. */
    atomic_store(&press.read, 0);
    read_all(&press);
    assert_int_equal(atomic_load(&press.mixed), 0);
    assert_true(atomic_load(&press.read) >= CAPACITY_EVENTS - WRITERS);
}

static void write_for_ever(void *context)
{
    struct press *press = context;
    uint32_t writer = (uint32_t)getpid();
    for (uint32_t number = 0;; number++) {
        struct event event = event_of(writer, number);
        journal_append(press->segment, &event);
    }
}

static void writers_killed_at_any_instruction_leave_gaps_at_most(void **state)
{
    struct state *place = *state;
    struct press press = {.segment = &place->segment};
    srandom(3);
    for (unsigned int round = 0; round < 60; round++) {
        pid_t children[2];
        for (unsigned int at = 0; at < 2; at++)
            children[at] = child_start(write_for_ever, &press);
        usleep((useconds_t)random() % 3000);
        read_all(&press);
        for (unsigned int at = 0; at < 2; at++)
            child_kill(children[at]);
        atomic_store(&press.read, 0);
        read_all(&press);
        assert_int_equal(atomic_load(&press.mixed), 0);
        uint64_t events = journal_head(&place->segment) - journal_oldest(&place->segment);
        /* Each of the killed ones can have spoiled two places: the one that it drew, and the one that it was in. */
        assert_true(atomic_load(&press.read) + 2 * 2 * (round + 1) >= events);
    }
}

/* --- the table of processes --------------------------------------------------------------------------------------- */

struct guests {
    struct segment *segment;
    _Atomic uint32_t owners[CAPACITY_PROCESSES];
    _Atomic uint32_t twice, refused;
};

/* Joins and leaves; while it is there, the place is its alone. */
static void come_and_go(struct guests *guests, unsigned int rounds)
{
    struct process_view view;
    char name[PROGRAM_NAME_MAX];
    for (unsigned int round = 0; round < rounds; round++) {
        snprintf(name, sizeof name, "guest %d %u", (int)gettid(), round);
        uint32_t holder = process_join(guests->segment, name, round), index = (holder >> 20) - 1;
        if (holder == 0) {
            atomic_fetch_add(&guests->refused, 1);
            continue;
        }
        if (atomic_fetch_add(&guests->owners[index], 1) != 0 || !process_describe(guests->segment, holder, &view) ||
            strcmp(view.program, name) != 0 || view.revision != round || view.pid != (uint32_t)getpid())
            atomic_fetch_add(&guests->twice, 1);
        atomic_fetch_sub(&guests->owners[index], 1);
        process_leave(guests->segment, holder);
    }
}

static void *come_and_go_in_a_thread(void *context)
{
    come_and_go(context, 1500);
    return NULL;
}

static void come_and_go_in_a_process(void *context)
{
    come_and_go(context, 1000);
}

static struct guests *invite(struct state *place)
{
    struct guests *guests = mmap(NULL, sizeof *guests, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(guests != MAP_FAILED);
    guests->segment = &place->segment;
    return guests;
}

static void no_two_threads_have_one_place(void **state)
{
    struct state *place = *state;
    struct guests *guests = invite(place);
    pthread_t threads[4];
    for (unsigned int at = 0; at < 4; at++)
        assert_int_equal(pthread_create(&threads[at], NULL, come_and_go_in_a_thread, guests), 0);
    for (unsigned int at = 0; at < 4; at++)
        assert_int_equal(pthread_join(threads[at], NULL), 0);
    assert_int_equal(atomic_load(&guests->twice), 0);
    assert_int_equal(atomic_load(&guests->refused), 0);
    assert_true(atomic_load(&place->segment.map->processes_high) <= 64);
    munmap(guests, sizeof *guests);
}

static void no_two_processes_have_one_place(void **state)
{
    struct guests *guests = invite(*state);
    pid_t children[6];
    for (unsigned int at = 0; at < 6; at++)
        children[at] = child_start(come_and_go_in_a_process, guests);
    for (unsigned int at = 0; at < 6; at++)
        assert_int_equal(child_end(children[at]), 0);
    assert_int_equal(atomic_load(&guests->twice), 0);
    assert_int_equal(atomic_load(&guests->refused), 0);
    munmap(guests, sizeof *guests);
}

static void join_for_ever(void *context)
{
    struct guests *guests = context;
    for (;;)
        process_leave(guests->segment, process_join(guests->segment, "killed", 1));
}

static void processes_killed_while_they_join_leave_places_that_are_taken_again(void **state)
{
    struct state *place = *state;
    struct guests *guests = invite(place);
    struct process_view view;
    srandom(5);
    for (unsigned int round = 0; round < 150; round++) {
        pid_t children[2];
        for (unsigned int at = 0; at < 2; at++)
            children[at] = child_start(join_for_ever, guests);
        usleep((useconds_t)random() % 2000);
        for (unsigned int at = 0; at < 2; at++)
            child_kill(children[at]);
    }
    uint32_t cursor = 0;
    assert_false(process_next(&place->segment, &cursor, &view));
    /* Three hundred were killed; their places were not just passed over. */
    for (unsigned int count = 0; count < CAPACITY_PROCESSES; count++)
        assert_int_not_equal(process_join(&place->segment, "one", 1), 0);
    assert_int_equal(process_join(&place->segment, "one", 1), 0);
    munmap(guests, sizeof *guests);
}

/* --- starters ----------------------------------------------------------------------------------------------------- */

/* Starts again and again; what it maps is whole, always. */
static void start_for_ever(void *context)
{
    struct state *place = context;
    for (;;) {
        CHECK(state_attach(place) || strstr(place->error.text, "again and again"));
        if (!place->segment.map)
            continue;
        CHECK(place->segment.map->stamp.magic == SEGMENT_MAGIC);
        CHECK(strcmp(segment_identity(&place->segment), STATE_IDENTITY) == 0);
        atomic_fetch_add(&place->segment.map->no_room[0], 1);
        segment_detach(&place->segment);
    }
}

/* Puts a bad file in the segment's place, in one step as any editor does, or removes it. */
static void spoil(struct state *place)
{
    char bad[PATH_MAX];
    switch (random() % 3) {
    case 0:
        unlink(place->path);
        return;
    case 1:
    case 2:
        snprintf(bad, sizeof bad, "%s/bad", place->parent);
        int fd = open(bad, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, random() % 2 ? 100 : (off_t)layout_measure(&CAPACITY_BUILT_IN).size), 0);
        close(fd);
        assert_int_equal(rename(bad, place->path), 0);
    }
}

static int (*const real_gettime)(clockid_t, struct timespec *) = clock_gettime;

static int time_in_an_hour(clockid_t clock, struct timespec *time)
{
    int result = real_gettime(clock, time);
    time->tv_sec += clock == CLOCK_REALTIME ? 3600 : 0;
    return result;
}

static void starters_killed_at_any_instruction_leave_a_usable_segment(void **state)
{
    struct state *place = *state;
    srandom(9);
    assert_true(state_attach(place));
    segment_detach(&place->segment);
    for (unsigned int round = 0; round < 120; round++) {
        pid_t children[3];
        for (unsigned int at = 0; at < 3; at++)
            children[at] = child_start(start_for_ever, place);
        for (unsigned int step = 0; step < 4; step++) {
            spoil(place);
            usleep((useconds_t)random() % 700);
        }
        for (unsigned int at = 0; at < 3; at++)
            child_kill(children[at]);
        assert_true(state_attach(place));
        assert_true(segment_is_current(&place->segment));
        segment_detach(&place->segment);
    }
    /* What they left is swept when it is old. */
    clock_use(time_in_an_hour);
    assert_true(state_attach(place));
    clock_use(NULL);
    assert_int_equal(count_files(place->folder), 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, state_setup_attached, state_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(readers_never_see_a_mixed_event),
        TEST(writers_killed_at_any_instruction_leave_gaps_at_most),
        TEST(no_two_threads_have_one_place),
        TEST(no_two_processes_have_one_place),
        TEST(processes_killed_while_they_join_leave_places_that_are_taken_again),
        TEST(starters_killed_at_any_instruction_leave_a_usable_segment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
