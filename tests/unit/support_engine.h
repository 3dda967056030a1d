/*
 * support_engine.h - an engine for the room src/connection on the bench: a policy, a station with a segment of its own,
 * and a program's calls, made as wrappers make them, on the scripted kernel.
 *
 * `program_…` is what a program does, with what it sees: -1 and errno, or the result. Each test begins with a policy
 * (`bench_policy`); the fixture ends it: closes what is open, and checks that every admitted call has one outcome, that
 * no record is left in the pool, and that none is left in the segment.
 *
 * Linked into tests that say so: their file has the words `links: connection` in its header.
 */
#ifndef SOCKFUSE_TESTS_SUPPORT_ENGINE_H
#define SOCKFUSE_TESTS_SUPPORT_ENGINE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>

#include <cmocka.h>

#include "connection/connection.h"
#include "connection/pool.h"
#include "segment/circuits.h"
#include "support_kernel.h"

int engine_bench_setup(void **state);
int engine_bench_teardown(void **state);
#define ENGINE_TEST(name) cmocka_unit_test_setup_teardown(name, engine_bench_setup, engine_bench_teardown)
/* The same where the short way is taken if it can be, and once more where it never is: nobody may tell them apart. */
int engine_bench_setup_long(void **state);
#define BOTH_WAYS(name)                                                                                                \
    ENGINE_TEST(name), cmocka_unit_test_setup_teardown(name, engine_bench_setup_long, engine_bench_teardown)

/*
 * The policy that is in force from now on: a target "db" with these keys, which takes dbPORT.internal:PORT, 10.0.0.x:PORT
 * and [fd00::x]:PORT, and a target "local" for unix:/run/PORT; PORT is another one for each test (so that what the room remembers of one
 * means nothing to the next). Threshold 3, a pause of 10 s, abandon_after 300 ms, timeouts of 10 s, none for answers.
 * Called again it is a reload. NULL: a policy without that target.
 */
void bench_policy(const char *keys);
extern uint16_t bench_port;
extern struct station bench_station;
extern const struct capacity *bench_capacity; /* of the segments that are made from now on; NULL: built in */
/* Whether requests and answers may go the short way, as with the preload. True at first. */
extern bool bench_takes_short_way;
extern unsigned int bench_short_first, bench_short_begins, bench_short_answers; /* which did, of this test */

/* --- the program --- */

/* A socket that blocks, or not; of IPv4. The number. */
int program_socket(bool blocks);
/* 10.0.0.LAST, and what else there is. */
struct sockaddr_in address_of(unsigned int last);
/* The program has resolved that name to 10.0.0.1 to 10.0.0.COUNT. */
void program_resolves(unsigned int count);
int program_connect(int fd, unsigned int last);
int program_connect_to(int fd, const void *address, socklen_t length);
int program_disconnect(int fd); /* AF_UNSPEC */
ssize_t program_send(int fd, const char *text);
ssize_t program_send_bytes(int fd, const void *bytes, size_t count, int flags);
ssize_t program_receive(int fd);
ssize_t program_receive_flags(int fd, int flags);
int program_shutdown(int fd, int how);
int program_close(int fd);
int program_dup(int fd);
int program_dup2(int fd, int to);
int program_error(int fd); /* SO_ERROR */
void program_exit(int status);
/* A connected socket to 10.0.0.1; with one request and its answer on it. */
int program_connected(void);
int program_kept(void);
/* A request, and the answer that comes to it. */
void program_calls(int fd, const char *request, const char *answer);
/* As many calls as open the circuit. */
void program_opens_circuit(void);
/* A number may be known to the room; what it knows. NULL: nothing. */
struct connection *bench_connection(int fd);

/* --- what came of it --- */

/* The sum over all circuits of a counter (breaker/counters.h). */
uint64_t counted(unsigned int counter);
/* Calls admitted so far and what they came to, all in one; the rest is in flight. */
#define SUCCEEDED(count) assert_int_equal(counted(COUNT_SUCCEEDED), count)
#define FAILED(kind, count) assert_int_equal(counted(COUNT_FAILURE_KIND + (kind)), count)
#define NEUTRAL(reason, count) assert_int_equal(counted(COUNT_NEUTRAL_REASON + (reason)), count)
#define ADMITTED(count) assert_int_equal(counted(COUNT_ADMITTED), count)
#define OUTCOMES(count) assert_int_equal(bench_outcomes(), count)
uint64_t bench_outcomes(void);

#define REQUEST "query"
#define ANSWER "rows"

#endif
