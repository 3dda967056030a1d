/*
 * test_as_user.c - what the agent does as another user: that it is him and nobody else, and that it comes to an end.
 * Real processes of a user without a name; links: agent
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/as_user.h"

#define OTHER ((uid_t)54321)
#define LIMIT_MS 60000u
#define SAID_MAX 65536u

static struct {
    struct ev_loop *loop;
    char folder[64], script[96];
    bool has_ended;
    struct as_user_result result;
    char said[SAID_MAX + 1];
} bench;

/* Shared with those that ask. */
static struct names {
    bool never_answer, kill_runner;
    _Atomic pid_t asked_by;
} * names;

/* Instead of libc's: nobody knows the other user, or who would never answers. */
struct passwd *getpwuid(uid_t uid)
{
    (void)uid;
    if (!names->never_answer)
        return NULL;
    atomic_store(&names->asked_by, getpid());
    if (names->kill_runner)
        kill(getppid(), SIGKILL);
    for (;;)
        pause();
}

static int setup(void **state)
{
    (void)state;
    names = mmap(NULL, sizeof *names, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(names, MAP_FAILED);
    if (geteuid() != 0)
        return 0;
    strcpy(bench.folder, "/tmp/sf-as-user-XXXXXX");
    assert_non_null(mkdtemp(bench.folder));
    chmod(bench.folder, 0755);
    snprintf(bench.script, sizeof bench.script, "%s/script", bench.folder);
    bench.loop = ev_default_loop(EVFLAG_NOENV);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(bench.script);
    rmdir(bench.folder);
    return 0;
}

static void note(const struct as_user_result *result, void *context)
{
    (void)context;
    bench.result = *result;
    memcpy(bench.said, result->output, result->output_length);
    bench.said[result->output_length] = '\0';
    bench.has_ended = true;
    ev_break(bench.loop, EVBREAK_ALL);
}

static void order(const struct as_user_order *given)
{
    struct as_user_order order = *given;
    if (geteuid() != 0)
        skip();
    if (order.limit_ms == 0)
        order.limit_ms = LIMIT_MS;
    if (order.output_max == 0)
        order.output_max = SAID_MAX;
    bench.has_ended = false;
    assert_true(as_user_run(bench.loop, &order, note, NULL));
    assert_int_equal(as_user_running_of(order.user), 1);
    while (!bench.has_ended)
        ev_run(bench.loop, 0);
    assert_int_equal(as_user_running(), 0);
}

/* Runs a shell's text from a file of that mode, as the other user. */
static void run_text(const char *text, mode_t mode, uint64_t limit_ms)
{
    const char *const words[] = {bench.script, "one word", NULL};
    if (geteuid() != 0)
        skip();
    unlink(bench.script);
    const int fd = open(bench.script, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    dprintf(fd, "#!/bin/sh\n%s\n", text);
    assert_int_equal(fchown(fd, OTHER, OTHER), 0);
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
    const char *const environment[] = {"SOCKFUSE_ALERT=open", NULL};
    order(&(struct as_user_order){.user = OTHER,
                                  .words = words,
                                  .environment = environment,
                                  .input = "{\"event\":\"open\"}\n",
                                  .input_length = strlen("{\"event\":\"open\"}\n"),
                                  .limit_ms = limit_ms});
}

static void expect_said(const char *text)
{
    if (strstr(bench.said, text) == NULL)
        fail_msg("`%s` is not in: %s", text, bench.said);
}

/* As some programs leave them to what they start; libc's functions change nothing about these two. */
static void leave_libcs_own_signals_ignored(void)
{
    const uint64_t ignore[4] = {1}; /* SIG_IGN, as the kernel has it */
    for (int number = 32; number <= 33; number++)
        assert_int_equal(syscall(SYS_rt_sigaction, number, ignore, NULL, (size_t)8), 0);
}

static void a_command_is_that_user_and_has_nothing_of_the_agents(void **state)
{
    (void)state;
    setenv("LD_PRELOAD", "/nowhere/evil.so", 1);
    setenv("SECRET", "of root's", 1);
    const int kept = open("/dev/null", O_RDONLY);
    leave_libcs_own_signals_ignored();
    run_text("echo \"args: $#, $1\"; cat; grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|SigIgn|SigBlk)' /proc/self/status; "
             "env | sort; echo \"folder: $(pwd)\"; for fd in /proc/self/fd/*; do echo \"fd ${fd##*/}\"; done",
             0755, 0);
    close(kept);
    unsetenv("LD_PRELOAD");
    unsetenv("SECRET");
    assert_int_equal(bench.result.end, AS_USER_EXITED);
    assert_int_equal(bench.result.code, 0);
    expect_said("args: 1, one word\n");
    expect_said("{\"event\":\"open\"}\n");
    expect_said("Uid:\t54321\t54321\t54321\t54321\n");
    expect_said("Gid:\t65534\t65534\t65534\t65534\n");
    expect_said("Groups:\t65534 \n");
    expect_said("CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\nCapEff:\t0000000000000000\n"
                "CapBnd:\t0000000000000000\nCapAmb:\t0000000000000000\n");
    expect_said("NoNewPrivs:\t1\n");
    expect_said("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    expect_said(
        "HOME=/\nLANG=C.UTF-8\nLOGNAME=54321\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n");
    expect_said("SOCKFUSE=off\nSOCKFUSE_ALERT=open\nUSER=54321\n");
    expect_said("folder: /\n");
    assert_null(strstr(bench.said, "evil"));
    assert_null(strstr(bench.said, "SECRET"));
    assert_null(strstr(bench.said, "fd 5")); /* the shell's own for the list and the script apart */
}

/* The file's owner is root and its mode 4755: without no_new_privs it would be root's. */
static void a_set_user_id_program_gives_no_rights(void **state)
{
    (void)state;
    char copy[80], command[256];
    if (geteuid() != 0)
        skip();
    snprintf(copy, sizeof copy, "%s/id", bench.folder);
    snprintf(command, sizeof command, "cp /usr/bin/id %s && chmod 4755 %s", copy, copy);
    assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c): our own words */
    const char *const words[] = {copy, NULL};
    order(&(struct as_user_order){.user = OTHER, .words = words});
    unlink(copy);
    assert_int_equal(bench.result.end, AS_USER_EXITED);
    expect_said("uid=54321");
    assert_null(strstr(bench.said, "root"));
}

static void what_he_may_not_read_or_execute_is_not_for_him(void **state)
{
    (void)state;
    run_text("cat /etc/shadow", 0755, 0);
    assert_int_equal(bench.result.end, AS_USER_EXITED);
    assert_int_not_equal(bench.result.code, 0);
    expect_said("denied");
    run_text("exit 0", 0600, 0);
    assert_int_equal(bench.result.end, AS_USER_NOT_EXECUTED);
    assert_int_equal(bench.result.code, EACCES);
}

static void how_it_ends_is_told(void **state)
{
    (void)state;
    run_text("exit 3", 0755, 0);
    assert_int_equal(bench.result.end, AS_USER_EXITED);
    assert_int_equal(bench.result.code, 3);
    run_text("kill -SEGV $$", 0755, 0);
    assert_int_equal(bench.result.end, AS_USER_SIGNALLED);
    assert_int_equal(bench.result.code, SIGSEGV);
}

static bool somebody_is_left(void)
{
    return system("ps -o pid= -U 54321 2>/dev/null | grep -q .") == 0; /* NOLINT(cert-env33-c) */
}

static void one_that_never_ends_is_ended_with_all_that_came_of_it(void **state)
{
    (void)state;
    run_text("trap '' TERM; setsid sleep 1000 & (setsid sleep 1000 &) ; while :; do sleep 1; done", 0755, 300);
    assert_int_equal(bench.result.end, AS_USER_TIMED_OUT);
    assert_false(somebody_is_left());
    run_text("setsid sleep 1000 & echo gone", 0755, 0);
    assert_int_equal(bench.result.end, AS_USER_EXITED);
    expect_said("gone");
    assert_false(somebody_is_left());
}

/* Directory servers that are out of reach may keep whoever asks for a user's groups. */
static void name_services_that_never_answer_take_no_longer_than_the_command_may(void **state)
{
    (void)state;
    names->never_answer = true;
    run_text("echo done", 0755, 300);
    assert_int_equal(bench.result.end, AS_USER_TIMED_OUT);
    names->kill_runner = true;
    run_text("echo done", 0755, 0);
    names->never_answer = names->kill_runner = false;
    assert_int_equal(bench.result.end, AS_USER_LOST);
    while (kill(names->asked_by, 0) == 0) /* it ends with its runner */
        usleep(1000);
}

static void one_that_talks_without_end_is_ended(void **state)
{
    (void)state;
    run_text("exec cat /dev/zero", 0755, 0);
    assert_int_equal(bench.result.end, AS_USER_TALKED);
    assert_int_equal(bench.result.output_length, SAID_MAX);
}

static void one_that_multiplies_is_bounded_and_ended(void **state)
{
    (void)state;
    run_text("f() { f | f & f; }; f 2>/dev/null", 0755, 500);
    assert_true(bench.result.end == AS_USER_TIMED_OUT || bench.result.end == AS_USER_EXITED);
    assert_false(somebody_is_left());
}

static int read_it(const void *context)
{
    char bytes[256];
    const int fd = open(context, O_RDONLY | O_CLOEXEC);
    const ssize_t got = fd >= 0 ? read(fd, bytes, sizeof bytes) : -1;
    return got > 0 && write(STDOUT_FILENO, bytes, (size_t)got) == got ? 0 : 1;
}

static void a_function_reads_with_that_users_rights(void **state)
{
    (void)state;
    run_text("exit 0", 0600, 0);
    order(&(struct as_user_order){.user = OTHER, .job = read_it, .job_context = bench.script});
    assert_int_equal(bench.result.code, 0);
    expect_said("exit 0");
    order(&(struct as_user_order){.user = OTHER, .job = read_it, .job_context = "/etc/shadow"});
    assert_int_equal(bench.result.code, 1);
    assert_int_equal(bench.result.output_length, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_is_that_user_and_has_nothing_of_the_agents),
        cmocka_unit_test(a_set_user_id_program_gives_no_rights),
        cmocka_unit_test(what_he_may_not_read_or_execute_is_not_for_him),
        cmocka_unit_test(how_it_ends_is_told),
        cmocka_unit_test(one_that_never_ends_is_ended_with_all_that_came_of_it),
        cmocka_unit_test(name_services_that_never_answer_take_no_longer_than_the_command_may),
        cmocka_unit_test(one_that_talks_without_end_is_ended),
        cmocka_unit_test(one_that_multiplies_is_bounded_and_ended),
        cmocka_unit_test(a_function_reads_with_that_users_rights),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
