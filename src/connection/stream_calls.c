/*
 * stream_calls.c - the call of a stream: whether it may begin, since when it waits, what became of it. See
 * http2_calls.h.
 */
#define _GNU_SOURCE
#include "connection/http2_calls.h"

#include <errno.h>

#include "base/clock.h"
#include "base/frame.h"
#include "connection/socket_state.h"
#include "connection/stopping.h"

/*
 * While the circuit is open a further stream breaks the connection off, and whatever else is under way on it. So
 * streams that began this short a while ago are let finish first; one that lasts longer (a watch, a subscription) has
 * had its time, and its program begins it anew.
 */
#define FINISH_NS (10 * NS_PER_S)

static bool has_flag(const struct stream *stream, enum stream_flag flag)
{
    return atomic_load_explicit(&stream->flags, memory_order_relaxed) & (uint32_t)flag;
}

static void set_flag(struct stream *stream, enum stream_flag flag)
{
    atomic_fetch_or_explicit(&stream->flags, (uint32_t)flag, memory_order_relaxed);
}

/* Whether the stream was admitted, is under way, and is to be let finish. One that was charged hangs. */
static bool is_worth_waiting(const struct connection *connection, const struct stream *stream, uint64_t real_ns)
{
    const uint32_t call = atomic_load_explicit(&stream->call, memory_order_relaxed);
    bool is_charged = false;
    if (call != CALL_NONE)
        guard_phase(&connection->station->guard, call, &is_charged);
    return !is_charged && !has_flag(stream, STREAM_AGAINST) &&
           real_ns - atomic_load_explicit(&stream->begun_ns, memory_order_relaxed) < FINISH_NS;
}

/* An attempt's must_pass, of a connection: whether any stream on it is. */
static bool lets_finish(const void *context)
{
    const struct connection *connection = context;
    const struct streams *streams = streams_of(connection);
    const uint32_t high = streams ? atomic_load_explicit(&streams->high, memory_order_relaxed) : 0;
    const uint64_t real_ns = clock_real_ns();
    for (uint32_t place = 0; place < high && place < STREAMS_MAX; place++) {
        const uint32_t id = atomic_load_explicit(&streams->ids[place], memory_order_acquire);
        if (id != 0 && id != STREAM_BUSY && is_worth_waiting(connection, &streams->streams[place], real_ns))
            return true;
    }
    return false;
}

/* The same of a stream that has gone. */
static bool has_gone(const void *context)
{
    (void)context;
    return true;
}

/* --- beginning --- */

typedef bool must_pass_fn(const void *connection);

/* The attempt's call is the first stream's. False: it is over already. */
static bool take_attempt(struct connection *connection, struct streams *streams, struct stream *stream,
                         uint64_t real_ns)
{
    struct guard *guard = &connection->station->guard;
    const uint32_t call = connection->place.call;
    uint32_t own = OWN_ATTEMPT;
    if (!atomic_compare_exchange_strong_explicit(&streams->own, &own, OWN_STREAM, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return false;
    if (judgement_phase(connection) == PHASE_ANSWERED) {
        /* Charged while it waited for the settings, which came after all; or nothing is asked of it but a connection. */
        struct observation seen = {.seen = SEEN_BYTES};
        guard_settle(guard, call, connection_target(connection), call, &seen, clock_circuit_at(real_ns));
        atomic_store_explicit(&streams->own, OWN_IDLE, memory_order_release);
        return false;
    }
    set_flag(stream, STREAM_OWN);
    atomic_store_explicit(&stream->call, call, memory_order_relaxed);
    guard_requested(guard, call, connection_target(connection), clock_circuit_at(real_ns));
    return true;
}

/* The next call on the connection's record. False: another stream has it. */
static bool begin_own(struct connection *connection, struct streams *streams, struct stream *stream,
                      must_pass_fn *must_pass, uint64_t now_ns, enum admission *admission)
{
    uint32_t own = OWN_IDLE;
    const bool is_elsewhere = station_is_retired(connection->station);
    /* The records beside it are in the former segment, which stays as long as the connection follows it. */
    if (is_elsewhere && atomic_load_explicit(&streams->beside, memory_order_relaxed) != 0)
        return false;
    if (!atomic_compare_exchange_strong_explicit(&streams->own, &own, OWN_STREAM, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return false;
    *admission = next_call_admit(connection, must_pass, now_ns);
    if (admission_refuses(*admission) || judgement_phase(connection) == PHASE_ANSWERED) {
        atomic_store_explicit(&streams->own, OWN_IDLE, memory_order_release);
        return true;
    }
    set_flag(stream, STREAM_OWN);
    atomic_store_explicit(&stream->call, connection->place.call, memory_order_relaxed);
    return true;
}

/* A call on a record of its own. */
OWN_FRAME static enum admission begin_beside(struct connection *connection, struct streams *streams,
                                             struct stream *stream, must_pass_fn *must_pass, uint64_t now_ns)
{
    struct guard *guard = &connection->station->guard;
    const struct attempt attempt = {
        .target = connection_target(connection),
        .circuit = connection->place.circuit,
        .address_key = connection->address_key,
        .shard = connection->place.call,
        .must_pass = must_pass,
        .context = connection,
    };
    uint32_t call;
    if (station_is_retired(connection->station))
        return ADMIT_PASS;
    const enum admission admission = guard_begin_beside(guard, &attempt, now_ns, &call);
    if (call == CALL_NONE)
        return admission;
    atomic_fetch_add_explicit(&streams->beside, 1, memory_order_relaxed);
    atomic_store_explicit(&stream->call, call, memory_order_relaxed);
    guard_name(guard, call, pool_name(atomic_load_explicit(&connection->entry, memory_order_relaxed)));
    return admission;
}

static enum admission begin_call(struct connection *connection, struct streams *streams, struct stream *stream,
                                 bool may_refuse, uint64_t real_ns)
{
    enum admission admission = ADMIT_PASS;
    const uint64_t now_ns = clock_circuit_at(real_ns);
    must_pass_fn *must_pass = may_refuse ? lets_finish : has_gone;
    if (!take_attempt(connection, streams, stream, real_ns) &&
        !begin_own(connection, streams, stream, must_pass, now_ns, &admission))
        admission = begin_beside(connection, streams, stream, must_pass, now_ns);
    const uint32_t call = atomic_load_explicit(&stream->call, memory_order_relaxed);
    if (call == CALL_NONE)
        return admission;
    if (guard_probes(&connection->station->guard, call))
        set_flag(stream, STREAM_PROBE);
    if (guard_passes_against(&connection->station->guard, call))
        set_flag(stream, STREAM_AGAINST);
    return admission;
}

bool stream_begin(struct connection *connection, struct streams *streams, uint32_t id, bool may_refuse)
{
    const uint32_t never = (uint32_t)CONNECTION_RELEASED | (uint32_t)CONNECTION_ONE_WAY;
    const uint64_t real_ns = clock_real_ns();
    engine_look(real_ns);
    next_call_follow_policy(connection);
    if (atomic_load_explicit(&connection->properties, memory_order_relaxed) & never)
        return true;
    const uint32_t place = stream_claim(streams);
    if (place == STREAM_NONE) {
        segment_note_no_room(&connection->station->segment, NO_ROOM_CONNECTIONS);
        return true;
    }
    struct stream *stream = &streams->streams[place];
    atomic_store_explicit(&stream->call, CALL_NONE, memory_order_relaxed);
    atomic_store_explicit(&stream->flags, connection_has(connection, CONNECTION_REUSED) ? STREAM_KEPT : 0,
                          memory_order_relaxed);
    atomic_store_explicit(&stream->begun_ns, real_ns, memory_order_relaxed);
    atomic_store_explicit(&stream->since_ns, real_ns, memory_order_relaxed);
    const bool passes = !admission_refuses(begin_call(connection, streams, stream, may_refuse, real_ns));
    stream_publish(streams, place, passes ? id : 0);
    return passes;
}

void stream_asked(struct connection *connection, struct streams *streams, uint32_t place, bool whole)
{
    struct stream *stream = &streams->streams[place];
    const uint32_t call = atomic_load_explicit(&stream->call, memory_order_relaxed);
    const uint64_t real_ns = clock_real_ns();
    if (call == CALL_NONE || has_flag(stream, STREAM_ANSWERED))
        return;
    atomic_store_explicit(&stream->since_ns, real_ns, memory_order_relaxed);
    if (whole)
        guard_requested(&connection->station->guard, call, connection_target(connection), clock_circuit_at(real_ns));
    else
        guard_request_goes_on(&connection->station->guard, call, connection_target(connection),
                              clock_circuit_at(real_ns));
}

/* --- the end --- */

void stream_wait_ends(struct connection *connection, const struct stream *stream)
{
    const uint32_t call = atomic_load_explicit(&stream->call, memory_order_relaxed);
    if (call != CALL_NONE)
        guard_excuse(&connection->station->guard, call);
}

/* The call is over: who takes it from the stream gives its record back. */
static void release(struct connection *connection, struct streams *streams, const struct stream *stream, uint32_t call)
{
    if (has_flag(stream, STREAM_OWN)) {
        atomic_store_explicit(&streams->own, OWN_IDLE, memory_order_release);
        return;
    }
    guard_forget(&connection->station->guard, call, connection_target(connection), connection->place.call,
                 clock_circuit_ns());
    atomic_fetch_sub_explicit(&streams->beside, 1, memory_order_relaxed);
}

OWN_FRAME void stream_judge(struct connection *connection, struct streams *streams, uint32_t place,
                            const struct stream_end *end)
{
    struct stream *stream = &streams->streams[place];
    struct guard *guard = &connection->station->guard;
    const uint32_t call = atomic_exchange_explicit(&stream->call, CALL_NONE, memory_order_acq_rel);
    if (call == CALL_NONE)
        return;
    const uint64_t real_ns = clock_real_ns(), now_ns = clock_circuit_at(real_ns), due_ns = guard_due(guard, call);
    const uint64_t since_ns = atomic_load_explicit(&stream->since_ns, memory_order_relaxed);
    struct observation observation = {
        .seen = end->seen,
        .error = end->error,
        .http_status = end->status,
        .retry_after_ns = connection_target(connection)->retry_after ? end->retry_after_ns : 0,
        .answered_before = end->is_stale,
        .waited_ns = real_ns > since_ns ? real_ns - since_ns : 0,
        .stands_for = 1,
    };
    if (now_ns >= due_ns)
        observation.came_ns = judgement_came_at(connection, end->seen, now_ns, due_ns);
    guard_settle(guard, call, connection_target(connection), connection->place.call, &observation, now_ns);
    if (end->seen == SEEN_BYTES && !connection_has(connection, CONNECTION_REUSED)) {
        judgement_note_polite(connection);
        connection_mark(connection, CONNECTION_REUSED);
    }
    release(connection, streams, stream, call);
}

/* All streams come to that end, but for those of gRPC that were being answered, where it is the program's. */
static void judge_all(struct connection *connection, struct streams *streams, const struct stream_end *end)
{
    static const struct stream_end answered = {.seen = SEEN_BYTES};
    for (uint32_t place = 0; place < STREAMS_MAX; place++) {
        const struct stream *stream = &streams->streams[place];
        const uint32_t id = atomic_load_explicit(&streams->ids[place], memory_order_acquire);
        if (id == 0)
            continue;
        struct stream_end own = *end;
        own.is_stale |= has_flag(stream, STREAM_KEPT);
        stream_judge(connection, streams, place,
                     end->seen == SEEN_GAVE_UP && has_flag(stream, STREAM_ANSWERED) ? &answered : &own);
        stream_end(streams, place, id);
    }
}

/* The streams are over. True: so is the connection's own call. */
static bool is_own_over(struct connection *connection, struct streams *streams)
{
    if (atomic_load_explicit(&streams->own, memory_order_acquire) != OWN_ATTEMPT)
        return true;
    if (!streams->came.has_greeted)
        return false;
    /* Nothing was asked, and the server was there. */
    struct observation seen = {.seen = SEEN_BYTES};
    guard_settle(&connection->station->guard, connection->place.call, connection_target(connection),
                 connection->place.call, &seen, clock_circuit_ns());
    return true;
}

/* It is no connection of HTTP/2 any more. */
static void part(struct connection *connection)
{
    const uint32_t number = atomic_exchange_explicit(&connection->streams, 0, memory_order_acq_rel);
    connection_unmark(connection, CONNECTION_HTTP2);
    streams_give(number, atomic_load_explicit(&connection->entry, memory_order_relaxed));
}

bool http2_lost(struct connection *connection, enum seen seen, int error)
{
    struct streams *streams = streams_of(connection);
    if (!streams)
        return false;
    judge_all(connection, streams, &(struct stream_end){.seen = seen, .error = error});
    const bool is_over = is_own_over(connection, streams);
    part(connection);
    if (is_over)
        connection_happens(connection, ON_LOSS);
    return is_over;
}

/* What the kernel says of a connection that the program ends. */
static struct stream_end look_at_end(struct connection *connection, int fd, enum judgement_end end)
{
    static const struct stream_end nothing = {.seen = SEEN_ERROR, .error = ECONNRESET, .is_stale = true};
    if (end == LIFE_EXITS || !judgement_is_same_socket(connection, fd) || judgement_may_be_anothers(connection))
        return nothing;
    const struct socket_state state = socket_state(fd, connection_has(connection, CONNECTION_UNIX));
    if (state.stage == SOCKET_DEAD)
        return (struct stream_end){.seen = SEEN_ERROR, .error = ECONNRESET};
    if (state.stage == SOCKET_PEER_DONE)
        return (struct stream_end){.seen = SEEN_END};
    /* Whose answers lie there nobody has read. */
    if (!connection_has(connection, CONNECTION_TLS) && socket_has_unread(fd))
        return nothing;
    if (stopping_now() != STOPPING_NOT)
        return nothing;
    return (struct stream_end){.seen = SEEN_GAVE_UP};
}

/* Whether any stream has a call. */
static bool has_calls(const struct streams *streams)
{
    for (uint32_t place = 0; place < STREAMS_MAX; place++) {
        if (atomic_load_explicit(&streams->ids[place], memory_order_relaxed) != 0 &&
            atomic_load_explicit(&streams->streams[place].call, memory_order_relaxed) != CALL_NONE)
            return true;
    }
    return false;
}

OWN_FRAME bool http2_ending(struct connection *connection, int fd, enum judgement_end end)
{
    struct streams *streams = streams_of(connection);
    if (!streams)
        return false;
    if (has_calls(streams)) {
        const struct stream_end seen = look_at_end(connection, fd, end);
        judge_all(connection, streams, &seen);
    }
    const bool is_over = is_own_over(connection, streams);
    part(connection);
    return is_over;
}

void http2_leave(struct connection *connection)
{
    struct streams *streams = streams_of(connection);
    if (!streams)
        return;
    judge_all(connection, streams, &(struct stream_end){.seen = SEEN_ERROR, .error = ECONNRESET, .is_stale = true});
    part(connection);
}

/* --- what hangs --- */

static uint32_t place_of_call(const struct streams *streams, uint32_t call)
{
    for (uint32_t place = 0; place < STREAMS_MAX; place++) {
        if (atomic_load_explicit(&streams->ids[place], memory_order_relaxed) != 0 &&
            atomic_load_explicit(&streams->streams[place].call, memory_order_relaxed) == call)
            return place;
    }
    return STREAM_NONE;
}

bool http2_has_call(const struct connection *connection, uint32_t call)
{
    const struct streams *streams = connection_has(connection, CONNECTION_HTTP2) ? streams_of(connection) : NULL;
    return streams && place_of_call(streams, call) != STREAM_NONE;
}

/*
 * What has come and lies unread may be the answer: a moment later it will be seen. That others are answered meanwhile
 * says nothing.
 */
bool http2_still_hangs(const struct connection *connection, uint32_t call, int fd, bool *hangs)
{
    const struct streams *streams = connection_has(connection, CONNECTION_HTTP2) ? streams_of(connection) : NULL;
    if (!streams || place_of_call(streams, call) == STREAM_NONE)
        return false;
    *hangs = !connection_has(connection, CONNECTION_PASSED) &&
             (!judgement_is_same_socket(connection, fd) || !judgement_has_unread(connection, fd));
    return true;
}
