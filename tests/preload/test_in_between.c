/*
 * test_in_between.c - what comes in between while the library does what is not to be left half done, as the taking of
 * an edited policy: a handler that jumps out, and another thread's fork.
 */
/* links: core */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "segment/processes.h"
#include "segment/segment.h"
#include "support.h"

/* --- in between: the library's mmap is this program's --- */

static void (*_Atomic in_between)(int protection, int flags);
static _Atomic unsigned int given_back; /* rooms of policies that became zeros */

static void *map(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    void (*meanwhile)(int, int) = atomic_load(&in_between);
    void *memory = (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
    if (protection == PROT_READ && (flags & MAP_FIXED) && (flags & MAP_ANONYMOUS))
        given_back++;
    if (meanwhile)
        meanwhile(protection, flags);
    return memory;
}

#define EXPORTED __attribute__((visibility("default")))

EXPORTED void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    return map(at, size, protection, flags, fd, offset);
}

EXPORTED void *mmap64(void *at, size_t size, int protection, int flags, int fd, off64_t offset)
{
    return map(at, size, protection, flags, fd, offset);
}

/* --- reloading --- */

static void reload_with(const char *lines)
{
    char command[3 * PATH_MAX];
    snprintf(command, sizeof command,
             "unset LD_PRELOAD; printf '%s\\n' >>'%s'; '%s/sockfuse' reload -p '%s' >/dev/null 2>&1", lines,
             getenv("SOCKFUSE_POLICY"), getenv("SOCKFUSE_BUILD"), getenv("SOCKFUSE_POLICY"));
    CHECK(system(command) == 0);
}

static bool is_refused(const struct server *server)
{
    int fd = caller_socket(server, 0);
    bool refused = connect(fd, AT(server)) != 0;
    close(fd);
    return refused;
}

/* --- a jump --- */

static sigjmp_buf way_out;

static void jump(int number)
{
    (void)number;
    siglongjmp(way_out, 1);
}

static void interrupt(int protection, int flags)
{
    (void)protection, (void)flags;
    atomic_store(&in_between, NULL);
    raise(SIGUSR1);
}

static void policy_is_taken_though_a_handler_jumps_out_while_it_is(void **state)
{
    struct sigaction action = {.sa_handler = jump}, former;
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.30", SERVER_LISTENS);
    assert_false(is_refused(&server));
    reload_with("[shut]\\nmatch = 127.0.0.30:*\\nmode = open");
    sigaction(SIGUSR1, &action, &former);
    if (sigsetjmp(way_out, 1) == 0) {
        atomic_store(&in_between, interrupt);
        is_refused(&server);
        fail_msg("nothing was taken, or the jump was not made");
    }
    sigaction(SIGUSR1, &former, NULL);
    assert_true(is_refused(&server));
    server_stop(&server);
}

static void interrupt_joining(int protection, int flags)
{
    if (protection == PROT_NONE && flags == MAP_SHARED) /* the proof that the place is this process's */
        interrupt(protection, flags);
}

static unsigned int places_of_this_process(void)
{
    char path[PATH_MAX];
    struct segment segment = {0};
    struct segment_error error;
    struct process_view view;
    uint32_t cursor = 0;
    unsigned int count = 0;
    CHECK(segment_path(getenv("SOCKFUSE_STATE"), getenv("SOCKFUSE_POLICY"), path, sizeof path) &&
          segment_open(&segment, path, false, &error));
    while (process_next(&segment, &cursor, &view))
        count += view.pid == (uint32_t)getpid();
    segment_detach(&segment);
    return count;
}

static void join_and_jump(void *context)
{
    struct sigaction action = {.sa_handler = jump};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    if (sigsetjmp(way_out, 1) == 0) {
        atomic_store(&in_between, interrupt_joining);
        is_refused(context);
        CHECK(false); /* it joined, and nothing jumped */
    }
    CHECK(!is_refused(context));
    CHECK(places_of_this_process() == 1);
}

static void child_has_one_place_though_a_handler_jumps_out_while_it_joins(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    assert_false(is_refused(&server));
    assert_true(exited_well(actor_wait(actor_fork(join_and_jump, &server))));
    server_stop(&server);
}

/* --- a fork --- */

static pid_t child;

static void *fork_and_reload(void *context)
{
    struct server *server = context;
    child = fork();
    if (child != 0)
        return NULL;
    atomic_store(&given_back, 0);
    for (unsigned int i = 0; i < 4; i++) {
        reload_with("#");
        is_refused(server);
    }
    CHECK(atomic_load(&given_back) > 0);
    _exit(0);
}

static struct server *forks_to;

static void fork_in_another_thread(int protection, int flags)
{
    pthread_t thread;
    if (protection != PROT_READ || !(flags & MAP_FIXED))
        return;
    atomic_store(&in_between, NULL);
    CHECK(pthread_create(&thread, NULL, fork_and_reload, forks_to) == 0 && pthread_join(thread, NULL) == 0);
}

static void child_of_a_fork_in_the_middle_of_a_sweep_gives_policies_back(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.31", SERVER_LISTENS);
    forks_to = &server;
    assert_false(is_refused(&server));
    atomic_store(&in_between, fork_in_another_thread);
    for (unsigned int i = 0; i < 4; i++) {
        reload_with("#");
        is_refused(&server);
    }
    assert_null(atomic_load(&in_between));
    assert_true(exited_well(actor_wait(child)));
    server_stop(&server);
}

int main(int argc, char **argv)
{
    const struct scene scenes[] = {{NULL, NULL}};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policy_is_taken_though_a_handler_jumps_out_while_it_is),
        cmocka_unit_test(child_has_one_place_though_a_handler_jumps_out_while_it_joins),
        cmocka_unit_test(child_of_a_fork_in_the_middle_of_a_sweep_gives_policies_back),
    };
    stage_enter(argc, argv, stage_policy, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
