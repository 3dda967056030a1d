/*
 * test_proof.c - what the lock of a living image rests on: how long the kernel keeps it, and who sees it.
 */
#define _GNU_SOURCE
#include "support_segment.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "segment/layout.h"
#include "segment/processes.h"
#include "segment/proof.h"

struct shared {
    struct segment *segment;
    const char *folder;
    _Atomic uint32_t holder;
    _Atomic uint32_t step;
};

static struct shared *share(struct state *place)
{
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    shared->segment = &place->segment;
    shared->folder = place->folder;
    return shared;
}

static void join(void *context)
{
    struct shared *shared = context;
    uint32_t holder = process_join(shared->segment, "child", 1);
    CHECK(holder != 0);
    CHECK(proof_ask(shared->segment, holder) == LOCK_STANDS);
    shared->holder = holder;
}

static enum lock_answer ask(const struct shared *shared)
{
    return proof_ask(shared->segment, shared->holder);
}

/* --- as long as the image goes on --- */

static void it_stands_until_the_process_is_killed(void **state)
{
    struct shared *shared = share(*state);
    unsigned int before = open_descriptors();
    pid_t child = child_hang(join, shared);
    assert_int_equal(ask(shared), LOCK_STANDS);
    assert_true(process_alive(shared->segment, shared->holder));
    assert_int_equal(open_descriptors(), before);
    child_kill(child);
    assert_int_equal(ask(shared), LOCK_GONE);
    assert_false(process_alive(shared->segment, shared->holder));
}

static void close_everything(void *context)
{
    join(context);
    CHECK(close_range(3, ~0U, 0) == 0);
    CHECK(ask(context) == LOCK_STANDS);
}

static void closing_every_descriptor_does_not_end_it(void **state)
{
    assert_int_equal(child_run(close_everything, share(*state)), 0);
}

static void another_identity_is_none_of_its_business(void **state)
{
    struct state *place = *state;
    uint32_t holder = process_join(&place->segment, "one", 1);
    assert_int_equal(proof_ask(&place->segment, holder), LOCK_STANDS);
    assert_int_equal(proof_ask(&place->segment, holder + 1), LOCK_GONE);
    assert_int_equal(proof_ask(&place->segment, holder - 1), LOCK_GONE);
    /* The next one in the same place need not wait for the former one's end. */
    process_leave(&place->segment, holder);
    uint32_t next = process_join(&place->segment, "two", 1);
    assert_int_equal(next, holder + 1);
    assert_int_equal(proof_ask(&place->segment, next), LOCK_STANDS);
}

/* Their places go to others, eight being asked for by each. */
static void fifty_that_are_killed_at_once_are_all_known(void **state)
{
    struct shared *shared = share(*state);
    pid_t children[50];
    uint32_t holders[50];
    for (unsigned int i = 0; i < 50; i++) {
        children[i] = child_hang(join, shared);
        holders[i] = shared->holder;
    }
    for (unsigned int i = 0; i < 50; i++)
        assert_int_equal(kill(children[i], SIGKILL), 0);
    for (unsigned int i = 0; i < 50; i++)
        assert_int_equal(child_end(children[i]), 128 + SIGKILL);
    for (unsigned int i = 0; i < 50; i++)
        assert_false(process_alive(shared->segment, holders[i]));
    for (unsigned int i = 0; i < 200; i++)
        assert_int_not_equal(process_join(shared->segment, "one", 1), 0);
    /* Sixty-four places before anybody is asked for; then the dead ones' before unused ones. */
    assert_true(atomic_load(&shared->segment->map->processes_high) < 50 + 200);
}

/* --- fork, vfork, exec --- */

static void fork_and_die(void *context)
{
    struct shared *shared = context;
    join(shared);
    if (fork() == 0) {
        for (unsigned int tries = 0; tries < 60000 && shared->step == 0; tries++)
            usleep(1000);
        _exit(0);
    }
}

static void a_forks_child_does_not_keep_it(void **state)
{
    struct shared *shared = share(*state);
    assert_int_equal(child_run(fork_and_die, shared), 0);
    assert_int_equal(ask(shared), LOCK_GONE);
    shared->step = 1;
}

static void run_children(void *context)
{
    struct shared *shared = context;
    join(shared);
    for (unsigned int i = 0; i < 5; i++) {
        pid_t child = vfork();
        if (child == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(1);
        }
        CHECK(child > 0 && waitpid(child, NULL, 0) == child);
    }
    CHECK(system("true") == 0);
    CHECK(ask(shared) == LOCK_STANDS);
}

static void children_that_exec_do_not_end_it(void **state)
{
    assert_int_equal(child_run(run_children, share(*state)), 0);
}

/* Another program, that says it runs and waits to be killed. */
static void exec_a_script(void *context)
{
    struct shared *shared = context;
    join(shared);
    execl("/bin/sh", "sh", "-c", "kill -USR1 $PPID; read nothing", (char *)NULL);
    CHECK(false);
}

static void *exec_in_a_thread(void *context)
{
    exec_a_script(context);
    return NULL;
}

static void exec_from_a_thread(void *context)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, exec_in_a_thread, context) == 0);
    pthread_join(thread, NULL);
}

static void assert_exec_ends_it(struct shared *shared, void (*live)(void *context))
{
    sigset_t usr1;
    siginfo_t info;
    int ends[2], keep = dup(STDIN_FILENO);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    assert_int_equal(sigprocmask(SIG_BLOCK, &usr1, NULL), 0);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[0], STDIN_FILENO), STDIN_FILENO);
    pid_t child = child_start(live, shared);
    assert_int_equal(sigwaitinfo(&usr1, &info), SIGUSR1);
    /* The pid is the same, and lives. */
    assert_int_equal(kill(child, 0), 0);
    assert_int_equal(ask(shared), LOCK_GONE);
    assert_false(process_alive(shared->segment, shared->holder));
    child_kill(child);
    dup2(keep, STDIN_FILENO);
    close(keep);
    close(ends[0]);
    close(ends[1]);
}

static void an_exec_ends_it(void **state)
{
    struct shared *shared = share(*state);
    assert_exec_ends_it(shared, exec_a_script);
    assert_exec_ends_it(shared, exec_from_a_thread);
}

/* --- who can be asked, and who can't --- */

static void live_in_a_container(void *context)
{
    struct shared *shared = context;
    CHECK(unshare(CLONE_NEWPID) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        alarm(60);
        join(shared);
        shared->step = 1;
        for (;;)
            pause();
    }
    for (unsigned int tries = 0; tries < 60000 && shared->step == 0; tries++)
        usleep(1000);
    CHECK(shared->step == 1);
    shared->step = (uint32_t)child;
}

static void a_killed_container_is_known_by_it(void **state)
{
    if (!may_unshare(CLONE_NEWPID))
        skip();
    struct shared *shared = share(*state);
    assert_int_equal(child_run(live_in_a_container, shared), 0);
    assert_true(process_alive(shared->segment, shared->holder));
    assert_int_equal(kill((pid_t)shared->step, SIGKILL), 0);
    /* It is nobody's child here: until it has ended. */
    for (unsigned int tries = 0; tries < 60000 && ask(shared) == LOCK_STANDS; tries++)
        usleep(1000);
    assert_false(process_alive(shared->segment, shared->holder));
}

/* With name spaces of its own making, as `unshare --user --pid` does; the segment is that user's. */
static void live_as_an_ordinary_user(void *context)
{
    struct shared *shared = context;
    static struct segment segment;
    static struct segment_error error;
    CHECK(setresgid(STATE_OTHER_USER, STATE_OTHER_USER, STATE_OTHER_USER) == 0);
    CHECK(setresuid(STATE_OTHER_USER, STATE_OTHER_USER, STATE_OTHER_USER) == 0);
    CHECK(segment_attach(&segment, shared->folder, STATE_IDENTITY, NULL, &error));
    shared->segment = &segment;
    CHECK(unshare(CLONE_NEWUSER) == 0);
    live_in_a_container(shared);
    CHECK(process_alive(&segment, shared->holder));
    CHECK(kill((pid_t)shared->step, SIGKILL) == 0);
    for (unsigned int tries = 0; tries < 60000 && ask(shared) == LOCK_STANDS; tries++)
        usleep(1000);
    CHECK(!process_alive(&segment, shared->holder));
}

static void an_ordinary_users_container_too(void **state)
{
    struct state *place = *state;
    char own[96];
    if (getuid() != 0 || !may_unshare(CLONE_NEWPID | CLONE_NEWUSER))
        skip();
    struct shared *shared = share(place);
    snprintf(own, sizeof own, "%s-own", place->folder);
    assert_int_equal(mkdir(own, 0700), 0);
    assert_int_equal(chown(own, STATE_OTHER_USER, STATE_OTHER_USER), 0);
    assert_int_equal(chmod(place->parent, 0711), 0);
    shared->folder = own;
    assert_int_equal(child_run(live_as_an_ordinary_user, shared), 0);
}

static void without_its_file_slash_proc_must_do(void **state)
{
    struct state *place = *state;
    struct shared *shared = share(place);
    pid_t child = child_hang(join, shared);
    assert_int_equal(unlink(place->path), 0);
    assert_int_equal(ask(shared), LOCK_UNKNOWN);
    assert_true(process_alive(shared->segment, shared->holder));
    child_kill(child);
    assert_int_equal(ask(shared), LOCK_UNKNOWN);
    assert_false(process_alive(shared->segment, shared->holder));
}

static void another_file_in_its_place_tells_nothing(void **state)
{
    struct state *place = *state;
    struct shared *shared = share(place);
    static struct segment other;
    pid_t child = child_hang(join, shared);
    assert_int_equal(unlink(place->path), 0);
    assert_true(segment_attach(&other, place->folder, STATE_IDENTITY, NULL, &place->error));
    assert_int_equal(ask(shared), LOCK_UNKNOWN);
    assert_true(process_alive(shared->segment, shared->holder));
    segment_detach(&other);
    child_kill(child);
}

static void a_private_segment_has_none(void **state)
{
    static struct segment segment;
    (void)state;
    assert_true(segment_private(&segment, STATE_IDENTITY, NULL));
    uint32_t holder = process_join(&segment, "one", 1);
    assert_int_equal(proof_ask(&segment, holder), LOCK_UNKNOWN);
    assert_true(process_alive(&segment, holder));
    segment_detach(&segment);
}

static void join_in_a_jail(void *context)
{
    struct shared *shared = context;
    CHECK(chroot("/proc") == 0 && chdir("/") == 0);
    uint32_t holder = process_join(shared->segment, "jailed", 1);
    CHECK(holder != 0);
    CHECK(proof_ask(shared->segment, holder) == LOCK_UNKNOWN);
    shared->holder = holder;
}

static void one_that_could_not_take_it_is_asked_for_in_slash_proc(void **state)
{
    if (getuid() != 0)
        skip();
    struct shared *shared = share(*state);
    pid_t child = child_hang(join_in_a_jail, shared);
    assert_true(process_alive(shared->segment, shared->holder));
    child_kill(child);
    assert_false(process_alive(shared->segment, shared->holder));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, state_setup_attached, state_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_stands_until_the_process_is_killed),
        TEST(closing_every_descriptor_does_not_end_it),
        TEST(another_identity_is_none_of_its_business),
        TEST(fifty_that_are_killed_at_once_are_all_known),
        TEST(a_forks_child_does_not_keep_it),
        TEST(children_that_exec_do_not_end_it),
        TEST(an_exec_ends_it),
        TEST(a_killed_container_is_known_by_it),
        TEST(an_ordinary_users_container_too),
        TEST(without_its_file_slash_proc_must_do),
        TEST(another_file_in_its_place_tells_nothing),
        TEST(a_private_segment_has_none),
        TEST(one_that_could_not_take_it_is_asked_for_in_slash_proc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
