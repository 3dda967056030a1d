/*
 * support.c - the stage: a test program under the library, and the processes that it starts. See support.h.
 */
#define _GNU_SOURCE
#include "support.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STAGE "SOCKFUSE_TESTS_STAGE"
#define LONG_MS 65

const char stage_policy[] = "[defaults]\n"
                            "failure_threshold = 1000\n"
                            "failure_rate = 0%\n"
                            "[touchy]\n"
                            "match = 127.0.0.4:* unix:*/touchy-*\n"
                            "failure_threshold = 1\n"
                            "reset_timeout = 1h\n"
                            "reset_timeout_max = 1h\n"
                            "[patient]\n"
                            "match = 127.0.0.2:* unix:*/patient-*\n"
                            "abandon_after = 1m\n"
                            "[quick]\n"
                            "match = 127.0.0.1:* [::1]:* unix:* unix:@* 10.9.0.0/16:*\n"
                            "abandon_after = 50ms\n"
                            "[measured]\n"
                            "match = 127.0.0.6:*\n"
                            "response_timeout = 20s\n"
                            "abandon_after = 1m\n"
                            "[one-way]\n"
                            "match = 127.0.0.3:*\n"
                            "success = connect\n"
                            "abandon_after = 50ms\n";

struct bare bare;
static char program[PATH_MAX], library[PATH_MAX];
static pid_t tests_pid;

void *libc_symbol(const char *name)
{
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    return libc ? dlsym(libc, name) : NULL;
}

static void bare_find(void)
{
#define FIND(name) *(void **)&bare.name = libc_symbol(#name)
    FIND(socket);
    FIND(connect);
    FIND(close);
    FIND(getsockopt);
    FIND(send);
    FIND(recv);
#undef FIND
}

void check_that(bool holds, const char *condition, const char *file, int line)
{
    int error = errno;
    if (!holds) {
        char text[256];
        snprintf(text, sizeof text, "%s (errno %d)", condition, error);
        if (getpid() == tests_pid && gettid() == tests_pid)
            _fail((print_error("%s\n", text), file), line);
        dprintf(STDERR_FILENO, "%s:%d: in a child or thread: %s\n", file, line, text);
        _exit(99);
    }
    errno = error;
}

const char *stage_file(const char *name, const char *content)
{
    static char paths[8][PATH_MAX];
    static unsigned int next;
    char *path = paths[next++ % 8];
    if (!content)
        return path; /* a room for a name */
    snprintf(path, PATH_MAX, "%s/%s", stage_folder(), name);
    FILE *file = fopen(path, "we");
    CHECK(file != NULL);
    CHECK(fputs(content, file) >= 0 && fclose(file) == 0);
    return path;
}

/* Not TMPDIR, which libc takes from set-user-ID programs. */
const char *stage_folder(void)
{
    return getenv("SOCKFUSE_TESTS_FOLDER");
}

const char *stage_library(void)
{
    return library;
}

const char *stage_program(void)
{
    return program;
}

const char *stage_compile(const char *name, const char *folder, const char *flags)
{
    const char *path = stage_file("", NULL);
    const char *compiler = getenv("CC");
    char command[4 * PATH_MAX];
    snprintf((char *)path, PATH_MAX, "%s/%s.so", folder ? folder : stage_folder(), name);
    snprintf(command, sizeof command, "LD_PRELOAD= %s -shared -fPIC -o '%s' '%s/helpers/%s.c' %s",
             compiler ? compiler : "cc", path, getenv("SOCKFUSE_TESTS"), name, flags);
    CHECK(system(command) == 0);
    return path;
}

void stage_enter(int argc, char **argv, const char *policy, const struct scene *scenes)
{
    const char *build = getenv("SOCKFUSE_BUILD");
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    if (!build || !stage_folder() || !getenv("SOCKFUSE_STATE") || length <= 0) {
        fprintf(stderr, "start this program by tests/preload/run\n");
        exit(2);
    }
    program[length] = '\0';
    snprintf(library, sizeof library, "%s/libsockfuse.so", build);
    bare_find();
    if (argc > 2 && !strcmp(argv[1], "scene")) {
        for (; scenes && scenes->name; scenes++)
            if (!strcmp(scenes->name, argv[2]))
                exit(scenes->play(argc - 3, argv + 3));
        fprintf(stderr, "no scene %s\n", argv[2]);
        exit(98);
    }
    if (!getenv(STAGE)) {
        setenv(STAGE, "1", 1);
        setenv("SOCKFUSE_POLICY", stage_file("tests.policy", policy ? policy : stage_policy), 1);
        setenv("LD_PRELOAD", library, 1);
        execv(program, argv);
        perror(program);
        exit(2);
    }
    if (dlsym(RTLD_DEFAULT, "connect") == (void *)bare.connect) {
        fprintf(stderr, "%s was not loaded\n", library);
        exit(2);
    }
    tests_pid = getpid();
}

static void pass_over(void **state)
{
    (void)state;
    skip();
}

/* A variant's name has more behind the test's: "name (blocking)". */
static bool is_left_out(const char *name)
{
    const char *names = getenv("SOCKFUSE_TESTS_WITHOUT");
    size_t length = strcspn(name, " ");
    for (; names && *names; names += strcspn(names, " "), names += strspn(names, " "))
        if (strcspn(names, " ") == length && !strncmp(names, name, length))
            return true;
    return false;
}

int stage_run_tests(const struct CMUnitTest *tests, size_t count, CMFixtureFunction setup, CMFixtureFunction teardown)
{
    struct CMUnitTest *held = calloc(count, sizeof *held);
    CHECK(held);
    for (size_t i = 0; i < count; i++)
        held[i] =
            is_left_out(tests[i].name) ? (struct CMUnitTest){tests[i].name, pass_over, NULL, NULL, NULL} : tests[i];
    int failed = _cmocka_run_group_tests("tests", held, count, setup, teardown);
    free(held);
    return failed;
}

/* In the new process: what the options say, then the exec. */
static void scene_exec(const char *name, const struct scene_options *options, int output)
{
    const char *argv[9] = {program, "scene", name};
    size_t count = 3;
    if (output >= 0) {
        dup2(output, STDOUT_FILENO);
        dup2(output, STDERR_FILENO);
    }
    if (options && options->policy) {
        char file[64];
        snprintf(file, sizeof file, "%s.policy", name);
        setenv("SOCKFUSE_POLICY", stage_file(file, options->policy), 1);
    }
    if (options && options->preload)
        setenv("LD_PRELOAD", options->preload, 1);
    for (size_t i = 0; options && options->environment[i]; i++) {
        char *copy = strdup(options->environment[i]);
        if (strchr(copy, '='))
            putenv(copy);
        else
            unsetenv(copy);
    }
    for (size_t i = 0; options && i < 4 && options->arguments[i]; i++)
        argv[count++] = options->arguments[i];
    if (options && options->before)
        options->before(options->context);
    execv(options && options->program ? options->program : program, (char *const *)argv);
    dprintf(STDERR_FILENO, "exec: %s\n", strerror(errno));
    _exit(97);
}

pid_t scene_start(const char *name, const struct scene_options *options)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        scene_exec(name, options, -1);
    return pid;
}

int scene_run(const char *name, const struct scene_options *options)
{
    if (!options || !options->output)
        return actor_wait(scene_start(name, options));
    int ends[2];
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        scene_exec(name, options, ends[1]);
    bare.close(ends[1]);
    size_t length = 0;
    ssize_t got;
    while (length < options->output_size - 1 &&
           (got = read(ends[0], options->output + length, options->output_size - 1 - length)) > 0)
        length += (size_t)got;
    options->output[length] = '\0';
    bare.close(ends[0]);
    return actor_wait(pid);
}

int actor_wait(pid_t pid)
{
    int status = -1;
    while (waitpid(pid, &status, 0) < 0)
        CHECK(errno == EINTR);
    return status;
}

pid_t actor_fork(void (*play)(void *context), void *context)
{
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        play(context);
        _exit(0);
    }
    return pid;
}

bool exited_well(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void wait_ms(unsigned int ms)
{
    struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR) {
    }
}

void wait_long(void)
{
    wait_ms(LONG_MS);
}

void await_asleep(pid_t thread)
{
    char path[64], text[256], *state = NULL;
    for (uint64_t end = now_ms() + 5000; !state || state[2] != 'S';) {
        CHECK(now_ms() < end);
        wait_ms(1);
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)thread);
        FILE *file = fopen(path, "re");
        CHECK(file && fgets(text, sizeof text, file) && fclose(file) == 0);
        state = strrchr(text, ')');
        CHECK(state != NULL);
    }
}

short poll_for(int fd, short events)
{
    struct pollfd wanted = {.fd = fd, .events = events};
    int ready;
    do
        ready = poll(&wanted, 1, 5000);
    while (ready < 0 && errno == EINTR);
    CHECK(ready == 1);
    return wanted.revents;
}
