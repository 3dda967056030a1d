/*
 * test_agent_lock.c - one agent has a segment, the next one learns which, and gets it when the first is gone.
 */
#define _GNU_SOURCE
#include "support_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "segment/agent_lock.h"

static enum agent_lock ask(const struct segment *segment, void **page, uint32_t *pid)
{
    int fd = open(segment->path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    enum agent_lock answer = agent_lock_take(segment, fd, page, pid);
    close(fd);
    return answer;
}

static void take(void *context)
{
    void *page;
    uint32_t pid;
    CHECK(ask(context, &page, &pid) == AGENT_LOCK_OURS);
}

static void the_second_learns_who_is_first_and_follows_when_that_is_killed(void **state)
{
    struct state *place = *state;
    void *page;
    uint32_t pid = 0;
    pid_t child = child_hang(take, &place->segment);
    assert_int_equal(ask(&place->segment, &page, &pid), AGENT_LOCK_ANOTHERS);
    assert_int_equal(pid, child);
    assert_null(page);
    child_kill(child);
    assert_int_equal(ask(&place->segment, &page, &pid), AGENT_LOCK_OURS);
    agent_lock_end(page);
}

static void no_descriptor_stays_and_what_is_started_does_not_keep_it(void **state)
{
    struct state *place = *state;
    void *page, *second;
    uint32_t pid = 0;
    const unsigned int before = open_descriptors();
    assert_int_equal(ask(&place->segment, &page, &pid), AGENT_LOCK_OURS);
    assert_int_equal(open_descriptors(), before);
    assert_int_equal(ask(&place->segment, &second, &pid), AGENT_LOCK_ANOTHERS);
    assert_int_equal(pid, getpid());
    pid_t child = child_hang(NULL, NULL);
    agent_lock_end(page);
    assert_int_equal(ask(&place->segment, &page, &pid), AGENT_LOCK_OURS);
    agent_lock_end(page);
    child_kill(child);
}

static void a_lock_that_tells_no_number_is_anothers_all_the_same(void **state)
{
    struct state *place = *state;
    void *page;
    uint32_t pid = 1;
    int fd = open(place->segment.path, O_RDWR | O_CLOEXEC);
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &all), 0);
    assert_int_equal(ask(&place->segment, &page, &pid), AGENT_LOCK_ANOTHERS);
    assert_int_equal(pid, 0);
    close(fd);
}

static void another_file_at_the_name_is_not_locked(void **state)
{
    struct state *place = *state;
    void *page;
    uint32_t pid;
    int fd = memfd_create("another", MFD_CLOEXEC);
    assert_int_equal(agent_lock_take(&place->segment, fd, &page, &pid), AGENT_LOCK_NONE);
    close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, state_setup_attached, state_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_second_learns_who_is_first_and_follows_when_that_is_killed),
        TEST(no_descriptor_stays_and_what_is_started_does_not_keep_it),
        TEST(a_lock_that_tells_no_number_is_anothers_all_the_same),
        TEST(another_file_at_the_name_is_not_locked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
