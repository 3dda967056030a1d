/*
 * test_connection_histories.c - random programs on the scripted kernel: after each step the connection's state and its
 * record agree, whichever way a request goes. links: connection
 */
#include "support_engine.h"

#include <string.h>

#define SEEDS 200u
#define STEPS 120u
#define CONNECTIONS 3u

static uint64_t random_state;

static unsigned int draw(unsigned int below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned int)(random_state >> 33) % below;
}

static bool is_closed(int fd)
{
    return fd < 0;
}

static void begin(int *fd)
{
    *fd = program_socket(draw(2));
    kernel.connect_ends = draw(6) == 0 ? ECONNREFUSED : KERNEL_AS_USUAL;
    program_connect(*fd, 1);
}

static void brings(int fd, const char *text)
{
    if (kernel_socket(fd)->stage == KERNEL_OPEN && kernel_socket(fd)->unread_bytes < 1000)
        kernel_brings(fd, text, strlen(text));
}

/* What the program or the network does next. */
static void step(int *fd)
{
    static const char *const said[] = {REQUEST, "GET / HTTP/1.1\r\n\r\n",
                                       "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n", "PRI * HTTP/2.0\r\n", "quit"};
    static const char *const told[] = {ANSWER, "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 503 \r\n\r\n", "HTTP/1.1 10",
                                       "HTTP/1.1 101 \r\n\r\n"};
    unsigned int what = draw(20);
    if (is_closed(*fd)) {
        begin(fd);
        return;
    }
    switch (what) {
    case 0:
        program_close(*fd);
        *fd = -1;
        break;
    case 1:
        program_connect(*fd, 1);
        break;
    case 2:
        program_shutdown(*fd, (int)draw(3));
        break;
    case 3:
        program_error(*fd);
        break;
    case 4:
        if (kernel_socket(*fd)->stage == KERNEL_PENDING)
            kernel_establishes(*fd);
        break;
    case 5:
        if (draw(3) == 0 && kernel_socket(*fd)->stage != KERNEL_FRESH)
            kernel_fails(*fd, ECONNRESET);
        break;
    case 6:
        if (draw(3) == 0 && kernel_socket(*fd)->stage == KERNEL_OPEN)
            kernel_peer_ends(*fd);
        break;
    case 7:
        kernel_pass_ns(draw(4) * 200 * NS_PER_MS);
        break;
    case 8:
        kernel_pass_ns(draw(4) * 3 * NS_PER_S);
        break;
    case 9:
        program_receive_flags(*fd, MSG_PEEK);
        break;
    case 10:
        kernel_socket(*fd)->is_full = draw(4) == 0;
        break;
    case 11:
    case 12:
    case 13:
        brings(*fd, draw(4) ? ANSWER : told[draw(5)]);
        break;
    case 14:
    case 15:
    case 16:
        program_receive(*fd);
        break;
    default:
        program_send(*fd, draw(4) ? REQUEST : said[draw(5)]);
        break;
    }
}

/* Of one thread, and no child: what the record says, the state does. */
static void check(int fd)
{
    const struct connection *connection = bench_connection(fd);
    struct guard_wait wait;
    if (!connection || !descriptor_connection(descriptor_get(fd)))
        return;
    const enum connection_state state = connection_state(connection);
    assert_true(state > STATE_NONE && state < CONNECTION_STATES);
    if (state_is_aside(state))
        return;
    bool is_open = guard_wait(&bench_station.guard, connection->place.call, &wait);
    assert_int_equal(is_open, state_is_open(state));
    if (!is_open)
        return;
    bool settled;
    enum phase phase = guard_phase(&bench_station.guard, connection->place.call, &settled);
    if (!settled)
        assert_int_equal(phase == PHASE_CONNECTING, state == STATE_CONNECTING);
}

static void state_and_record_agree_in_random_histories(void **state)
{
    uint64_t outcomes = 0;
    for (unsigned int seed = 1; seed <= SEEDS; seed++) {
        int fds[CONNECTIONS] = {-1, -1, -1};
        assert_int_equal(seed % 2 ? engine_bench_setup(state) : engine_bench_setup_long(state), 0);
        bench_policy("response_timeout = 4s\n");
        random_state = seed;
        for (unsigned int i = 0; i < STEPS; i++) {
            unsigned int which = draw(CONNECTIONS);
            step(&fds[which]);
            if (!is_closed(fds[which]))
                check(fds[which]);
        }
        outcomes += bench_outcomes();
        engine_bench_teardown(state);
    }
    assert_true(outcomes > SEEDS * 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_and_record_agree_in_random_histories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
