/*
 * test_connection_http2.c - connections that speak HTTP/2: each stream is a call; on a kernel that goes by a script.
 * links: connection
 */
#include "support_engine.h"

#include <string.h>

#include "connection/streams.h"

#define S NS_PER_S
#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define SETTINGS "\0\0\0\4\0\0\0\0\0"
#define STATUS(text) "\x08\3" text
#define OK_HEAD "\x88"
#define GRPC_HEAD                                                                                                      \
    OK_HEAD "\x0f\x10\x10"                                                                                             \
            "application/grpc"
#define GRPC_SAYS(text) "\0\x0bgrpc-status\2" text

enum { DATA, HEADERS, RST_STREAM = 3, GOAWAY = 7 };
enum { END_STREAM = 1, END_HEADERS = 4, WHOLE = END_STREAM | END_HEADERS };

static size_t frame(unsigned char *at, unsigned int type, unsigned int flags, uint32_t stream, const void *payload,
                    size_t count)
{
    const unsigned char head[] = {
        0, (unsigned char)(count >> 8),  (unsigned char)count, (unsigned char)type, (unsigned char)flags, 0,
        0, (unsigned char)(stream >> 8), (unsigned char)stream};
    memcpy(at, head, sizeof head);
    memcpy(at + sizeof head, payload, count);
    return sizeof head + count;
}

static ssize_t sends(int fd, unsigned int type, unsigned int flags, uint32_t stream, const char *payload, size_t count)
{
    unsigned char bytes[1024];
    return program_send_bytes(fd, bytes, frame(bytes, type, flags, stream, payload, count), 0);
}

static void brings(int fd, const void *bytes, size_t count)
{
    kernel_brings(fd, (const char *)bytes, count);
    program_receive(fd);
}

static void brings_frame(int fd, unsigned int type, unsigned int flags, uint32_t stream, const char *payload,
                         size_t count)
{
    unsigned char bytes[1024];
    brings(fd, bytes, frame(bytes, type, flags, stream, payload, count));
}
#define ASKS(fd, stream) sends(fd, HEADERS, WHOLE, stream, "\x82", 1)
#define ANSWERS(fd, stream, head) brings_frame(fd, HEADERS, END_HEADERS, stream, head, sizeof(head) - 1)
#define ENDS(fd, stream, head) brings_frame(fd, HEADERS, WHOLE, stream, head, sizeof(head) - 1)

/* A connection on which both sides have said what they begin with. */
static int greeted(const char *keys)
{
    bench_policy(keys);
    int fd = program_connected();
    program_send(fd, PREFACE);
    program_send_bytes(fd, SETTINGS, 9, 0);
    brings(fd, SETTINGS, 9);
    return fd;
}

/* --- calls --- */

static void settings_prove_nothing_and_the_first_answer_does(void **state)
{
    (void)state;
    int fd = greeted("");
    OUTCOMES(0);
    assert_true(ASKS(fd, 1) > 0);
    ADMITTED(1);
    OUTCOMES(0);
    ANSWERS(fd, 1, OK_HEAD);
    SUCCEEDED(1);
    brings_frame(fd, DATA, END_STREAM, 1, "body", 4);
    OUTCOMES(1);
}

static void a_server_may_speak_first(void **state)
{
    (void)state;
    bench_policy("");
    int fd = program_connected();
    brings(fd, SETTINGS, 9);
    OUTCOMES(0);
    program_send(fd, PREFACE);
    ASKS(fd, 1);
    ENDS(fd, 1, STATUS("503"));
    FAILED(FAILURE_HTTP, 1);
    ADMITTED(1);
}

static void each_stream_is_a_call_whatever_others_do(void **state)
{
    (void)state;
    int fd = greeted("");
    for (uint32_t stream = 1; stream <= 9; stream += 2)
        ASKS(fd, stream);
    ADMITTED(5);
    ENDS(fd, 7, STATUS("503"));
    ENDS(fd, 1, OK_HEAD);
    ENDS(fd, 3, STATUS("404"));
    FAILED(FAILURE_HTTP, 1);
    SUCCEEDED(1);
    assert_int_equal(counted(COUNT_BUSINESS), 1);
    ASKS(fd, 11);
    ENDS(fd, 11, OK_HEAD);
    ENDS(fd, 9, OK_HEAD);
    SUCCEEDED(3);
    ADMITTED(6);
    brings_frame(fd, RST_STREAM, 0, 5, "\0\0\0\2", 4);
    FAILED(FAILURE_RESET, 1);
}

static void an_interim_head_is_no_answer(void **state)
{
    (void)state;
    int fd = greeted("");
    ASKS(fd, 1);
    ANSWERS(fd, 1, STATUS("103"));
    OUTCOMES(0);
    ANSWERS(fd, 1, STATUS("503"));
    FAILED(FAILURE_HTTP, 1);
}

static void of_grpc_the_status_decides_wherever_it_stands(void **state)
{
    (void)state;
    int fd = greeted("failure_threshold = 9\n");
    ASKS(fd, 1);
    ANSWERS(fd, 1, GRPC_HEAD);
    brings_frame(fd, DATA, 0, 1, "message", 7);
    OUTCOMES(0);
    ENDS(fd, 1, GRPC_SAYS("14"));
    FAILED(FAILURE_HTTP, 1);
    ASKS(fd, 3);
    ENDS(fd, 3, GRPC_HEAD GRPC_SAYS("04"));
    FAILED(FAILURE_HTTP, 2);
    ASKS(fd, 5);
    ENDS(fd, 5, GRPC_HEAD GRPC_SAYS("05"));
    assert_int_equal(counted(COUNT_BUSINESS), 1);
    ASKS(fd, 7);
    ANSWERS(fd, 7, GRPC_HEAD);
    ENDS(fd, 7, GRPC_SAYS("00"));
    SUCCEEDED(1);
    ASKS(fd, 9);
    ANSWERS(fd, 9,
            STATUS("503") "\x0f\x10\x10"
                          "application/grpc");
    FAILED(FAILURE_HTTP, 3);
}

static void what_is_sent_in_parts_or_again_begins_its_stream_once(void **state)
{
    unsigned char bytes[64];
    (void)state;
    int fd = greeted("");
    const size_t count = frame(bytes, HEADERS, WHOLE, 1, "\x82", 1);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(program_send_bytes(fd, bytes + i, 1, 0), 1);
    ADMITTED(1);
    unsigned char answer[64];
    const size_t length = frame(answer, HEADERS, WHOLE, 1, STATUS("503"), 5);
    for (size_t i = 0; i < length; i++)
        brings(fd, answer + i, 1);
    FAILED(FAILURE_HTTP, 1);
    ASKS(fd, 3);
    ENDS(fd, 3, OK_HEAD);
    ADMITTED(2);
    SUCCEEDED(1);
}

/* --- waits --- */

static void of_many_streams_one_that_hangs_is_charged(void **state)
{
    (void)state;
    int fd = greeted("response_timeout = 2s\n");
    ASKS(fd, 1);
    ASKS(fd, 3);
    kernel_pass_ns(1 * S);
    ENDS(fd, 3, OK_HEAD);
    kernel_pass_ns(2 * S);
    ASKS(fd, 5);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
    ENDS(fd, 5, OK_HEAD);
    SUCCEEDED(2);
    ENDS(fd, 1, OK_HEAD);
    assert_int_equal(counted(COUNT_OVERDUE_ENDED), 1);
}

static void a_stream_waits_from_its_request_s_end_to_its_first_head(void **state)
{
    (void)state;
    int fd = greeted("response_timeout = 2s\n");
    sends(fd, HEADERS, END_HEADERS, 1, "\x83", 1);
    kernel_pass_ns(5 * S);
    sends(fd, DATA, END_STREAM, 1, "body", 4);
    kernel_pass_ns(1 * S);
    ANSWERS(fd, 1, GRPC_HEAD);
    kernel_pass_ns(60 * S);
    ASKS(fd, 3);
    ENDS(fd, 3, OK_HEAD);
    assert_int_equal(counted(COUNT_OVERDUE), 0);
    ENDS(fd, 1, GRPC_SAYS("00"));
    SUCCEEDED(2);
}

static void a_program_that_gives_a_stream_up_has_waited_for_it(void **state)
{
    (void)state;
    int fd = greeted("");
    ASKS(fd, 1);
    ASKS(fd, 3);
    kernel_pass_ns(100 * NS_PER_MS);
    sends(fd, RST_STREAM, 0, 1, "\0\0\0\x8", 4);
    NEUTRAL(NEUTRAL_CANCELLED, 1);
    kernel_pass_ns(1 * S);
    sends(fd, RST_STREAM, 0, 3, "\0\0\0\x8", 4);
    FAILED(FAILURE_RESPONSE_TIMEOUT, 1);
}

/* --- ends --- */

static void what_was_not_processed_says_nothing(void **state)
{
    (void)state;
    int fd = greeted("");
    for (uint32_t stream = 1; stream <= 7; stream += 2)
        ASKS(fd, stream);
    brings_frame(fd, RST_STREAM, 0, 1, "\0\0\0\7", 4);
    NEUTRAL(NEUTRAL_STALE, 1);
    brings_frame(fd, GOAWAY, 0, 0, "\0\0\0\3\0\0\0\0", 8);
    NEUTRAL(NEUTRAL_STALE, 3);
    ENDS(fd, 3, OK_HEAD);
    SUCCEEDED(1);
    kernel_peer_ends(fd);
    program_receive(fd);
    program_close(fd);
    OUTCOMES(4);
}

static void a_connection_that_is_lost_fails_what_was_asked_first_on_it(void **state)
{
    (void)state;
    int fd = greeted("");
    ASKS(fd, 1);
    ASKS(fd, 3);
    kernel_peer_ends(fd);
    program_receive(fd);
    FAILED(FAILURE_EARLY_CLOSE, 2);
    program_close(fd);
    OUTCOMES(2);
}

static void a_connection_that_was_not_needed_is_a_success(void **state)
{
    (void)state;
    int fd = greeted("");
    kernel_pass_ns(10 * S);
    program_close(fd);
    SUCCEEDED(1);
}

/* --- refusals --- */

static void an_open_circuit_refuses_the_next_stream_by_a_reset(void **state)
{
    (void)state;
    int fd = greeted("");
    for (uint32_t stream = 1; stream <= 5; stream += 2) {
        ASKS(fd, stream);
        ENDS(fd, stream, STATUS("503"));
    }
    errno = 0;
    assert_int_equal(ASKS(fd, 7), -1);
    assert_int_equal(errno, ECONNRESET);
    assert_int_equal(counted(COUNT_REFUSED), 1);
    assert_int_equal(ASKS(fd, 9), -1);
    ADMITTED(3);
}

static void streams_that_are_under_way_are_let_finish(void **state)
{
    (void)state;
    int fd = greeted("");
    for (uint32_t stream = 1; stream <= 7; stream += 2)
        ASKS(fd, stream);
    for (uint32_t stream = 3; stream <= 7; stream += 2)
        ENDS(fd, stream, STATUS("503"));
    assert_true(ASKS(fd, 9) > 0); /* beside the first one */
    ENDS(fd, 9, OK_HEAD);
    ENDS(fd, 1, OK_HEAD);
    assert_int_equal(ASKS(fd, 11), -1);
    assert_int_equal(counted(COUNT_REFUSED), 2);
}

static void with_existing_allow_no_stream_is_refused(void **state)
{
    (void)state;
    int fd = greeted("existing = allow\n");
    for (uint32_t stream = 1; stream <= 9; stream += 2) {
        assert_true(ASKS(fd, stream) > 0);
        ENDS(fd, stream, STATUS("503"));
    }
    ADMITTED(5);
}

/* --- what can't be followed --- */

static void more_streams_than_there_is_room_for_pass_unseen(void **state)
{
    (void)state;
    int fd = greeted("");
    for (uint32_t i = 0; i <= STREAMS_MAX; i++)
        assert_true(ASKS(fd, 2 * i + 1) > 0);
    ADMITTED(STREAMS_MAX);
    for (uint32_t i = 0; i <= STREAMS_MAX; i++)
        ENDS(fd, 2 * i + 1, OK_HEAD);
    SUCCEEDED(STREAMS_MAX);
    ASKS(fd, 2 * STREAMS_MAX + 3);
    ADMITTED(STREAMS_MAX + 1);
}

static void bytes_that_are_no_frames_end_it_without_a_word_on_any_stream(void **state)
{
    (void)state;
    int fd = greeted("");
    ASKS(fd, 1);
    ASKS(fd, 3);
    brings_frame(fd, HEADERS, END_HEADERS, 1, "\x80", 1);
    NEUTRAL(NEUTRAL_STALE, 2);
    ASKS(fd, 5);
    brings(fd, "anything", 8);
    program_close(fd);
    ADMITTED(2);
    OUTCOMES(2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH_WAYS(settings_prove_nothing_and_the_first_answer_does),
        BOTH_WAYS(a_server_may_speak_first),
        BOTH_WAYS(each_stream_is_a_call_whatever_others_do),
        BOTH_WAYS(an_interim_head_is_no_answer),
        BOTH_WAYS(of_grpc_the_status_decides_wherever_it_stands),
        BOTH_WAYS(what_is_sent_in_parts_or_again_begins_its_stream_once),
        BOTH_WAYS(of_many_streams_one_that_hangs_is_charged),
        BOTH_WAYS(a_stream_waits_from_its_request_s_end_to_its_first_head),
        BOTH_WAYS(a_program_that_gives_a_stream_up_has_waited_for_it),
        BOTH_WAYS(what_was_not_processed_says_nothing),
        BOTH_WAYS(a_connection_that_is_lost_fails_what_was_asked_first_on_it),
        BOTH_WAYS(a_connection_that_was_not_needed_is_a_success),
        BOTH_WAYS(an_open_circuit_refuses_the_next_stream_by_a_reset),
        BOTH_WAYS(streams_that_are_under_way_are_let_finish),
        BOTH_WAYS(with_existing_allow_no_stream_is_refused),
        BOTH_WAYS(more_streams_than_there_is_room_for_pass_unseen),
        BOTH_WAYS(bytes_that_are_no_frames_end_it_without_a_word_on_any_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
