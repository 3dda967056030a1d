/*
 * test_evidence_steps.c - a process is killed at any instruction while it notes a failure that opens the circuit: what
 * was there before stays readable, what it wrote is whole or counted as unreadable, and the next one writes as ever.
 */
#include "support_guard.h"
#include "support_stepped.h"

#include <string.h>

#include "segment/circuit_evidence.h"

#define POINTS_MAX 300u
/* Of each three that are noted one is killed. */
#define DEATHS_IN_RING (EVIDENCE_CLOSED_SIZE / 3)

struct scene {
    struct guard_bench *bench;
    struct evidence evidence;
    struct opening opening;
};

static void note(void *what)
{
    const struct scene *scene = what;

    evidence_note(&scene->bench->segment, scene->bench->circuit, EVIDENCE_CLOSED, &scene->evidence);
    evidence_note_opening(&scene->bench->segment, scene->bench->circuit, &scene->opening);
}

/* All about number N is N, so that a mixture shows. */
static void set(struct scene *scene, uint32_t number)
{
    scene->evidence = (struct evidence){
        .time_ns = number, .mono_ns = number, .elapsed_ns = number, .pid = number, .generation = number};
    scene->opening = (struct opening){.time_ns = number, .pid = number, .window_slow = number};
    memset(scene->evidence.program, 'a' + (int)(number % 26), sizeof scene->evidence.program - 1);
}

static void check(const struct evidence_view *view, uint32_t number, bool all, unsigned int steps, unsigned int total)
{
    bool former = false;

    for (unsigned int i = 0; i < view->count; i++) {
        const struct evidence *at = &view->at[i].evidence;
        if (at->time_ns != at->pid || at->mono_ns != at->pid || at->elapsed_ns != at->pid ||
            at->generation != at->pid || at->program[5] != 'a' + (int)(at->pid % 26) || at->pid > number)
            fail_msg("stopped at instruction %u of %u: a mixture", steps, total);
        former = former || at->pid == number - 1;
    }
    if (!former || view->unreadable > DEATHS_IN_RING || !view->has_opening ||
        view->opening.time_ns != view->opening.window_slow || view->opening.pid < number - 1)
        fail_msg("stopped at instruction %u of %u: what was before is not there", steps, total);
    if (all && view->at[view->count - 1].evidence.pid != number)
        fail_msg("behind a death at %u of %u nothing is noted", steps, total);
}

static void a_death_while_evidence_is_noted_leaves_the_rest_readable(void **state)
{
    struct guard_bench *bench = *state;
    static struct evidence_view view;
    struct scene scene = {.bench = bench};
    unsigned int total = STEPPED_MAX, stride = 1;
    uint32_t number = 1;

    set(&scene, number);
    note(&scene);
    for (unsigned int at = STEPPED_MAX; at <= total; at = at == STEPPED_MAX ? 0 : at + stride) {
        set(&scene, ++number);
        pid_t child = stepped_start(note, &scene);
        unsigned int steps = stepped_go(child, at);
        stepped_kill(child);
        assert_true(evidence_read(&bench->segment, bench->circuit, &view));
        check(&view, number, at == STEPPED_MAX, steps, total);
        set(&scene, ++number);
        note(&scene);
        set(&scene, ++number);
        note(&scene);
        assert_true(evidence_read(&bench->segment, bench->circuit, &view));
        check(&view, number, true, steps, total);
        assert_int_equal(view.opening.pid, number);
        if (at == STEPPED_MAX) {
            total = steps;
            stride = stepped_stride(total, POINTS_MAX);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_death_while_evidence_is_noted_leaves_the_rest_readable, guard_bench_setup,
                                        guard_bench_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
