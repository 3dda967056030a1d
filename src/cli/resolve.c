/*
 * resolve.c - looks up a policy's names, all at the same time. See resolve.h.
 *
 * A helper process has a thread for each name, waiting in getaddrinfo. Whoever is not back when the time is over is no
 * longer waited for: the helper is killed, so that no thread reads the environment while it is being set, and nothing
 * that a module of the name service switch opens, or breaks, reaches the program. Not glibc's getaddrinfo_a: its
 * gai_suspend can go while an answer still points to its stack frame, and the process dies when two names are answered
 * at the same moment (test: names_that_are_answered_at_the_same_moment).
 */
#define _GNU_SOURCE
#include "cli/resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"

/* A name server that does not answer must not keep the program from its start for longer. */
#define WITHIN_NS NS_PER_S
#define NAMES_MAX 256
/* One string of the environment may have 128 KiB; this leaves the program its share. */
#define TEXT_MAX 32768
/* getaddrinfo itself is content with a fifth; modules of the name service switch get room too. */
#define STACK_BYTES (size_t)(512 * 1024)

/* The helper writes `text`, "name=address,address", then `told`. */
struct answer {
    _Atomic bool told;
    char text[TEXT_MAX];
};

struct lookups {
    const char *names[NAMES_MAX];
    int count;
    struct answer *answers; /* one for each name, shared with the helper; only what is written costs memory */
    int pipe[2];            /* a byte for each name that is done with */
};

struct lookup {
    struct lookups *all;
    int index;
};

static void add(struct lookups *lookups, const char *host)
{
    for (int i = 0; i < lookups->count; i++) {
        if (strcasecmp(lookups->names[i], host) == 0)
            return;
    }
    if (lookups->count < NAMES_MAX && strpbrk(host, " =,") == NULL)
        lookups->names[lookups->count++] = host;
}

/* The names that are spelled out; what `*.example.com` stands for nobody can list. */
static void collect(struct lookups *lookups, const struct policy *policy)
{
    for (size_t i = 0; i < policy->target_count; i++) {
        const struct target *target = &policy->targets[i];
        for (size_t j = 0; j < target->pattern_count; j++) {
            if (target->patterns[j].kind == PATTERN_HOST)
                add(lookups, target->patterns[j].host);
        }
        if (target->fallback.host[0] != '\0')
            add(lookups, target->fallback.host);
    }
}

/* "name=address,address"; nothing for one without addresses. */
static void spell(char text[TEXT_MAX], const char *name, const struct addrinfo *info)
{
    size_t length = 0;
    for (; info != NULL; info = info->ai_next) {
        char address[DESTINATION_MAX];
        struct endpoint endpoint;
        if (!endpoint_from_sockaddr(&endpoint, info->ai_addr, info->ai_addrlen) ||
            endpoint_format_address(&endpoint, address, sizeof address) == 0)
            continue;
        int added = snprintf(text + length, TEXT_MAX - length, "%s%s%s", length > 0 ? "," : name, length > 0 ? "" : "=",
                             address);
        if (added < 0 || (size_t)added >= TEXT_MAX - length)
            break;
        length += (size_t)added;
    }
    text[length] = '\0';
}

static void finish(const struct lookups *lookups)
{
    while (write(lookups->pipe[1], "", 1) < 0 && errno == EINTR)
        ;
}

static void *look_up(void *argument)
{
    static const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const struct lookup *lookup = argument;
    const char *name = lookup->all->names[lookup->index];
    struct answer *answer = &lookup->all->answers[lookup->index];
    struct addrinfo *info = NULL;
    if (getaddrinfo(name, NULL, &hints, &info) == 0) {
        spell(answer->text, name, info);
        /* Release: whoever reads it reads the text. */
        atomic_store_explicit(&answer->told, true, memory_order_release);
    }
    finish(lookup->all);
    return NULL;
}

/* The helper: never returns, and is killed. A name for which there is no thread remains without an answer. */
static _Noreturn void help(struct lookups *lookups, pid_t parent)
{
    static struct lookup threads[NAMES_MAX];
    pthread_attr_t attributes;
    pthread_t thread;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    /* Many threads with a heap each would ask for more address space than a limit may allow. */
    mallopt(M_ARENA_MAX, 1);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    for (int i = 0; i < lookups->count; i++) {
        threads[i] = (struct lookup){.all = lookups, .index = i};
        if (pthread_create(&thread, &attributes, look_up, &threads[i]) != 0)
            finish(lookups);
    }
    for (;;)
        pause();
}

/* Waits until all are answered, the time is over, or the helper died of something. */
static void wait_for_all(const struct lookups *lookups)
{
    const uint64_t end = clock_real_ns() + WITHIN_NS;
    struct pollfd one = {.fd = lookups->pipe[0], .events = POLLIN};
    uint64_t now;
    for (ssize_t done = 0; done < lookups->count && (now = clock_real_ns()) < end;) {
        char bytes[NAMES_MAX];
        if (poll(&one, 1, (int)((end - now + NS_PER_MS - 1) / NS_PER_MS)) <= 0)
            continue;
        ssize_t more = read(lookups->pipe[0], bytes, sizeof bytes);
        if (more <= 0)
            return;
        done += more;
    }
}

/*
 * As fork, but the child's end sends no signal: one would stay pending for the program where SIGCHLD is blocked, and
 * an inherited child's would be mistaken for it. All arguments are 0, so their order, which differs, does not matter.
 */
static pid_t fork_quietly(void)
{
    return (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
}

/*
 * After unshare(CLONE_NEWPID) the first child is the new name space's init, and with its end no other can be made.
 * Until then the kernel has nothing to show for it.
 */
static bool is_child_to_be_init(void)
{
    struct stat here, there;
    if (stat("/proc/self/ns/pid", &here) != 0)
        return false;
    return stat("/proc/self/ns/pid_for_children", &there) != 0 || here.st_ino != there.st_ino ||
           here.st_dev != there.st_dev;
}

/* False: nothing can be looked up here. */
static bool ask_all(struct lookups *lookups)
{
    pid_t self = getpid();
    if (is_child_to_be_init() || pipe2(lookups->pipe, O_CLOEXEC) != 0)
        return false;
    pid_t helper = fork_quietly();
    if (helper == 0)
        help(lookups, self);
    close(lookups->pipe[1]);
    if (helper > 0) {
        wait_for_all(lookups);
        kill(helper, SIGKILL);
        /* Of a child without a signal only those are told who ask so. */
        while (waitpid(helper, NULL, __WALL) < 0 && errno == EINTR)
            ;
    }
    close(lookups->pipe[0]);
    return helper > 0;
}

/* All answers, as far as they fit, in the policy's order: of two names with one address the latter is told last. */
static char *join(const struct lookups *lookups)
{
    char *text = allocate(TEXT_MAX, 1);
    size_t used = 0;
    for (int i = 0; i < lookups->count; i++) {
        const struct answer *answer = &lookups->answers[i];
        if (!atomic_load_explicit(&answer->told, memory_order_acquire))
            continue;
        size_t length = strnlen(answer->text, TEXT_MAX);
        if (length == 0 || used + length + 2 > TEXT_MAX)
            continue;
        if (used > 0)
            text[used++] = ' ';
        memcpy(text + used, answer->text, length);
        used += length;
    }
    if (used > 0)
        return text;
    free(text);
    return NULL;
}

char *resolve_names(const struct policy *policy)
{
    struct lookups lookups = {.count = 0};
    collect(&lookups, policy);
    size_t size = (size_t)lookups.count * sizeof *lookups.answers;
    if (lookups.count == 0)
        return NULL;
    lookups.answers = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (lookups.answers == MAP_FAILED)
        return NULL;
    char *text = ask_all(&lookups) ? join(&lookups) : NULL;
    munmap(lookups.answers, size);
    return text;
}
