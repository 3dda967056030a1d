/*
 * test_memory_goes.c - an address that was good a moment ago: its memory is taken away, by whatever call, below another
 * thread's hands, or beside a stack; connect says EFAULT as without the library, and nobody crashes.
 */
/* links: core */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "support.h"

#define PAGE 65536u /* of no machine is it larger */
#define ROUNDS 2000

static struct server nobody;
static _Alignas(PAGE) char own_data[3 * PAGE] = {1};

/* --- ways to take a page away --- */

static void by_mprotect(char *page)
{
    CHECK(mprotect(page, PAGE, PROT_NONE) == 0);
}
static void by_munmap(char *page)
{
    CHECK(munmap(page, PAGE) == 0);
}
static void by_mmap(char *page)
{
    CHECK(mmap(page, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page);
}
static void by_mmap64(char *page)
{
    CHECK(mmap64(page, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page);
}
static char *elsewhere(int protection)
{
    char *place = mmap(NULL, PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(place != MAP_FAILED);
    return place;
}
static void by_moving_it(char *page)
{
    CHECK(mremap(page, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere(PROT_NONE)) != MAP_FAILED);
}
static void by_moving_over_it(char *page)
{
    CHECK(mremap(elsewhere(PROT_NONE), PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, page) == page);
}
static void by_pkey_mprotect(char *page)
{
    CHECK(pkey_mprotect(page, PAGE, PROT_NONE, -1) == 0 || mprotect(page, PAGE, PROT_NONE) == 0);
}
static void by_mprotect_by_number(char *page)
{
    CHECK(syscall(SYS_mprotect, page, PAGE, PROT_NONE) == 0);
}
static void by_munmap_by_number(char *page)
{
    CHECK(syscall(SYS_munmap, page, PAGE) == 0);
}

static void (*const ways[])(char *page) = {
    by_mprotect,           by_munmap,           by_mmap, by_mmap64, by_moving_it, by_moving_over_it, by_pkey_mprotect,
    by_mprotect_by_number, by_munmap_by_number,
};
#define WAYS (sizeof ways / sizeof *ways)

static int try_from(const char *page)
{
    int fd = caller_socket(&nobody, 0);
    int error = connect(fd, (const struct sockaddr *)(const void *)page, nobody.length) == 0 ? 0 : errno;
    bare.close(fd);
    return error;
}

static void take_it_away(char *page, void (*way)(char *page))
{
    memcpy(page, &nobody.address, nobody.length);
    CHECK(try_from(page) == ECONNREFUSED && try_from(page) == ECONNREFUSED); /* seen to be good */
    way(page);
    CHECK(try_from(page) == EFAULT);
}

/* Each way in a process of its own. */
static void in_children(void (*what)(size_t way))
{
    for (size_t i = 0; i < WAYS; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            what(i);
            _exit(0);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        if (!exited_well(status))
            fprintf(stderr, "way %zu: status %x\n", i, (unsigned int)status);
        CHECK(exited_well(status));
    }
}

/* --- the program's data, and the heap --- */

static void take_data(size_t way)
{
    take_it_away(own_data + PAGE, ways[way]);
}

static void take_heap(size_t way)
{
    char *page = sbrk((intptr_t)(4 * PAGE));
    CHECK(page != (char *)-1);
    take_it_away(page + PAGE - (uintptr_t)page % PAGE, ways[way]);
}

static int scene_data(int argc, char **argv)
{
    (void)argc, (void)argv;
    server_start(&nobody, "127.0.0.2", SERVER_REFUSES);
    in_children(take_data);
    in_children(take_heap);
    return 0;
}

/* --- behind a stack --- */

#define STACK (2 * PAGE)

static size_t way_behind;
static char *stack;

static void *take_what_is_behind(void *unused)
{
    take_it_away(stack + STACK, ways[way_behind]);
    return unused;
}

/* The C library gives no thread another guard page above its stack. */
static void take_behind_thread(size_t way)
{
    pthread_attr_t attributes;
    pthread_t thread;
    way_behind = way;
    stack = mmap(NULL, STACK + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED && pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstack(&attributes, stack, STACK) == 0);
    CHECK(pthread_create(&thread, &attributes, take_what_is_behind, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

static void on_coroutine(void)
{
    take_what_is_behind(NULL);
}

static void take_behind_coroutine(size_t way)
{
    static ucontext_t here, there;
    way_behind = way;
    stack = mmap(NULL, STACK + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED && getcontext(&there) == 0);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = STACK;
    there.uc_link = &here;
    makecontext(&there, on_coroutine, 0);
    CHECK(swapcontext(&here, &there) == 0);
}

static int scene_stacks(int argc, char **argv)
{
    (void)argc, (void)argv;
    server_start(&nobody, "127.0.0.2", SERVER_REFUSES);
    in_children(take_behind_thread);
    in_children(take_behind_coroutine);
    return 0;
}

/* --- meanwhile --- */

static char *flickering;
static atomic_bool over;

static void *flicker(void *unused)
{
    while (!over) {
        mprotect(flickering, PAGE, PROT_NONE);
        mprotect(flickering, PAGE, PROT_READ | PROT_WRITE);
    }
    return unused;
}

static void use_what_flickers(char *page)
{
    pthread_t thread;
    flickering = page;
    over = false;
    memcpy(page, &nobody.address, nobody.length);
    CHECK(pthread_create(&thread, NULL, flicker, NULL) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        int error = try_from(page);
        CHECK(error == EFAULT || error == ECONNREFUSED);
    }
    over = true;
    CHECK(pthread_join(thread, NULL) == 0);
}

static int scene_meanwhile(int argc, char **argv)
{
    (void)argc, (void)argv;
    server_start(&nobody, "127.0.0.2", SERVER_REFUSES);
    use_what_flickers(elsewhere(PROT_READ | PROT_WRITE));
    use_what_flickers(own_data + PAGE);
    use_what_flickers(aligned_alloc(PAGE, PAGE));
    return 0;
}

/* --- the tests --- */

static void holds(const char *scene)
{
    static const char *const policies[] = {
        "[everything]\nmatch = *:* unix:*\nmode = observe\n",
        "[everything]\nmatch = *:* unix:*\nmode = open\n",
    };
    char output[1024] = "";
    assert_true(exited_well(scene_run(scene, &(struct scene_options){.preload = ""})));
    for (size_t i = 0; i < 2; i++) {
        struct scene_options options = {.policy = policies[i], .output = output, .output_size = sizeof output};
        if (!exited_well(scene_run(scene, &options)))
            fail_msg("%s: %s", policies[i], output);
    }
}

static void data_and_heap_that_were_taken_away_are_bad_addresses(void **state)
{
    (void)state;
    holds("data");
}

static void what_lies_behind_a_stack_may_go(void **state)
{
    (void)state;
    holds("stacks");
}

static void an_address_may_go_while_it_is_connected_to(void **state)
{
    (void)state;
    holds("meanwhile");
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {
        {"data", scene_data}, {"stacks", scene_stacks}, {"meanwhile", scene_meanwhile}, {NULL, NULL}};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_and_heap_that_were_taken_away_are_bad_addresses),
        cmocka_unit_test(what_lies_behind_a_stack_may_go),
        cmocka_unit_test(an_address_may_go_while_it_is_connected_to),
    };
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
