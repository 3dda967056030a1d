/*
 * test_death_steps.c - a place in the table of processes is given up, and who does it is killed at any instruction.
 *
 * A child is stepped through it and killed. Where the place is free by then, the death is counted: or nobody would look
 * for what its owner left.
 */
#include "support_guard.h"
#include "support_stepped.h"

#include <stdatomic.h>

#include "segment/layout.h"
#include "segment/processes.h"

#define POINTS_MAX 400u

struct giving_up {
    void (*gives)(struct segment *, uint32_t);
    struct segment *segment;
    uint32_t holder;
};

static void give_up_place(void *what)
{
    const struct giving_up *giving_up = what;

    giving_up->gives(giving_up->segment, giving_up->holder);
}

static void kill_at_each_instruction(struct guard_bench *bench, void (*give_up)(struct segment *, uint32_t))
{
    const uint32_t own = bench->guard.holder;
    unsigned int total = STEPPED_MAX, stride = 1;

    for (unsigned int at = STEPPED_MAX; at <= total; at = at == STEPPED_MAX ? 0 : at + stride) {
        const uint32_t other = process_join(&bench->segment, "other", 1);

        bench->guard.holder = other;
        bench_call(bench);
        bench->guard.holder = own;
        uint32_t deaths = atomic_load(&bench->segment.map->deaths);
        pid_t child = stepped_start(give_up_place, &(struct giving_up){give_up, &bench->segment, other});
        unsigned int steps = stepped_go(child, at);
        stepped_kill(child);
        if (process_asked(&bench->segment, other) == NULL && atomic_load(&bench->segment.map->deaths) == deaths)
            fail_msg("killed at instruction %u of %u: nobody looks for what the dead one left", steps, total);
        if (at == STEPPED_MAX) {
            total = steps;
            stride = stepped_stride(total, POINTS_MAX);
        }
        process_died(&bench->segment, other);
        bench_bury(bench);
    }
}

static void who_is_killed_while_giving_up_a_dead_ones_place_leaves_the_death_counted(void **state)
{
    kill_at_each_instruction(*state, process_died);
}

static void who_is_killed_while_leaving_leaves_its_death_counted(void **state)
{
    kill_at_each_instruction(*state, process_leave);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_is_killed_while_giving_up_a_dead_ones_place_leaves_the_death_counted,
                                        guard_bench_setup, guard_bench_teardown),
        cmocka_unit_test_setup_teardown(who_is_killed_while_leaving_leaves_its_death_counted, guard_bench_setup,
                                        guard_bench_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
