/*
 * test_waiting_steps.c - an observer is stopped at any instruction while it reads a call that waits, and the next call
 * begins on the record meanwhile: what it read belongs to one of the two.
 */
#include "support_guard.h"
#include "support_stepped.h"

#include "segment/calls.h"

#define POINTS_MAX 300u

/* Call N began at N, is due at 2 N and is of circuit N. */
struct scene {
    struct segment *segment;
    uint32_t call;
    struct call_view read; /* by the child */
    bool waits;
};

static void read_it(void *what)
{
    struct scene *scene = what;

    scene->waits = calls_read_waiting(scene->segment, scene->call, &scene->read);
}

static void begin(const struct scene *scene, uint32_t number)
{
    const struct ticket ticket = {.generation = number, .token = number, .address = ADDRESS_NONE};
    struct call_view view;

    assert_true(calls_read(scene->segment, scene->call, &view));
    assert_true(number == 1 || calls_reserve(scene->segment, scene->call, &view));
    assert_true(calls_fill(scene->segment, scene->call, &view, number, &ticket, number, UINT64_C(2) * number));
    assert_true(calls_begin(scene->segment, scene->call, &view, PHASE_REQUESTED, DUE_NEVER));
}

static void settle(const struct scene *scene)
{
    struct call_view view;

    assert_true(calls_read(scene->segment, scene->call, &view));
    assert_true(calls_settle(scene->segment, scene->call, &view, CALL_SETTLED));
}

static void what_waits_is_read_whole_while_it_changes(void **state)
{
    struct guard_bench *bench = *state;
    struct scene *scene = stepped_share(sizeof *scene);
    unsigned int total = STEPPED_MAX, stride = 1;
    uint32_t number = 1;

    scene->segment = &bench->segment;
    scene->call = calls_claim(&bench->segment, bench->guard.holder);
    begin(scene, number);
    for (unsigned int at = STEPPED_MAX; at <= total; at = at == STEPPED_MAX ? 0 : at + stride) {
        pid_t child = stepped_start(read_it, scene);
        unsigned int steps = stepped_go(child, at);
        settle(scene);
        begin(scene, ++number);
        stepped_finish(child);
        stepped_kill(child);
        const struct call_view *read = &scene->read;
        assert_true(scene->waits);
        assert_true(read->circuit == number || read->circuit == number - 1);
        if (read->started_ns != read->circuit || read->due_ns != UINT64_C(2) * read->circuit ||
            read->ticket.token != read->circuit)
            fail_msg("stopped at instruction %u of %u: circuit %u, begun at %u, due at %u", steps, total, read->circuit,
                     (unsigned int)read->started_ns, (unsigned int)read->due_ns);
        if (at == STEPPED_MAX) {
            total = steps;
            stride = stepped_stride(total, POINTS_MAX);
        }
    }
    settle(scene);
    calls_release(&bench->segment, scene->call, bench->guard.holder);
    stepped_unshare(scene, sizeof *scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_waits_is_read_whole_while_it_changes, guard_bench_setup,
                                        guard_bench_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
