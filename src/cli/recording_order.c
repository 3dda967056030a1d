/*
 * recording_order.c - each call once and in order, and what a recording of failures alone tells of successes.
 *
 * See recording.h. Calls are sorted by lane and end for that, and at last by their beginning.
 */
#include "cli/recording_order.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/cli.h"
#include "segment/event.h"

/* --- each call once ----------------------------------------------------------------------------------------------- */

static int compare_u64(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* What a failure and its outcome have both: by lane and end first, and the outcomes before the failures. */
static int compare_same(const struct sim_call *left, const struct sim_call *right)
{
    int order = compare_u64(left->lane, right->lane);
    if (order == 0)
        order = compare_u64(left->ended_ns, right->ended_ns);
    if (order == 0)
        order = compare_u64(left->pid, right->pid);
    if (order == 0)
        order = compare_u64(left->began_ns, right->began_ns);
    return order != 0 ? order : compare_u64(left->kind, right->kind);
}

static int compare_ends(const void *a, const void *b)
{
    const struct sim_call *left = a, *right = b;
    int order = compare_same(left, right);
    return order != 0 ? order : compare_u64(left->marks & CALL_OF_FAILURE, right->marks & CALL_OF_FAILURE);
}

/*
 * With `record = all` a failure has two events: so many of them as there are outcomes beside them are the same calls.
 */
static void drop_repeated(struct recording *recording)
{
    struct sim_call *calls = recording->calls;
    size_t kept = 0;
    for (size_t i = 0; i < recording->call_count;) {
        size_t end = i, outcomes = 0;
        for (; end < recording->call_count && compare_same(&calls[i], &calls[end]) == 0; end++)
            outcomes += (calls[end].marks & CALL_OF_FAILURE) == 0 && calls[end].verdict == VERDICT_FAILURE;
        for (; i < end; i++) {
            if ((calls[i].marks & CALL_OF_FAILURE) != 0 && outcomes > 0)
                outcomes--;
            else
                calls[kept++] = calls[i];
        }
    }
    recording->call_count = kept;
}

/* --- what must have been ------------------------------------------------------------------------------------------ */

static void infer_success(struct recording *recording, size_t lane, uint64_t began_ns, uint64_t ended_ns, uint32_t pid)
{
    recording->calls = grow(recording->calls, recording->call_count, sizeof *recording->calls);
    recording->calls[recording->call_count++] = (struct sim_call){
        .began_ns = began_ns,
        .ended_ns = ended_ns,
        .lane = (uint32_t)lane,
        .pid = pid,
        .verdict = VERDICT_SUCCESS,
        .marks = CALL_INFERRED,
    };
    recording->lanes[lane].inferred++;
}

/* The probes of a half-open circuit that closed have succeeded. */
static void infer_probes(struct recording *recording, size_t lane)
{
    const struct lane *at = &recording->lanes[lane];
    uint64_t began_ns = 0;
    uint32_t pid = 0;
    for (size_t i = at->first_step; i < at->first_step + at->steps; i++) {
        const struct recorded_step step = recording->steps[i];
        if (step.type == EVENT_PROBE) {
            if (began_ns != 0)
                infer_success(recording, lane, began_ns, step.at_ns, pid);
            began_ns = step.at_ns;
            pid = step.pid;
        } else if (step.type == EVENT_CLOSE && step.reason == REASON_PROBE_SUCCEEDED) {
            infer_success(recording, lane, began_ns != 0 ? began_ns : step.at_ns, step.at_ns, pid);
            began_ns = 0;
        } else {
            began_ns = 0;
        }
    }
}

/*
 * A run of so many failures opened it: if more had been counted before, a call succeeded in between. `failures` are the
 * ends of those that were counted since it was closed.
 */
static void infer_break(struct recording *recording, size_t lane, const uint64_t *failures, size_t count, size_t run)
{
    if (run == 0 || run >= count)
        return;
    const uint64_t before_ns = failures[count - run - 1], after_ns = failures[count - run];
    const uint64_t at_ns = before_ns + (after_ns - before_ns) / 2;
    infer_success(recording, lane, at_ns, at_ns, 0);
}

static void infer_breaks(struct recording *recording, size_t lane)
{
    const size_t first_call = recording->lanes[lane].first_call, last_call = first_call + recording->lanes[lane].calls;
    const size_t first_step = recording->lanes[lane].first_step, last_step = first_step + recording->lanes[lane].steps;
    uint64_t *failures = allocate(recording->lanes[lane].calls, sizeof *failures);
    size_t count = 0, call = first_call;
    bool is_closed = true;
    for (size_t i = first_step; i < last_step; i++) {
        const struct recorded_step step = recording->steps[i];
        for (; call < last_call && recording->calls[call].ended_ns <= step.at_ns; call++)
            if (is_closed && (recording->calls[call].marks & CALL_LATE) == 0)
                failures[count++] = recording->calls[call].ended_ns;
        if (step.type == EVENT_PROBE)
            continue;
        if (step.type == EVENT_OPEN && step.from == CIRCUIT_CLOSED && step.reason == REASON_FAILURE_THRESHOLD)
            infer_break(recording, lane, failures, count, step.failures);
        is_closed = step.to == CIRCUIT_CLOSED;
        count = 0;
    }
    free(failures);
}

/* --- order -------------------------------------------------------------------------------------------------------- */

static int compare_steps(const void *a, const void *b)
{
    const struct recorded_step *left = a, *right = b;
    int order = compare_u64(left->lane, right->lane);
    return order != 0 ? order : compare_u64(left->at_ns, right->at_ns);
}

static void find_lanes(struct recording *recording)
{
    for (size_t i = 0; i < recording->call_count; i++) {
        struct lane *lane = &recording->lanes[recording->calls[i].lane];
        if (lane->calls++ == 0)
            lane->first_call = i;
    }
    for (size_t i = 0; i < recording->step_count; i++) {
        struct lane *lane = &recording->lanes[recording->steps[i].lane];
        if (lane->steps++ == 0)
            lane->first_step = i;
    }
}

/* A merge sort, for steps of one moment keep the order in which they were written. */
static void sort_steps(struct recorded_step *steps, size_t count, struct recorded_step *room)
{
    const size_t half = count / 2;
    if (count < 2)
        return;
    sort_steps(steps, half, room);
    sort_steps(steps + half, count - half, room);
    memcpy(room, steps, half * sizeof *steps);
    for (size_t left = 0, right = half, to = 0; left < half; to++)
        steps[to] = right < count && compare_steps(&steps[right], &room[left]) < 0 ? steps[right++] : room[left++];
}

/* A call's beginning is reckoned back from its end by milliseconds; a probe's is known. */
static void date_probes(const struct recording *recording, const struct lane *lane)
{
    size_t first = lane->first_call;
    for (size_t i = lane->first_step; i < lane->first_step + lane->steps; i++) {
        const struct recorded_step *step = &recording->steps[i];
        if (step->type != EVENT_PROBE)
            continue;
        while (first < lane->first_call + lane->calls && recording->calls[first].ended_ns < step->at_ns)
            first++;
        for (size_t call = first; call < lane->first_call + lane->calls; call++) {
            struct sim_call *at = &recording->calls[call];
            if (at->pid != step->pid || (at->marks & CALL_LATE) != 0 || at->began_ns > step->at_ns + NS_PER_MS)
                continue;
            at->began_ns = step->at_ns;
            break;
        }
    }
}

void recording_order(struct recording *recording)
{
    struct recorded_step *room = allocate(recording->step_count / 2 + 1, sizeof *room);
    if (recording->call_count > 0)
        qsort(recording->calls, recording->call_count, sizeof *recording->calls, compare_ends);
    drop_repeated(recording);
    sort_steps(recording->steps, recording->step_count, room);
    free(room);
    find_lanes(recording);
    const size_t recorded = recording->call_count;
    for (size_t i = 0; i < recording->lane_count; i++) {
        date_probes(recording, &recording->lanes[i]);
        recording->lanes[i].has_failures_alone = recording->lanes[i].outcomes == 0 && recording->lanes[i].failures > 0;
        if (recording->lanes[i].has_failures_alone) {
            infer_breaks(recording, i);
            infer_probes(recording, i);
        }
    }
    if (recording->call_count > recorded) {
        qsort(recording->calls, recording->call_count, sizeof *recording->calls, compare_ends);
        for (size_t i = 0; i < recording->lane_count; i++)
            recording->lanes[i].calls = recording->lanes[i].steps = 0;
        find_lanes(recording);
    }
}

/* --- what was done ------------------------------------------------------------------------------------------------ */

/* A lane's steps, as they come between its calls. */
struct played {
    const struct recording *recording;
    struct sim_result *result;
    size_t first_call, next_call; /* since the circuit's latest transition; not played yet */
    bool in_run;
    uint64_t run_since_ns, first_refused, last_refused;
    enum circuit_state state;
    bool any_refused, began_closed;
    uint32_t prober[CIRCUIT_LEASES]; /* who probes, since it is half-open */
    unsigned int probers;
};

/* When the first call began of those in the window of a rate. 0: not all of them are recorded. */
static uint64_t window_since(const struct played *played, const struct recorded_step *step)
{
    uint64_t since_ns = step->at_ns;
    uint32_t found = 0;
    for (size_t i = played->next_call; i > played->first_call && found < step->window_bad; i--) {
        const struct sim_call *call = &played->recording->calls[i - 1];
        const bool is_bad = step->reason == REASON_SLOW_CALL_RATE ? call->is_slow : call->verdict == VERDICT_FAILURE;
        if (!is_bad || (call->marks & CALL_LATE) != 0)
            continue;
        found++;
        since_ns = call->began_ns < since_ns ? call->began_ns : since_ns;
    }
    return found > 0 && found == step->window_bad ? since_ns : 0;
}

static void play_opening(struct played *played, const struct recorded_step *step)
{
    struct sim_result *result = played->result;
    const bool by_rate = step->reason == REASON_FAILURE_RATE || step->reason == REASON_SLOW_CALL_RATE;
    const uint64_t since_ns = by_rate ? window_since(played, step) : played->in_run ? played->run_since_ns : 0;
    const uint64_t detect_ns = step->at_ns > since_ns ? step->at_ns - since_ns : 0;
    result->openings++;
    result->untold_openings++;
    if (since_ns == 0) {
        result->undated_openings++;
        return;
    }
    result->detect_ns += detect_ns;
    if (detect_ns > result->longest_detect_ns)
        result->longest_detect_ns = detect_ns;
}

static void play_step(struct played *played, const struct recorded_step *step)
{
    struct sim_result *result = played->result;
    if (step->type == EVENT_PROBE) {
        result->probes++;
        played->prober[played->probers++ % CIRCUIT_LEASES] = step->pid;
        return;
    }
    if (!played->any_refused) {
        played->first_refused = step->refused;
        played->began_closed = step->from == CIRCUIT_CLOSED;
    }
    played->any_refused = true;
    if (step->refused > played->last_refused)
        played->last_refused = step->refused;
    if (step->type == EVENT_OPEN && step->from == CIRCUIT_CLOSED)
        play_opening(played, step);
    result->reopenings += step->type == EVENT_OPEN && step->from == CIRCUIT_HALF_OPEN;
    if (step->type == EVENT_HALF_OPEN)
        played->probers = 0;
    played->state = (enum circuit_state)step->to;
    played->first_call = played->next_call;
}

static bool probes(const struct played *played, uint32_t pid)
{
    bool found = false;
    for (unsigned int i = 0; i < played->probers && i < CIRCUIT_LEASES && !found; i++)
        found = played->state == CIRCUIT_HALF_OPEN && played->prober[i] == pid;
    return found;
}

static void play_call(struct played *played, const struct sim_call *call)
{
    if (call->verdict == VERDICT_SUCCESS || call->verdict == VERDICT_BUSINESS) {
        played->in_run = false;
    } else if (call->verdict == VERDICT_FAILURE) {
        const bool is_probe = probes(played, call->pid);
        played->result->failed++;
        if (played->in_run && !is_probe)
            played->result->leaked++;
        if (!played->in_run)
            played->run_since_ns = call->began_ns;
        played->in_run = true;
    }
}

/* At one moment a probe begins before it ends, and a call ends before the transition that it makes. */
static bool comes_first(const struct sim_call *call, const struct recorded_step *step)
{
    const bool follows = step->type == EVENT_OPEN || step->type == EVENT_CLOSE;
    return call->ended_ns < step->at_ns || (call->ended_ns == step->at_ns && follows);
}

void recording_result(const struct recording *recording, size_t lane, struct recorded_result *result)
{
    const struct lane *at = &recording->lanes[lane];
    struct played played = {
        .recording = recording, .result = &result->result, .first_call = at->first_call, .next_call = at->first_call};
    size_t step = at->first_step;
    *result = (struct recorded_result){.knows_refused = false};
    while (played.next_call < at->first_call + at->calls || step < at->first_step + at->steps) {
        const bool is_call = played.next_call < at->first_call + at->calls &&
                             (step == at->first_step + at->steps ||
                              comes_first(&recording->calls[played.next_call], &recording->steps[step]));
        if (is_call)
            play_call(&played, &recording->calls[played.next_call++]);
        else
            play_step(&played, &recording->steps[step++]);
    }
    result->result.calls = at->calls - at->inferred;
    result->result.refused = played.last_refused - played.first_refused;
    if (at->has_refusal && result->result.refused == 0)
        result->result.refused = 1;
    /* What is refused is told by the next transition, and what was before the first one, only if that was to open. */
    const bool is_told = played.any_refused && played.began_closed && played.state == CIRCUIT_CLOSED;
    result->knows_refused = is_told || result->result.refused > 0;
    result->refused_at_least = result->knows_refused && !is_told;
}

void recorded_result_add(struct recorded_result *sum, const struct recorded_result *result)
{
    sim_result_add(&sum->result, &result->result);
    sum->knows_refused = sum->knows_refused || result->knows_refused;
    sum->refused_at_least = sum->refused_at_least || result->refused_at_least;
}
