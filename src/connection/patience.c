/*
 * patience.c - how long the program has waited for what it waits for, and whether that is its peer's doing. Of
 * judgement.h.
 */
#define _GNU_SOURCE
#include "connection/judgement.h"

#include "base/clock.h"
#include "base/hot.h"
#include "connection/upload.h"

/* A program's last words before it closes (TLS close_notify, "quit") are no new request: the wait before them counts.
 */
#define LAST_WORDS_NS (50 * NS_PER_MS)
/* A shutdown of the sending side this long before the close was the end of the request, not of the program's patience.
 */
#define HALF_CLOSE_NS (100 * NS_PER_MS)

/*
 * Circuits that have answered this process after it had spoken first: a further connection that is opened and closed
 * unused did not wait for a greeting (node's fetch keeps one in reserve). Two circuits that share a place may hide
 * that, never make it up.
 */
#define POLITE_PLACES 512u
static _Atomic uint32_t polite[POLITE_PLACES]; /* circuit + 1; a root of this file alone */

HOT void judgement_note_polite(const struct connection *connection)
{
    if (connection_has(connection, CONNECTION_SENT) && !connection_has(connection, CONNECTION_REUSED))
        atomic_store_explicit(&polite[connection->place.circuit % POLITE_PLACES], connection->place.circuit + 1,
                              memory_order_relaxed);
}

bool judgement_is_spare(const struct connection *connection)
{
    return connection_state(connection) == STATE_CONNECTED &&
           atomic_load_explicit(&polite[connection->place.circuit % POLITE_PLACES], memory_order_relaxed) ==
               connection->place.circuit + 1;
}

void judgement_requested(struct connection *connection)
{
    uint64_t now_ns = clock_real_ns();
    uint64_t since_ns = atomic_load_explicit(&connection->waiting_since_ns, memory_order_relaxed);
    if (connection_has(connection, CONNECTION_SENT) && now_ns - since_ns >= LAST_WORDS_NS)
        atomic_store_explicit(&connection->waited_before_ns, since_ns, memory_order_relaxed);
    connection_mark(connection, CONNECTION_SENT);
    connection_happens(connection, ON_REQUEST);
    connection_keep(connection, false);
    place_is_measured(&connection->place);
    atomic_store_explicit(&connection->waiting_since_ns, now_ns, memory_order_relaxed);
    upload_wait(connection, clock_circuit_at(now_ns));
}

void judgement_request_sent(struct connection *connection)
{
    uint64_t now_ns = clock_real_ns();
    place_is_measured(&connection->place);
    atomic_store_explicit(&connection->waiting_since_ns, now_ns, memory_order_relaxed);
    upload_wait(connection, clock_circuit_at(now_ns));
}

/* How long the program has waited for what it waits for now. */
uint64_t judgement_waited_ns(const struct connection *connection, uint64_t now)
{
    uint64_t since = atomic_load_explicit(&connection->waiting_since_ns, memory_order_relaxed);
    uint64_t shut = atomic_load_explicit(&connection->shut_write_ns, memory_order_relaxed);
    uint64_t before = atomic_load_explicit(&connection->waited_before_ns, memory_order_relaxed);
    if (before && now - since < LAST_WORDS_NS)
        since = before;
    if (shut > since && now - shut > HALF_CLOSE_NS)
        since = shut;
    return now > since ? now - since : 0;
}

/* Of the time that the program has waited: only while the peer took nothing, where much was to be sent. */
uint64_t judgement_waited_for_peer(const struct connection *connection, uint64_t waited)
{
    int fd = atomic_load_explicit(&connection->fd, memory_order_relaxed);
    uint64_t silent_ns;
    if (upload_silence(connection, fd, &silent_ns) && silent_ns < waited)
        return silent_ns;
    return waited;
}

void judgement_ending_own_side(struct connection *connection)
{
    uint64_t wait_ns = judgement_waited_ns(connection, clock_real_ns());
    if (judgement_phase(connection) == PHASE_REQUESTED && wait_ns >= LAST_WORDS_NS &&
        wait_ns >= connection_target(connection)->rules.abandon_after_ns)
        connection_mark(connection, CONNECTION_GAVE_UP);
}
