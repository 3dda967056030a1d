/*
 * test_circuit_killed.c - a process that is killed at any instruction of a call leaves a circuit that goes on.
 *
 * A child makes one call in shared memory and is stepped through it, instruction by instruction. Whenever the memory
 * has changed, a copy of it is what a kill at this point would leave: with the child dead, and also with the child
 * alive but never coming back (a signal handler jumped away), another process must find its way. Nothing is killed,
 * nothing waits.
 */
#include "support_breaker.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* Sanitizers make a call some ten thousand instructions long. */
#define STEPS_MAX 3000000u
#define CHILD 66u
#define OTHER 67u

struct stage {
    struct circuit circuit;
    struct circuit copy; /* what a kill would have left */
    struct settings settings;
    struct ticket ticket;
    uint64_t now_ns;
    uint64_t counted, failed; /* calls that are in the window already */
    uint32_t dead;            /* a third process, whose lease stands */
    bool child_lives;
};

static bool is_alive(uint32_t holder, void *context)
{
    const struct stage *stage = context;

    return holder == CHILD ? stage->child_lives : holder != stage->dead;
}

static int set_up(void **state)
{
    struct stage *stage = mmap(NULL, sizeof *stage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (stage == MAP_FAILED)
        return -1;
    stage->now_ns = BREAKER_START_NS;
    stage->settings = (struct settings){.failure_threshold = 2,
                                        .success_threshold = 1,
                                        .half_open_max_calls = 1,
                                        .backoff_permille = 2000,
                                        .jitter_permille = 0,
                                        .reset_timeout_ns = 10 * SECOND,
                                        .reset_timeout_max_ns = 20 * SECOND,
                                        .probe_timeout_ns = 5 * SECOND};
    *state = stage;
    return 0;
}

static int tear_down(void **state)
{
    return munmap(*state, sizeof(struct stage));
}

static enum admission admit(struct stage *stage, struct circuit *circuit, uint32_t holder, int address,
                            struct ticket *ticket)
{
    struct caller caller = {
        .holder = holder, .address = address, .addresses = address >= 0 ? 3 : 0, .alive = is_alive, .context = stage};
    struct transitions transitions;

    return circuit_admit(circuit, &stage->settings, &caller, stage->now_ns, ticket, &transitions);
}

static enum settlement settle(struct stage *stage, struct circuit *circuit, uint32_t holder,
                              const struct ticket *ticket, struct outcome outcome)
{
    struct caller caller = {.holder = holder, .address = ADDRESS_NONE, .alive = is_alive, .context = stage};
    struct transitions transitions;

    return circuit_settle(circuit, &stage->settings, &caller, ticket, outcome, stage->now_ns, &transitions);
}

/* --- what another process finds in a copy --- */

static void close_by_probe(struct stage *stage, const struct ticket *ticket)
{
    struct circuit_view view;

    assert_int_equal(settle(stage, &stage->copy, OTHER, ticket, breaker_success), SETTLED_COUNTED);
    circuit_observe(&stage->copy, &stage->settings, stage->now_ns, &view);
    assert_int_equal(view.state, CIRCUIT_CLOSED);
    assert_int_equal(view.failures, 0);
}

/* All eight slots can be had: none was lost. */
static void take_every_permit(struct stage *stage)
{
    struct ticket tickets[CIRCUIT_LEASES];

    stage->settings.half_open_max_calls = CIRCUIT_LEASES;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(admit(stage, &stage->copy, OTHER, ADDRESS_NONE, &tickets[i]), ADMIT_PASS);
        assert_int_equal(settle(stage, &stage->copy, OTHER, &tickets[i], breaker_failure), SETTLED_COUNTED);
    }
    stage->now_ns += 10 * SECOND;
    for (unsigned int i = 0; i < CIRCUIT_LEASES; i++)
        assert_int_equal(admit(stage, &stage->copy, OTHER, ADDRESS_NONE, &tickets[i]), ADMIT_PROBE);
    close_by_probe(stage, &tickets[CIRCUIT_LEASES - 1]);
    stage->settings.half_open_max_calls = 1;
}

/* The child is dead: what it held is free at once, at the very same time. */
static void go_on_after_its_death(struct stage *stage)
{
    struct ticket ticket;
    enum admission answer;

    stage->child_lives = false;
    answer = admit(stage, &stage->copy, OTHER, ADDRESS_NONE, &ticket);
    assert_int_not_equal(answer, ADMIT_REFUSED_HALF_OPEN);
    if (answer == ADMIT_REFUSED_OPEN) { /* it had just opened: a pause, and not a moment longer */
        stage->now_ns += 20 * SECOND;
        answer = admit(stage, &stage->copy, OTHER, ADDRESS_NONE, &ticket);
        assert_int_equal(answer, ADMIT_PROBE);
    }
    if (answer == ADMIT_PROBE) {
        close_by_probe(stage, &ticket);
    } else {
        assert_int_equal(answer, ADMIT_PASS);
        assert_int_equal(settle(stage, &stage->copy, OTHER, &ticket, breaker_success), SETTLED_COUNTED);
    }
    take_every_permit(stage);
}

/* The child's outcome is in the window whole or not at all, and everybody counts on. */
static void count_on(struct stage *stage)
{
    struct circuit_view view;
    struct ticket ticket;

    circuit_observe(&stage->copy, &stage->settings, stage->now_ns, &view);
    uint64_t calls = view.window.calls;
    if (view.state != CIRCUIT_CLOSED) /* it has opened */
        return;
    assert_in_range(calls, stage->counted, stage->counted + 1);
    assert_int_equal(view.window.failed, stage->failed > 0 ? stage->failed + calls - stage->counted : 0);
    for (uint64_t i = 1; i <= 40; i++) {
        assert_int_equal(admit(stage, &stage->copy, OTHER, ADDRESS_NONE, &ticket), ADMIT_PASS);
        assert_int_equal(settle(stage, &stage->copy, OTHER, &ticket, breaker_success), SETTLED_COUNTED);
        circuit_observe(&stage->copy, &stage->settings, stage->now_ns, &view);
        assert_int_equal(view.window.calls, calls + i);
    }
}

/* The child lives but never comes back: its lease runs out, and the pause after it. */
static void go_on_without_it(struct stage *stage)
{
    struct ticket ticket;

    stage->child_lives = true;
    stage->now_ns += 5 * SECOND;
    enum admission answer = admit(stage, &stage->copy, OTHER, ADDRESS_NONE, &ticket);
    if (answer == ADMIT_REFUSED_OPEN) {
        stage->now_ns += 20 * SECOND;
        answer = admit(stage, &stage->copy, OTHER, ADDRESS_NONE, &ticket);
    }
    if (answer == ADMIT_PROBE)
        close_by_probe(stage, &ticket);
    else
        assert_int_equal(answer, ADMIT_PASS);
}

static void check_copy(struct stage *stage, void (*go_on)(struct stage *stage))
{
    uint64_t now = stage->now_ns;

    memcpy(&stage->copy, &stage->circuit, sizeof stage->copy);
    go_on(stage);
    stage->now_ns = now;
}

/* --- the child --- */

/* One instruction; false when the child stops by itself: its call has returned. */
static bool step(pid_t child)
{
    int status;

    assert_int_equal(ptrace(PTRACE_SINGLESTEP, child, NULL, NULL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSTOPPED(status));
    return WSTOPSIG(status) == SIGTRAP;
}

static pid_t start(struct stage *stage, void (*act)(struct stage *stage))
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nobody behind */
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(77);
        raise(SIGSTOP);
        act(stage);
        raise(SIGSTOP);
        _exit(0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip(); /* a container that forbids ptrace */
    assert_true(WIFSTOPPED(status));
    return child;
}

/* `changes`: how often the memory must have changed for the call to have done its work. */
static void kill_everywhere(struct stage *stage, void (*act)(struct stage *stage), unsigned int changes)
{
    static struct circuit before;
    unsigned int steps = 0, changed = 0;
    pid_t child = start(stage, act);

    memcpy(&before, &stage->circuit, sizeof before);
    check_copy(stage, go_on_after_its_death);
    while (step(child)) {
        assert_true(++steps < STEPS_MAX);
        if (memcmp(&before, &stage->circuit, sizeof before) == 0)
            continue;
        memcpy(&before, &stage->circuit, sizeof before);
        changed++;
        check_copy(stage, go_on_after_its_death);
        check_copy(stage, go_on_without_it);
        if (stage->settings.window != 0)
            check_copy(stage, count_on);
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_true(changed >= changes);
}

static void open_it(struct stage *stage)
{
    struct ticket ticket;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(admit(stage, &stage->circuit, OTHER, ADDRESS_NONE, &ticket), ADMIT_PASS);
        assert_int_equal(settle(stage, &stage->circuit, OTHER, &ticket, breaker_failure), SETTLED_COUNTED);
    }
}

static void probe_as_child(struct stage *stage, int address)
{
    open_it(stage);
    stage->now_ns += 10 * SECOND;
    assert_int_equal(admit(stage, &stage->circuit, CHILD, address, &stage->ticket), ADMIT_PROBE);
}

static void act_admit(struct stage *stage)
{
    admit(stage, &stage->circuit, CHILD, ADDRESS_NONE, &stage->ticket);
}

static void act_join(struct stage *stage)
{
    admit(stage, &stage->circuit, CHILD, 1, &stage->ticket);
}

static void act_success(struct stage *stage)
{
    settle(stage, &stage->circuit, CHILD, &stage->ticket, breaker_success);
}

static void act_failure(struct stage *stage)
{
    settle(stage, &stage->circuit, CHILD, &stage->ticket, breaker_failure);
}

static void act_neutral(struct stage *stage)
{
    settle(stage, &stage->circuit, CHILD, &stage->ticket, breaker_neutral);
}

/* With a rate that nothing here reaches, so that the threshold opens as before. */
static void use_window(struct stage *stage, uint64_t window)
{
    stage->settings.window = window;
    stage->settings.minimum_calls = 1000000;
    stage->settings.failure_rate_permille = 1000;
}

/* --- the tests --- */

static void killed_while_it_takes_the_probe(void **state)
{
    struct stage *stage = *state;

    open_it(stage);
    stage->now_ns += 10 * SECOND;
    kill_everywhere(stage, act_admit, 6);
}

static void killed_while_it_joins_a_probe(void **state)
{
    struct stage *stage = *state;

    probe_as_child(stage, 0);
    kill_everywhere(stage, act_join, 2);
}

static void killed_while_its_failure_opens_the_circuit(void **state)
{
    struct stage *stage = *state;
    struct ticket ticket;

    assert_int_equal(admit(stage, &stage->circuit, CHILD, ADDRESS_NONE, &stage->ticket), ADMIT_PASS);
    assert_int_equal(admit(stage, &stage->circuit, OTHER, ADDRESS_NONE, &ticket), ADMIT_PASS);
    assert_int_equal(settle(stage, &stage->circuit, OTHER, &ticket, breaker_failure), SETTLED_COUNTED);
    kill_everywhere(stage, act_failure, 4);
}

static void killed_while_its_probe_closes_the_circuit(void **state)
{
    struct stage *stage = *state;

    probe_as_child(stage, ADDRESS_NONE);
    kill_everywhere(stage, act_success, 4);
}

static void killed_while_its_probe_reopens_the_circuit(void **state)
{
    struct stage *stage = *state;

    probe_as_child(stage, 0);
    stage->ticket.address = ADDRESS_NONE;
    kill_everywhere(stage, act_failure, 5);
}

static void killed_while_it_gives_a_permit_back(void **state)
{
    struct stage *stage = *state;

    probe_as_child(stage, 0);
    kill_everywhere(stage, act_neutral, 4);
}

static void killed_while_it_frees_a_dead_process_s_lease_and_probes_itself(void **state)
{
    struct stage *stage = *state;

    probe_as_child(stage, ADDRESS_NONE);
    stage->dead = OTHER + 1;
    assert_int_equal(settle(stage, &stage->circuit, CHILD, &stage->ticket, breaker_neutral), SETTLED_COUNTED);
    assert_int_equal(admit(stage, &stage->circuit, stage->dead, ADDRESS_NONE, &stage->ticket), ADMIT_PROBE);
    kill_everywhere(stage, act_admit, 6);
}

static void killed_while_it_reopens_for_a_lost_probe_and_probes_itself(void **state)
{
    struct stage *stage = *state;
    struct ticket lost;

    open_it(stage);
    stage->now_ns += 10 * SECOND;
    assert_int_equal(admit(stage, &stage->circuit, OTHER + 1, ADDRESS_NONE, &lost), ADMIT_PROBE);
    stage->now_ns += 3600 * SECOND;
    kill_everywhere(stage, act_admit, 10);
}

/* The first outcome of its generation, and one that finds a bucket of another time, and one that counts up. */
static void killed_while_its_success_enters_a_duration(void **state)
{
    struct stage *stage = *state;

    use_window(stage, 30 * SECOND);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(admit(stage, &stage->circuit, CHILD, ADDRESS_NONE, &stage->ticket), ADMIT_PASS);
        kill_everywhere(stage, act_success, round == 0 ? 3 : 2);
        stage->counted++;
    }
    stage->now_ns += 30 * SECOND;
    stage->counted = 0;
    assert_int_equal(admit(stage, &stage->circuit, CHILD, ADDRESS_NONE, &stage->ticket), ADMIT_PASS);
    kill_everywhere(stage, act_success, 2);
}

/* The first one of the generation, and then so many that a chunk is full and the next one is begun. */
static void killed_while_its_success_enters_n_calls(void **state)
{
    struct stage *stage = *state;

    use_window(stage, WINDOW_CALLS | WINDOW_CALLS_MAX);
    stage->circuit.serial = 5;
    circuit_reset(&stage->circuit);
    for (int call = 0; call < 18; call++) {
        assert_int_equal(admit(stage, &stage->circuit, CHILD, ADDRESS_NONE, &stage->ticket), ADMIT_PASS);
        kill_everywhere(stage, act_success, call == 0 || call == 16 ? 3 : 2);
        stage->counted++;
    }
}

static void killed_while_its_failure_opens_by_the_rate(void **state)
{
    struct stage *stage = *state;
    struct circuit_view view;

    use_window(stage, 30 * SECOND);
    stage->settings.minimum_calls = 5;
    stage->settings.failure_rate_permille = 600;
    for (int call = 0; call < 4; call++) {
        assert_int_equal(admit(stage, &stage->circuit, OTHER, ADDRESS_NONE, &stage->ticket), ADMIT_PASS);
        settle(stage, &stage->circuit, OTHER, &stage->ticket, call % 2 == 0 ? breaker_failure : breaker_success);
    }
    stage->counted = 4;
    stage->failed = 2;
    assert_int_equal(admit(stage, &stage->circuit, CHILD, ADDRESS_NONE, &stage->ticket), ADMIT_PASS);
    kill_everywhere(stage, act_failure, 5);
    circuit_observe(&stage->circuit, &stage->settings, stage->now_ns, &view);
    assert_int_equal(view.state, CIRCUIT_OPEN);
}

#define stage_test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        stage_test(killed_while_it_takes_the_probe),
        stage_test(killed_while_it_joins_a_probe),
        stage_test(killed_while_its_failure_opens_the_circuit),
        stage_test(killed_while_its_probe_closes_the_circuit),
        stage_test(killed_while_its_probe_reopens_the_circuit),
        stage_test(killed_while_it_gives_a_permit_back),
        stage_test(killed_while_it_frees_a_dead_process_s_lease_and_probes_itself),
        stage_test(killed_while_it_reopens_for_a_lost_probe_and_probes_itself),
        stage_test(killed_while_its_success_enters_a_duration),
        stage_test(killed_while_its_success_enters_n_calls),
        stage_test(killed_while_its_failure_opens_by_the_rate),
    };

    return cmocka_run_group_tests_name("a process killed at any instruction", tests, NULL, NULL);
}
