/*
 * test_short_way_histories.c - random histories of a program and its network, played twice: where requests and answers
 * go the short way if they can, and where they never do. Nothing that is left may tell which it was.
 * links: connection
 *
 * Each way is played in a process of its own; both begin with the same memory. After each step each notes what the
 * program saw, and what lies in the segment: circuit, records, and the journal. The first difference fails the test.
 * SEED=N in the environment plays that one alone, and both tell what they do.
 */
#define _GNU_SOURCE
#include "support_engine.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "connection/upload.h"
#include "guard/operator.h"
#include "support_engine_left.h"

enum { SEEDS = 2000, AT_A_TIME = 100, STEPS = 60, NUMBERS = 6, RELOADS = 4, SOCKETS = 48 };

static const char *const part_names[LEFT_PARTS] = {"what the program saw", "its connections",
                                                   "the records of its calls", "the circuits", "the journal"};

/* What one way left after each step, for the other to be compared with. */
struct notes {
    uint64_t left[AT_A_TIME][STEPS][LEFT_PARTS];
    uint64_t short_first, short_begins, short_answers; /* how many requests and answers went the short way */
};

static bool is_told;

/* --- chance, the same for both --- */

static uint64_t chance_state;

static uint64_t chance(void)
{
    uint64_t mixed = chance_state += UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ mixed >> 31;
}

static unsigned int one_of(unsigned int count)
{
    return (unsigned int)(chance() >> 32) % count;
}

#define CHOSEN(list) ((list)[one_of(sizeof(list) / sizeof *(list))])

/* --- a history --- */

static void play_policy(void)
{
    static const char *const keys[] = {
        "response_timeout = 5s",
        "response_timeout = 1s",
        "slow_call = 100ms\nslow_call_rate = 50%\nminimum_calls = 4",
        "failure_rate = 40%\nminimum_calls = 3\nwindow = 10s",
        "failure_rate = 40%\nminimum_calls = 3\nwindow = 8 calls",
        "failure_rate = 0",
        "failure_threshold = 1",
        "success_threshold = 2",
        "http_failures = 503 404",
        "http = off",
        "existing = allow",
        "mode = observe",
        "mode = open",
        "mode = closed",
        "enforce_timeouts = yes",
        "record = all",
        "max_connections = 3",
        "inject = reset at 10%",
        "success = connect",
    };
    char text[512] = "";
    unsigned int count = one_of(3), begin = one_of(sizeof keys / sizeof *keys);

    /* Two that stand seven apart do not contradict each other. */
    for (unsigned int i = 0; i < count; i++) {
        const char *key = keys[(begin + i * 7) % (sizeof keys / sizeof *keys)];
        if (strstr(text, "window") || !strstr(key, "window"))
            strcat(strcat(text, key), "\n");
        else
            strcat(strcpy(text, key), "\n");
    }
    if (is_told)
        fprintf(stderr, "  policy: %s", text);
    bench_policy(text);
}

static int result_of(ssize_t result)
{
    return result < 0 ? -errno : (int)result;
}

static int play_connect(int fd)
{
    static const int ends[] = {KERNEL_AS_USUAL, KERNEL_AS_USUAL, KERNEL_AS_USUAL,
                               ECONNREFUSED,    EINPROGRESS,     KERNEL_FAST_OPEN};
    if (fd < 0) {
        if (kernel.made >= SOCKETS)
            return 0;
        fd = program_socket(one_of(4) != 0);
    }
    kernel.connect_ends = CHOSEN(ends);
    int result = result_of(program_connect(fd, 1 + one_of(2)));
    kernel.connect_ends = KERNEL_AS_USUAL;
    return result;
}

static int play_request(int fd)
{
    static const char *const texts[] = {
        "query",
        "query",
        "GET / HTTP/1.1\r\nHost: db\r\n\r\n",
        "GET / HTTP/1.1\r\n",
        "Host: db\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nquery",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "\x16\x03\x01\x02\x01hello",
    };
    unsigned int which = one_of(40);
    struct kernel_socket *at = kernel_socket(fd);
    bool was_full = at->is_full;
    at->is_full = was_full || one_of(16) == 0;
    int result = result_of(program_send(fd, texts[which < sizeof texts / sizeof *texts ? which : which % 3]));
    at->is_full = was_full;
    return result;
}

static int play_receive(int fd)
{
    static const int flags[] = {0, 0, 0, 0, 0, MSG_PEEK, MSG_DONTWAIT, MSG_TRUNC};
    return result_of(program_receive_flags(fd, CHOSEN(flags)));
}

static void play_answer(int fd)
{
    static const char *const texts[] = {
        "rows",
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\n\r\n",
        "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 3\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.",
        "1 503 Service Unavailable\r\n\r\n",
        "H",
        "\x15\x03\x03\x00\x02\x01\x00",
    };
    unsigned int which = one_of(60);
    const char *text = texts[which < sizeof texts / sizeof *texts ? which : which % 2];
    struct kernel_socket *at = kernel_socket(fd);
    if (at->stage == KERNEL_OPEN && at->unread_bytes + strlen(text) <= sizeof at->unread)
        kernel_brings(fd, text, strlen(text));
}

static void play_time(void)
{
    static const uint64_t steps[] = {1,        NS_PER_MS,    100 * NS_PER_MS, 100 * NS_PER_MS + 1, 400 * NS_PER_MS,
                                     NS_PER_S, 5 * NS_PER_S, 10 * NS_PER_S};
    kernel_pass_ns(CHOSEN(steps));
}

static void play_network(int fd)
{
    struct kernel_socket *at = kernel_socket(fd);
    if (at->stage == KERNEL_PENDING) {
        if (one_of(2))
            kernel_establishes(fd);
        else
            kernel_fails(fd, ECONNREFUSED);
    } else if (at->stage == KERNEL_OPEN) {
        if (one_of(3) == 0)
            at->is_full = !at->is_full;
        else if (one_of(2))
            kernel_peer_ends(fd);
        else
            kernel_fails(fd, ECONNRESET);
    }
}

/* Some other program's call fails, or an operator says a word. */
static void play_others(void)
{
    static const enum forced words[] = {FORCED_OPEN, FORCED_CLOSED, FORCED_NONE, FORCED_NONE};
    struct circuit_texts texts;
    uint32_t cursor = 0, circuit = circuits_next(&bench_station.segment, &cursor, &texts);
    if (circuit == CIRCUIT_INDEX_NONE)
        return;
    struct force force = {CHOSEN(words), kernel.now_ns + (one_of(2) ? NS_PER_S : 20 * NS_PER_S)};
    if (force.word == FORCED_NONE)
        force.end_ns = 0;
    force_set(&bench_station.guard, "operator", circuit, force, MODE_ENFORCE, kernel.now_ns);
}

/* The circuit opens and, ten seconds later, may close again, by other connections. */
static void play_outage(void)
{
    for (unsigned int i = 0; i < 4 && kernel.made < SOCKETS; i++) {
        int fd = program_socket(true);
        kernel.connect_ends = i < 3 ? ECONNREFUSED : KERNEL_AS_USUAL;
        if (i == 3)
            kernel_pass_ns(10 * NS_PER_S);
        if (program_connect(fd, 1) == 0 && program_send(fd, REQUEST) > 0) {
            kernel_brings(fd, ANSWER, strlen(ANSWER));
            program_receive(fd);
        }
        kernel.connect_ends = KERNEL_AS_USUAL;
        program_close(fd);
    }
}

static int open_number(void)
{
    int open[KERNEL_NUMBERS], count = 0;
    for (int fd = 0; fd < KERNEL_NUMBERS; fd++)
        if (kernel.numbers[fd])
            open[count++] = fd;
    return count ? open[one_of(3) ? 0 : one_of((unsigned int)count)] : -1; /* most often the same */
}

static unsigned int open_numbers(void)
{
    unsigned int count = 0;
    for (int fd = 0; fd < KERNEL_NUMBERS; fd++)
        count += kernel.numbers[fd] != 0;
    return count;
}

static int play_rare(int fd)
{
    static char large[UPLOAD_LARGE + 1];
    switch (one_of(8)) {
    case 0:
        return result_of(program_shutdown(fd, one_of(2) ? SHUT_WR : SHUT_RD));
    case 1:
        return open_numbers() < NUMBERS ? result_of(program_dup(fd)) : 0;
    case 2:
        return program_error(fd);
    case 3:
        return result_of(program_send_bytes(fd, large, one_of(2) ? sizeof large : UPLOAD_LARGE - 1, 0));
    case 4:
        return play_connect(fd);
    case 5:
        play_others();
        return 0;
    case 6:
        play_network(fd);
        return 0;
    default:
        return result_of(program_close(fd));
    }
}

static int play_exchange(int fd)
{
    int sent = play_request(fd);
    if (one_of(4) == 0)
        play_time();
    play_answer(fd);
    return sent * 4096 + play_receive(fd);
}

/* What a busy client does most, most of the time. */
static int play_step(unsigned int *reloads)
{
    int fd = open_number();
    unsigned int what = one_of(100);
    if (is_told)
        fprintf(stderr, "  %d on %d", what, fd);
    if (fd < 0 || (what < 4 && open_numbers() < NUMBERS))
        return play_connect(-1);
    if (what < 45)
        return play_exchange(fd);
    if (what < 60)
        return play_request(fd);
    if (what < 68)
        play_answer(fd);
    else if (what < 78)
        return play_receive(fd);
    else if (what < 90)
        play_time();
    else if (what < 92 && *reloads < RELOADS && ++*reloads)
        play_policy();
    else if (what == 92)
        play_outage();
    else if (what >= 94)
        return play_rare(fd);
    return 0;
}

static void play(unsigned int seed, bool takes_short_way, struct notes *notes)
{
    void *state = NULL;
    uint64_t from = 0, journal = 0, program = 0;
    unsigned int reloads = 0;

    assert_int_equal(takes_short_way ? engine_bench_setup(&state) : engine_bench_setup_long(&state), 0);
    bench_station.guard.pid = 1; /* the same for both */
    chance_state = seed;
    play_policy();
    if (one_of(2))
        program_resolves(2);
    for (unsigned int step = 0; step < STEPS; step++) {
        int result = play_step(&reloads);
        uint64_t *left = notes->left[seed % AT_A_TIME][step];
        if (is_told)
            fprintf(stderr, " -> %d", result);
        left[LEFT_PROGRAM] = program = left_mix(program, (uint64_t)(int64_t)result);
        left_note(left, &from, &journal);
        if (is_told)
            left_tell();
    }
    notes->short_first += bench_short_first;
    notes->short_begins += bench_short_begins;
    notes->short_answers += bench_short_answers;
    engine_bench_teardown(&state);
}

/* --- both ways --- */

static struct notes *play_all(unsigned int first, unsigned int last, bool takes_short_way)
{
    struct notes *notes = mmap(NULL, sizeof *notes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;

    assert_true(notes != MAP_FAILED);
    pid_t parent = getpid(), child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (unsigned int seed = first; seed < last && getppid() == parent; seed++) {
            if (is_told)
                fprintf(stderr, "%s way:\n", takes_short_way ? "short" : "long");
            play(seed, takes_short_way, notes);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return notes;
}

static void compare(const struct notes *one, const struct notes *other, unsigned int seed)
{
    for (unsigned int step = 0; step < STEPS; step++)
        for (enum left_part part = 0; part < LEFT_PARTS; part++)
            if (one->left[seed % AT_A_TIME][step][part] != other->left[seed % AT_A_TIME][step][part])
                fail_msg("seed %u, step %u: by the short way %s are others", seed, step, part_names[part]);
}

static void the_short_way_leaves_what_the_long_way_leaves(void **state)
{
    static const struct capacity small = {.circuits = 8, .calls = 64, .processes = 4, .events = 64};
    const char *alone = getenv("SEED");
    unsigned int first = alone ? (unsigned int)strtoul(alone, NULL, 10) : 0, last = alone ? first + 1 : SEEDS;
    uint64_t first_ones = 0, begins = 0, answers = 0;

    (void)state;
    bench_capacity = &small;
    is_told = alone != NULL;
    for (unsigned int next, seed = first; seed < last; seed = next) {
        next = alone ? last : seed + AT_A_TIME;
        struct notes *by_short = play_all(seed, next, true), *by_long = play_all(seed, next, false);
        for (; seed < next; seed++)
            compare(by_short, by_long, seed);
        assert_int_equal(by_long->short_first + by_long->short_begins + by_long->short_answers, 0);
        first_ones += by_short->short_first;
        begins += by_short->short_begins;
        answers += by_short->short_answers;
        munmap(by_short, sizeof *by_short);
        munmap(by_long, sizeof *by_long);
    }
    print_message("%llu first requests, %llu further ones and %llu answers went the short way\n",
                  (unsigned long long)first_ones, (unsigned long long)begins, (unsigned long long)answers);
    assert_true(alone || (first_ones > SEEDS && begins > 2 * SEEDS && answers > 2 * SEEDS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_short_way_leaves_what_the_long_way_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
