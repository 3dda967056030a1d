/*
 * test_confined.c - a program that confines itself (seccomp) to what it needs itself and to the system calls that the
 * manual names is not killed; with fewer it goes on all the same.
 *
 * One scene goes all the library's ways after its start. It is counted without and with the library: whatever is called
 * more often with it must be in the manual, libsockfuse(7). Then it confines itself.
 */
/* links: core */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/close_range.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

#define NUMBERS 512

/* Calls that newer machines do not have. */
#ifdef SYS_getrlimit
#define OLD_getrlimit SYS_getrlimit
#else
#define OLD_getrlimit 0
#endif
#ifdef SYS_chmod
#define OLD_chmod SYS_chmod
#else
#define OLD_chmod 0
#endif
#ifdef SYS_access
#define OLD_access SYS_access
#else
#define OLD_access 0
#endif
#ifdef SYS_mkdir
#define OLD_mkdir SYS_mkdir
#else
#define OLD_mkdir 0
#endif
#ifdef SYS_open
#define OLD_open SYS_open
#else
#define OLD_open 0
#endif
#ifdef SYS_poll
#define OLD_poll SYS_poll
#else
#define OLD_poll 0
#endif
#ifdef SYS_rename
#define OLD_rename SYS_rename
#else
#define OLD_rename 0
#endif
#ifdef SYS_stat
#define OLD_stat SYS_stat
#else
#define OLD_stat 0
#endif
#ifdef SYS_unlink
#define OLD_unlink SYS_unlink
#else
#define OLD_unlink 0
#endif

/* The manual's pages, and the numbers under which libc calls them. A name that is not here fails the test. */
static const struct {
    const char *page;
    int numbers[5];
} pages[] = {
    {"access", {SYS_faccessat, OLD_access}},
    {"bind", {SYS_bind}},
    {"clock_gettime", {SYS_clock_gettime}},
    {"close", {SYS_close}},
    {"connect", {SYS_connect}},
    {"fallocate", {SYS_fallocate}},
    {"chmod", {SYS_fchmodat, OLD_chmod}},
    {"fchmod", {SYS_fchmod}},
    {"fcntl", {SYS_fcntl}},
    {"flock", {SYS_flock}},
    {"fstat", {SYS_fstat}},
    {"ftruncate", {SYS_ftruncate}},
    {"getcpu", {SYS_getcpu}},
    {"getdents", {SYS_getdents64}},
    {"geteuid", {SYS_geteuid}},
    {"getitimer", {SYS_getitimer}},
    {"getpeername", {SYS_getpeername}},
    {"getpid", {SYS_getpid}},
    {"getrlimit", {SYS_prlimit64, OLD_getrlimit}},
    {"getrandom", {SYS_getrandom}},
    {"getsockname", {SYS_getsockname}},
    {"getsockopt", {SYS_getsockopt}},
    {"getuid", {SYS_getuid}},
    {"ioctl", {SYS_ioctl}},
    {"kill", {SYS_kill}},
    {"link", {SYS_linkat}},
    {"lseek", {SYS_lseek}},
    {"madvise", {SYS_madvise}},
    {"mkdir", {SYS_mkdirat, OLD_mkdir}},
    {"mmap", {SYS_mmap}},
    {"mprotect", {SYS_mprotect}},
    {"mremap", {SYS_mremap}},
    {"nanosleep", {SYS_clock_nanosleep, SYS_nanosleep}},
    {"munmap", {SYS_munmap}},
    {"open", {SYS_openat, OLD_open}},
    {"poll", {SYS_ppoll, OLD_poll}},
    {"pread", {SYS_pread64}},
    {"pwrite", {SYS_pwrite64}},
    {"read", {SYS_read}},
    {"rename", {SYS_renameat, SYS_renameat2, OLD_rename}},
    {"sched_yield", {SYS_sched_yield}},
    {"send", {SYS_sendto}},
    {"sendmsg", {SYS_sendmsg}},
    {"setsockopt", {SYS_setsockopt}},
    {"shutdown", {SYS_shutdown}},
    {"sigaction", {SYS_rt_sigaction}},
    {"sigpending", {SYS_rt_sigpending}},
    {"sigtimedwait", {SYS_rt_sigtimedwait}},
    {"utimensat", {SYS_utimensat}},
    {"sigprocmask", {SYS_rt_sigprocmask}},
    {"statfs", {SYS_fstatfs}},
    {"munlock", {SYS_munlock}},
    {"process_vm_readv", {SYS_process_vm_readv}},
    {"stat", {SYS_newfstatat, SYS_fstat, OLD_stat}},
    {"unlink", {SYS_unlinkat, OLD_unlink}},
    {"write", {SYS_write}},
};

/* Marks what the manual names: between the words of its list's beginning and its end. */
static void read_manual(bool listed[NUMBERS])
{
    char path[PATH_MAX], manual[1 << 16], word[64];
    snprintf(path, sizeof path, "%s/../../src/man/libsockfuse.7", getenv("SOCKFUSE_TESTS"));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = read(fd, manual, sizeof manual - 1);
    assert_true(fd >= 0 && length > 0);
    close(fd);
    manual[length] = '\0';
    char *at = strstr(manual, "\n.Ss System calls\n"), *end = at ? strstr(at + 4, "\n.Ss ") : NULL;
    assert_true(at && end);
    *end = '\0';
    while ((at = strstr(at, "\n.Xr "))) {
        at += 5;
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at, " "), at);
        if (strncmp(at + strlen(word), " 2", 2) != 0)
            continue;
        bool known = false;
        for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
            for (size_t j = 0; !strcmp(pages[i].page, word) && j < 5 && (j == 0 || pages[i].numbers[j] > 0); j++)
                known = listed[pages[i].numbers[j]] = true;
        if (!known)
            fail_msg("the manual names %s: give its numbers here", word);
    }
}

/* --- somebody outside --- */

/* A process that is neither traced nor confined, and does what it is told by a byte. */
static int outside = -1;

static void delete_segments(void)
{
    DIR *list = opendir(getenv("SOCKFUSE_STATE"));
    struct dirent *entry;
    while (list && (entry = readdir(list)))
        if (strstr(entry->d_name, ".segment"))
            unlinkat(dirfd(list), entry->d_name, 0);
    if (list)
        closedir(list);
}

static void reload(void)
{
    char command[2 * PATH_MAX];
    snprintf(command, sizeof command, "unset LD_PRELOAD; echo >>'%s'; '%s/sockfuse' reload -p '%s' >/dev/null 2>&1",
             getenv("SOCKFUSE_POLICY"), getenv("SOCKFUSE_BUILD"), getenv("SOCKFUSE_POLICY"));
    if (system(command) != 0)
        return; /* nobody runs under it, in the run without the library */
}

/* Opens the circuit, and holds its probe. */
static void probe(void)
{
    struct server refuses, hole;
    server_start(&refuses, "127.0.0.20", SERVER_REFUSES);
    server_start(&hole, "127.0.0.20", SERVER_BLACK_HOLE);
    caller_connect(&refuses, SOCK_NONBLOCK);
    poll_for(caller_socket(&refuses, 0), POLLOUT);
    int fd = caller_socket(&refuses, 0);
    if (connect(fd, AT(&refuses)) == 0)
        return;
    wait_ms(20);
    caller_connect(&hole, SOCK_NONBLOCK);
}

static void be_outside(int end)
{
    char order;
    while (read(end, &order, 1) == 1) {
        if (order == 'd')
            delete_segments();
        else if (order == 'r')
            reload();
        else
            probe();
        CHECK(write(end, "x", 1) == 1);
    }
    _exit(0);
}

static void start_outside(void)
{
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    if (fork() == 0) {
        close(ends[0]);
        be_outside(ends[1]);
    }
    close(ends[1]);
    outside = ends[0];
}

static void order(char what)
{
    CHECK(write(outside, &what, 1) == 1 && read(outside, &what, 1) == 1);
}

/* --- the scene: what it meets does not matter --- */

static const char policy[] =
    "[defaults]\nfailure_rate = 0%\nreset_timeout = 1h\nfailure_threshold = 60000\nabandon_after = 50ms\n"
    "[plain]\nmatch = 127.0.0.1:* [::1]:* unix:*\nconnect_timeout = 20ms\n"
    "[opens]\nmatch = 127.0.0.4:*\nfailure_threshold = 1\n"
    "[limits]\nmatch = 127.0.0.5:*\nenforce_timeouts = yes\nconnect_timeout = 30ms\nresponse_timeout = 30ms\n"
    "[turns-away]\nmatch = 127.0.0.6:*\nmode = open\nfallback = 127.0.0.9:1\n"
    "[bulkhead]\nmatch = 127.0.0.7:*\nmax_connections = 1\n"
    "[answers]\nmatch = 127.0.0.8:*\ninject = http-503 at 100%\n"
    "[resets]\nmatch = 127.0.0.10:*\ninject = reset at 100%\n"
    "[hangs]\nmatch = 127.0.0.11:*\ninject = hang at 100%\n"
    "[refuses]\nmatch = 127.0.0.12:*\ninject = refuse at 100%\n"
    "[delays]\nmatch = 127.0.0.13:*\ninject = delay 10ms at 100%\n"
    "[slow]\nmatch = 127.0.0.14:*\ninject = slow 10ms at 100%\n"
    "[silent]\nmatch = 127.0.0.15:*\ninject = silence at 100%\n"
    "[closes]\nmatch = 127.0.0.16:*\ninject = early-close at 100%\n"
    "[sometimes]\nmatch = 127.0.0.17:*\ninject = http-503 at 50%\n"
    "[probed]\nmatch = 127.0.0.20:*\ncircuit = target\nfailure_threshold = 1\nreset_timeout = 10ms\njitter = 0%\n"
    "probe_timeout = 1h\nconnect_timeout = 1h\n"
    "[own]\nmatch = 127.0.0.21:*\nscope = process\n";

enum {
    ASKED,
    PLAIN,
    OPENS,
    LIMITS,
    BULKHEAD,
    ANSWERS,
    RESETS,
    HANGS,
    REFUSES,
    DELAYS,
    SLOW,
    SILENT,
    CLOSES,
    SOMETIMES,
    PROBED,
    OWN,
    IPV6,
    UNIX,
    LISTENERS
};
static const char *const hosts[LISTENERS] = {
    [ASKED] = "127.0.0.1",    [PLAIN] = "127.0.0.1",   [OPENS] = "127.0.0.4",   [LIMITS] = "127.0.0.5",
    [BULKHEAD] = "127.0.0.7", [ANSWERS] = "127.0.0.8", [RESETS] = "127.0.0.10", [HANGS] = "127.0.0.11",
    [REFUSES] = "127.0.0.12", [DELAYS] = "127.0.0.13", [PROBED] = "127.0.0.20", [OWN] = "127.0.0.21",
    [SLOW] = "127.0.0.14",    [SILENT] = "127.0.0.15", [CLOSES] = "127.0.0.16", [SOMETIMES] = "127.0.0.17",
    [IPV6] = "::1",           [UNIX] = "unix",
};
static struct server listeners[LISTENERS], refuser, opener, hole, turned;
static char *page;

static void start_servers(void)
{
    for (int i = 0; i < LISTENERS; i++)
        server_start(&listeners[i], hosts[i], SERVER_LISTENS);
    server_start(&refuser, "127.0.0.1", SERVER_REFUSES);
    server_start(&opener, "127.0.0.4", SERVER_REFUSES);
    server_start(&hole, "127.0.0.1", SERVER_BLACK_HOLE);
    server_start(&turned, "127.0.0.6", SERVER_REFUSES);
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int open_to(const struct server *server, int flags)
{
    int fd = socket(server->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    connect(fd, AT(server));
    return fd;
}

static void ask(const struct server *server, bool answers)
{
    char bytes[64];
    int fd = open_to(server, 0);
    send(fd, "request", 7, MSG_NOSIGNAL);
    if (answers) {
        int peer = accept(server->fd, NULL, NULL);
        bare.send(peer, "answer", 6, 0);
        recv(fd, bytes, sizeof bytes, 0);
        send(fd, "request", 7, MSG_NOSIGNAL);
        bare.close(peer);
        recv(fd, bytes, sizeof bytes, 0);
    } else {
        recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    }
    shutdown(fd, SHUT_WR);
    close(fd);
}

/* On a connection that is kept, if its fault lets it be. */
static void ask_at_length(const struct server *server)
{
    char bytes[64];
    struct pollfd come = {.fd = server->fd, .events = POLLIN};
    int fd = open_to(server, 0), peer = poll(&come, 1, 20) == 1 ? accept(server->fd, NULL, NULL) : -1;
    struct pollfd look = {.fd = fd, .events = POLLIN};
    for (int i = 0; i < 8; i++) {
        send(fd, "a request of some length", 24, MSG_NOSIGNAL);
        bare.send(peer, "answer", 6, MSG_NOSIGNAL);
        poll(&look, 1, 20);
        recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    }
    bare.close(peer);
    close(fd);
}

static void come_and_go(const struct server *server)
{
    int error;
    socklen_t length = sizeof error;
    int fd = open_to(server, SOCK_NONBLOCK);
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
    connect(fd, AT(server));
    close(fd);
    close(open_to(server, 0));
}

static void rest(unsigned int ms)
{
    poll(NULL, 0, (int)ms);
}

static void use_descriptors(void)
{
    int fd = open_to(&listeners[PLAIN], 0), second = dup(fd);
    dup2(fd, 3000);
    dup2(second, 3001);
    close(fd);
    fcntl(second, F_DUPFD_CLOEXEC, 3500);
    syscall(SYS_close_range, 3000, 3600, 0);
    close(second);
    memcpy(page, &listeners[PLAIN].address, sizeof listeners[PLAIN].address);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    connect(fd, (struct sockaddr *)page, sizeof(struct sockaddr_in));
    close(fd);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sendto(fd, "request", 7, MSG_FASTOPEN | MSG_NOSIGNAL, AT(&listeners[PLAIN]));
    close(fd);
}

/* A wait that enforce_timeouts ends; without the library it does not begin. */
static void wait_in_vain(bool guarded)
{
    char byte;
    int fd = open_to(&listeners[LIMITS], 0);
    send(fd, "request", 7, MSG_NOSIGNAL);
    recv(fd, &byte, 1, guarded ? 0 : MSG_DONTWAIT);
    close(fd);
    close(open_to(&listeners[LIMITS], SOCK_NONBLOCK));
}

static void go_all_ways(bool guarded)
{
    for (int i = 0; i < 2; i++)
        ask(&listeners[ASKED], true);
    ask(&listeners[UNIX], true);
    for (int i = ANSWERS; i <= UNIX; i++)
        if (i != HANGS && i != PROBED)
            ask(&listeners[i], false);
    ask_at_length(&listeners[SLOW]);
    ask_at_length(&listeners[SOMETIMES]);
    come_and_go(&refuser);
    come_and_go(&opener);
    come_and_go(&turned);
    int kept = open_to(&listeners[OPENS], 0), pending = open_to(&hole, SOCK_NONBLOCK);
    close(open_to(&listeners[HANGS], SOCK_NONBLOCK));
    use_descriptors();
    wait_in_vain(guarded);
    int first = open_to(&listeners[BULKHEAD], 0);
    close(open_to(&listeners[BULKHEAD], 0));
    close(first);
    order('p');
    come_and_go(&listeners[PROBED]);
    rest(100); /* what is pending is overdue, and then given up */
    come_and_go(&refuser);
    close(pending);
    close(kept);
    int left = open_to(&hole, SOCK_NONBLOCK);
    order('r');
    come_and_go(&refuser);
    rest(1100); /* the file is looked at once a second */
    order('d');
    for (int i = 0; i < 3; i++)
        ask(&listeners[ASKED], true);
    (void)left; /* which the exit gives up */
}

static void play_traced(void *guarded)
{
    syscall(MARK);
    go_all_ways(*(bool *)guarded);
}

/* --- confinement --- */

static void confine(const bool *allowed, uint32_t otherwise)
{
    static struct sock_filter filter[NUMBERS + 8];
    unsigned short length = 0;
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned int i = 0; i < NUMBERS; i++)
        if (allowed[i]) {
            filter[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, i, 0, 1);
            filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        }
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, otherwise);
    struct sock_fprog program = {length, filter};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* Counts, and writes "number count"; or confines itself to the numbers in the file, and goes. */
static int scene_ways(int argc, char **argv)
{
    static struct system_call calls[1 << 14];
    static unsigned int counts[NUMBERS];
    static bool allowed[NUMBERS];
    bool guarded = !strcmp(argv[0], "guarded");
    signal(SIGPIPE, SIG_IGN);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){4096, 4096});
    start_outside();
    start_servers();
    if (argc == 1) {
        int count = system_calls_of(play_traced, &guarded, calls, 1 << 14);
        CHECK(count > 0 && count <= 1 << 14);
        for (int i = 0; i < count; i++)
            if (calls[i].number < NUMBERS)
                counts[calls[i].number]++;
        for (int i = 0; i < NUMBERS; i++)
            if (counts[i])
                printf("%d %u\n", i, counts[i]);
        return 0;
    }
    FILE *file = fopen(argv[2], "r");
    int number;
    while (file && fscanf(file, "%d", &number) == 1)
        allowed[number] = true;
    if (file)
        fclose(file);
    confine(allowed, !strcmp(argv[1], "kill") ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM);
    go_all_ways(!strcmp(argv[1], "kill")); /* or nothing ends a wait */
    _exit(0);
}

static void count_ways(const char *how, unsigned int counts[NUMBERS])
{
    static char output[1 << 14];
    struct scene_options options = {.policy = policy,
                                    .preload = strcmp(how, "guarded") ? "" : NULL,
                                    .arguments = {how},
                                    .output = output,
                                    .output_size = sizeof output};
    if (!exited_well(scene_run("ways", &options)))
        fail_msg("%s: %s", how, output);
    for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n")) {
        int number;
        unsigned int count;
        assert_int_equal(sscanf(line, "%d %u", &number, &count), 2);
        counts[number] = count;
    }
}

static void go_confined(const char *how, const bool *allowed)
{
    char text[NUMBERS * 4], log[PATH_MAX + 16];
    size_t length = 0;
    for (int i = 0; i < NUMBERS; i++)
        if (allowed[i])
            length += (size_t)snprintf(text + length, sizeof text - length, "%d\n", i);
    snprintf(log, sizeof log, "SOCKFUSE_LOG=%s/log", stage_folder());
    int status = scene_run("ways", &(struct scene_options){.policy = policy,
                                                           .environment = {log},
                                                           .arguments = {"guarded", how, stage_file("allowed", text)}});
    if (!exited_well(status))
        fail_msg("%s: status %x (signal 31: killed for a system call)", how, (unsigned int)status);
}

static unsigned int bare_counts[NUMBERS], counts[NUMBERS];
static bool listed[NUMBERS], own[NUMBERS], both[NUMBERS];

static void manual_names_every_system_call(void **state)
{
    bool complete = true;
    (void)state;
    read_manual(listed);
    count_ways("bare", bare_counts);
    count_ways("guarded", counts);
    for (int i = 0; i < NUMBERS; i++) {
        own[i] = bare_counts[i] > 0;
        both[i] = own[i] || listed[i];
        if (counts[i] > bare_counts[i] && !listed[i]) {
            print_error("number %d: %u times, bare %u; not in the manual\n", i, counts[i], bare_counts[i]);
            complete = false;
        }
    }
    own[SYS_exit_group] = both[SYS_exit_group] = true;
    assert_true(complete);
}

static void program_that_confines_itself_to_them_lives(void **state)
{
    (void)state;
    go_confined("kill", both);
}

static void program_that_confines_itself_without_them_goes_on(void **state)
{
    (void)state;
    go_confined("errno", own);
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {{"ways", scene_ways}, {NULL, NULL}};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(manual_names_every_system_call),
        cmocka_unit_test(program_that_confines_itself_to_them_lives),
        cmocka_unit_test(program_that_confines_itself_without_them_goes_on),
    };
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
