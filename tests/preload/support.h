/*
 * support.h - the bench on which C programs run under the real library: the stage, the servers, what the circuits
 * counted, and what the kernel saw.
 *
 * A test program calls stage_enter first: it writes its policy and executes itself again under LD_PRELOAD. Then each
 * test makes a server on a port of its own (so it has a circuit of its own), does to it what a program would do, and
 * says what the circuit must have counted since it looked last. What the server's side does goes past the library,
 * through `bare`.
 */
#ifndef SOCKFUSE_TESTS_PRELOAD_SUPPORT_H
#define SOCKFUSE_TESTS_PRELOAD_SUPPORT_H

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <cmocka.h>

#include "breaker/counters.h"
#include "breaker/outcome.h"

/* --- the stage --- */

/*
 * 127.0.0.1, ::1 and UNIX sockets: giving up after 50 ms is a failure (wait_long waits so long). 127.0.0.2: giving up
 * is always a cancellation, however slow the machine is. 127.0.0.3: a connection is success enough. 127.0.0.4: opens at
 * the first failure, for an hour. 127.0.0.6: an answer may take 20 s, so its calls bear the time since when they wait.
 * 10.9.0.0/16: for namespaces of the test's own. 127.0.0.9 is not guarded.
 */
extern const char stage_policy[];

/* A part that is played by a process of its own: `scene_run` starts this program again with the scene's name. */
struct scene {
    const char *name;
    int (*play)(int argc, char **argv); /* returns the exit status */
};

/*
 * Comes back only in the process that is to run the tests, under the library with that policy. `scenes` ends with a
 * NULL name.
 */
void stage_enter(int argc, char **argv, const char *policy, const struct scene *scenes);
/*
 * As cmocka's, but for the tests that are named, with spaces between them, in SOCKFUSE_TESTS_WITHOUT: what such a
 * machine can't hold is counted as skipped. scripts/arm64 says which and why.
 */
int stage_run_tests(const struct CMUnitTest *tests, size_t count, CMFixtureFunction setup, CMFixtureFunction teardown);
#undef cmocka_run_group_tests
#define cmocka_run_group_tests(tests, setup, teardown)                                                                 \
    stage_run_tests(tests, sizeof(tests) / sizeof *(tests), setup, teardown)

/* The temporary folder. */
const char *stage_folder(void);
/* A file with that content in the temporary folder; returns its path, valid until the next but seven. */
const char *stage_file(const char *name, const char *content);
/* The library's path, and this program's. */
const char *stage_library(void);
const char *stage_program(void);

/*
 * A shared library made of tests/preload/helpers/NAME.c, in `folder` (NULL: the temporary one); returns its path, valid
 * as those of stage_file. `flags`: for the compiler.
 */
const char *stage_compile(const char *name, const char *folder, const char *flags);
/* What a call went to: 127.0.0.1 at a port, as a scene is told it in an argument. */
struct server;
void server_at_port(struct server *server, const char *port);
const char *server_port(const struct server *server);

struct scene_options {
    const char *policy;         /* its text; NULL: the policy of the tests */
    const char *preload;        /* LD_PRELOAD; NULL: the library; "": none */
    const char *environment[8]; /* further NAME=VALUE, or NAME to take it out; ends with NULL */
    const char *arguments[4];
    const char *program; /* what is executed; NULL: this program */
    char *output;        /* where its standard output and error go; NULL: to ours */
    size_t output_size;
    void (*before)(void *context); /* called in the new process before the exec */
    void *context;
};
/* Starts a scene; its wait status comes from actor_wait. `options` may be NULL. */
pid_t scene_start(const char *name, const struct scene_options *options);
int scene_run(const char *name, const struct scene_options *options);
/* Waits for a child; bounded by the program's own time limit. */
int actor_wait(pid_t pid);
/* Forks, and plays in the child, which ends with _exit(0). */
pid_t actor_fork(void (*play)(void *context), void *context);
bool exited_well(int status);

/* A check that also works in children and threads, where cmocka's may not be used. */
#define CHECK(condition) check_that((condition), #condition, __FILE__, __LINE__)
void check_that(bool holds, const char *condition, const char *file, int line);

void wait_ms(unsigned int ms);
/* Longer than abandon_after of 127.0.0.1. */
void wait_long(void);
uint64_t now_ms(void);

/* --- what the kernel sees --- */

/* Between two calls of this number (or from one to the end), the system calls of a traced program are counted. */
#define MARK 0x7fff0001L

struct system_call {
    long number, first; /* with its first argument */
};
/*
 * Plays in a child that is traced; returns how many system calls it makes between the marks, of which the first `room`
 * are written to `calls`. Negative: no mark was seen.
 */
int system_calls_of(void (*play)(void *context), void *context, struct system_call *calls, int room);

/* --- past the library --- */

/* libc's own function, which the library does not see. */
void *libc_symbol(const char *name);
struct bare {
    int (*socket)(int domain, int type, int protocol);
    int (*connect)(int fd, const struct sockaddr *address, socklen_t length);
    int (*close)(int fd);
    int (*getsockopt)(int fd, int level, int option, void *value, socklen_t *length);
    ssize_t (*send)(int fd, const void *buffer, size_t count, int flags);
    ssize_t (*recv)(int fd, void *buffer, size_t count, int flags);
};
extern struct bare bare;

/* --- servers --- */

enum server_kind {
    SERVER_LISTENS,
    SERVER_REFUSES,    /* bound, nobody listens */
    SERVER_BLACK_HOLE, /* its queue is full, and further attempts hang */
};

struct server {
    int fd;
    int fillers[8];
    int filler_count;
    struct sockaddr_storage address;
    socklen_t length;
    char destination[300];
    uint64_t counted[COUNTERS]; /* at the last look */
};

/* `host`: an IPv4 or IPv6 address, or "unix" for a socket in the temporary folder, or "@" for an abstract one. */
void server_start(struct server *server, const char *host, enum server_kind kind);
void server_stop(struct server *server);
/* The next connection (waits at most five seconds). */
int server_accept(struct server *server);
/* Ends a connection with a reset. */
void server_reset(int peer);
/* The same address, as an IPv6 socket is told it (::ffff:a.b.c.d). */
void server_map(struct server *server);

/* The arguments for connect. */
#define AT(server) (const struct sockaddr *)&(server)->address, (server)->length

/* A stream socket of the server's family. */
int caller_socket(const struct server *server, int flags);
/* With its attempt made: blocking ones are connected; others are or wait. */
int caller_connect(const struct server *server, int flags);
/* Waits until poll says one of `events` (or an error, or a hang-up); at most five seconds. */
short poll_for(int fd, short events);

/* --- circuits --- */

/*
 * What the server's circuit counted since the last look, in words: "2 succeeded, 1 failed:refused, 1 in-flight". The
 * words: succeeded, failed:KIND, neutral:REASON, business, late, refused, fallback, injected, opened, overdue, overdue-
 * ended; in-flight as of now; lost: admitted, and neither in flight nor counted (its process was killed). "nothing".
 */
/* What a loop is trying just now, for the message of a failure. */
extern const char *at_hand;
#define expect(server, words) expect_words(server, words, __FILE__, __LINE__)
void expect_words(struct server *server, const char *words, const char *file, int line);
/* Whether there is a circuit for that destination already. */
bool has_circuit(const struct server *server);
/* Waits until a call of another thread or process is in flight there. */
void await_admitted(const struct server *server);
/* Waits until a thread of this process sleeps in the kernel: in the call that it was about to make. */
void await_asleep(pid_t thread);
/* How far the one call in flight on the server's circuit has come. */
enum phase call_phase(const struct server *server);
/* When its present wait began, as now_ms tells the time. */
uint64_t call_waits_since_ms(const struct server *server);
uint64_t counted(const struct server *server, enum counter counter);
/* Looks at another policy's segment from now on; NULL: at that of the tests. Also after the file was replaced. */
void observe_policy(const char *path);

#endif
