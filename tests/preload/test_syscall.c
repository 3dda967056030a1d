/*
 * test_syscall.c - syscall(2): every number passes with all its arguments, also those that return twice or not at all.
 */
/* links: core */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

static void results_and_errnos_are_the_kernels(void **state)
{
    (void)state;
    errno = 4242;
    assert_int_equal(syscall(SYS_getpid), getpid());
    assert_int_equal(syscall(SYS_gettid), gettid());
    assert_int_equal(errno, 4242);
    assert_int_equal(syscall(0x7ffffff), -1);
    assert_int_equal(errno, ENOSYS);
    assert_int_equal(syscall(-1), -1);
    assert_int_equal(errno, ENOSYS);
    assert_int_equal(syscall(SYS_close, 999), -1);
    assert_int_equal(errno, EBADF);
    assert_int_equal(syscall(SYS_read, 999, NULL, 0), -1);
    assert_int_equal(errno, EBADF);
}

static void six_arguments_arrive(void **state)
{
    (void)state;
    const char *path = stage_file("page", "");
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(ftruncate(fd, 8192), 0);
    assert_int_equal(pwrite(fd, "second page", 11, 4096), 11);
    /* The sixth is the offset; it must be a long, of which an int would fill one half. */
    long address = syscall(SYS_mmap, NULL, 4096L, (long)PROT_READ, (long)MAP_SHARED, (long)fd, 4096L);
    assert_true(address != -1);
    assert_memory_equal((void *)address, "second page", 11);
    assert_int_equal(syscall(SYS_munmap, address, 4096), 0);
    /* The fifth and sixth: a wait for a bit that never comes, until a moment ago. */
    uint32_t word = 7;
    struct timespec past = {.tv_sec = 1};
    assert_int_equal(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 7, &past, NULL, 1), -1);
    assert_int_equal(errno, ETIMEDOUT);
    assert_int_equal(syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 7, &past, NULL, 0), -1);
    assert_int_equal(errno, EINVAL);
    close(fd);
}

static void large_arguments_are_not_cut(void **state)
{
    (void)state;
    int fd = open(stage_file("sparse", ""), O_RDWR | O_CLOEXEC);
    assert_int_equal(syscall(SYS_lseek, fd, 0x123456789abL, SEEK_SET), 0x123456789abL);
    close(fd);
}

static void forks_by_number_return_in_both(void **state)
{
    int status;
    (void)state;
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
    if (pid == 0)
        _exit(21);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 21);
#ifdef SYS_fork
    pid = (pid_t)syscall(SYS_fork);
    if (pid == 0)
        syscall(SYS_exit_group, 22);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 22);
#endif
}

#ifdef __x86_64__
/*
 * vfork by number returns twice through one frame. It works as long as the child leaves the stack as it is: it ends by
 * a bare instruction, and the wrapper on the way back must not have written there either.
 */
static void vfork_by_number_returns_in_both(void **state)
{
    int status;
    (void)state;
    pid_t pid = (pid_t)syscall(SYS_vfork);
    if (pid == 0)
        __asm__ volatile("syscall" : : "a"(SYS_exit), "D"(23) : "rcx", "r11", "memory");
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 23);
}
#endif

static void life_of_a_call_by_numbers_alone(void **state)
{
    struct server server;
    char byte;
    int error = -1;
    socklen_t length = sizeof error;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_LISTENS);
    int fd = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    long result = syscall(SYS_connect, fd, &server.address, server.length);
    assert_true(result == 0 || errno == EINPROGRESS);
    poll_for(fd, POLLOUT);
    assert_int_equal(syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_ERROR, &error, &length), 0);
    assert_int_equal(error, 0);
    assert_int_equal(call_phase(&server), PHASE_CONNECTED);
    int peer = server_accept(&server);
    assert_int_equal(syscall(SYS_write, fd, "request", 7), 7);
    assert_int_equal(call_phase(&server), PHASE_REQUESTED);
    assert_int_equal(bare.send(peer, "a", 1, 0), 1);
    poll_for(fd, POLLIN);
    assert_int_equal(syscall(SYS_read, fd, &byte, 1), 1);
    expect(&server, "1 succeeded");
    assert_int_equal(syscall(SYS_close, fd), 0);
    bare.close(peer);
    expect(&server, "nothing");
    server_stop(&server);
}

static void refused_attempt_by_numbers_alone(void **state)
{
    struct server server;
    int error = -1;
    socklen_t length = sizeof error;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    int fd = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
    assert_int_equal(syscall(SYS_connect, fd, &server.address, server.length), -1);
    assert_int_equal(errno, ECONNREFUSED);
    expect(&server, "1 failed:refused");
    syscall(SYS_close, fd);
    fd = (int)syscall(SYS_socket, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    assert_int_equal(syscall(SYS_connect, fd, &server.address, server.length), -1);
    if (errno == EINPROGRESS) {
        poll_for(fd, POLLOUT);
        assert_int_equal(syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_ERROR, &error, &length), 0);
        assert_int_equal(error, ECONNREFUSED);
    }
    expect(&server, "1 failed:refused");
    syscall(SYS_close, fd);
    expect(&server, "nothing");
    server_stop(&server);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_and_errnos_are_the_kernels), cmocka_unit_test(six_arguments_arrive),
        cmocka_unit_test(large_arguments_are_not_cut),        cmocka_unit_test(forks_by_number_return_in_both),
#ifdef __x86_64__
        cmocka_unit_test(vfork_by_number_returns_in_both),
#endif
        cmocka_unit_test(life_of_a_call_by_numbers_alone),    cmocka_unit_test(refused_attempt_by_numbers_alone),
    };
    stage_enter(argc, argv, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
