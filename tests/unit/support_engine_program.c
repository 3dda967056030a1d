/*
 * support_engine_program.c - a program's calls, made as wrappers make them. See support_engine.h.
 */
#define _GNU_SOURCE
#include "support_engine.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "breaker/http_request.h"
#include "connection/engine.h"
#include "connection/names.h"
#include "connection/short_exchange.h"
#include "connection/upload.h"

bool bench_takes_short_way = true;
unsigned int bench_short_first, bench_short_begins, bench_short_answers;

/* --- the program: as preload/wrapper.h has it, with the kernel's own calls in the middle --- */

int program_socket(bool blocks)
{
    int fd = kernel_make(AF_INET, SOCK_STREAM | (blocks ? 0 : SOCK_NONBLOCK), IPPROTO_TCP);
    connection_created(fd, AF_INET, SOCK_STREAM, 0);
    return fd;
}

struct sockaddr_in address_of(unsigned int last)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(bench_port)};
    in.sin_addr.s_addr = htonl(0x0a000000u | last);
    return in;
}

void program_resolves(unsigned int count)
{
    uint32_t answer = names_new_answer();
    char name[32];
    snprintf(name, sizeof name, "db%u.internal", bench_port);
    for (unsigned int last = 1; last <= count; last++) {
        struct endpoint endpoint;
        struct sockaddr_in in = address_of(last);
        assert_true(endpoint_from_sockaddr(&endpoint, (struct sockaddr *)&in, sizeof in));
        names_note(answer, name, &endpoint);
    }
}

static int attempt(struct attempt_ticket *ticket, enum passage passage, int fd, const struct sockaddr *address,
                   socklen_t length)
{
    int result = -1, diverted = -1;
    if (passage == PASSAGE_REFUSED) {
        errno = ticket->error;
        return -1;
    }
    if (passage == PASSAGE_DIVERTED && connection_divert(ticket, address, length, 0, &diverted))
        result = diverted;
    else if (ticket->limit.way != LIMIT_BARE)
        result = connection_connect(ticket, address, length);
    else
        result = kernel_connect(fd, address, length);
    int error = errno;
    if (passage != PASSAGE_FREE)
        connection_returned(ticket, result, error);
    errno = error;
    return result;
}

int program_connect_to(int fd, const void *address, socklen_t length)
{
    struct attempt_ticket ticket = {0};
    struct retrying retrying = {0};
    enum passage passage = connection_begin(fd, address, length, 0, &ticket);
    int result = attempt(&ticket, passage, fd, address, length);
    while (result < 0 && ticket.fails && connection_retries(&ticket, &retrying, errno)) {
        passage = connection_begin_again(&ticket, address, length, &retrying);
        result = attempt(&ticket, passage, fd, address, length);
    }
    return result;
}

int program_connect(int fd, unsigned int last)
{
    struct sockaddr_in in = address_of(last);
    return program_connect_to(fd, &in, sizeof in);
}

int program_disconnect(int fd)
{
    struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    return program_connect_to(fd, &nobody, sizeof nobody);
}

/* What a call that began needs no more words for. */
static bool is_plain(ssize_t result, const struct iovec *first)
{
    const char *byte = first->iov_base;
    return result > 0 && (size_t)result < UPLOAD_LARGE &&
           (*byte < 'A' || *byte > 'Z' || http_request_is_plain(byte, (size_t)result));
}

static bool begins_shortly(descriptor entry, size_t bytes)
{
    bool begins = bench_takes_short_way && bytes < UPLOAD_LARGE && short_exchange_begins(entry);
    bench_short_begins += begins;
    return begins;
}

static int sending(descriptor entry, int fd, size_t bytes)
{
    if (begins_shortly(entry, bytes))
        return SENDING_BEGINS;
    bool speaks = bench_takes_short_way && bytes < UPLOAD_LARGE && short_exchange_speaks(entry);
    return speaks ? 0 : connection_sending(entry, fd, bytes);
}

static bool spoke_shortly(descriptor entry, int fd, const struct iovec *vector, ssize_t result)
{
    bool spoke = bench_takes_short_way && result > 0 && short_exchange_spoke(entry, fd, vector, 1, (size_t)result);
    bench_short_first += spoke;
    return spoke;
}

static bool answers_shortly(descriptor entry, const void *bytes, size_t count, int flags)
{
    bool answers = bench_takes_short_way && short_exchange_answers(entry, bytes, count, flags);
    bench_short_answers += answers;
    return answers;
}

static ssize_t send_guarded(descriptor entry, int fd, const struct iovec *vector, int flags)
{
    ssize_t result;
    int verdict = sending(entry, fd, vector->iov_len);
    if (verdict > 0) {
        errno = verdict;
        return -1;
    }
    if (verdict == SENDING_FAULTY && connection_takes(entry, fd, vector, 1, &result))
        return result;
    result = kernel_send(fd, vector, 1, flags);
    int error = errno;
    if (verdict != SENDING_BEGINS && spoke_shortly(entry, fd, vector, result))
        return result;
    if (verdict != SENDING_BEGINS)
        connection_sent(entry, fd, result, error, result > 0 ? vector : NULL, result > 0);
    else if (!is_plain(result, vector))
        connection_begun(entry, fd, result, error, result > 0 ? vector : NULL, result > 0);
    errno = error;
    return result;
}

ssize_t program_send_bytes(int fd, const void *bytes, size_t count, int flags)
{
    struct iovec vector = {(void *)(uintptr_t)bytes, count};
    descriptor entry = descriptor_get(fd);
    return descriptor_connection(entry) ? send_guarded(entry, fd, &vector, flags) : kernel_send(fd, &vector, 1, flags);
}

ssize_t program_send(int fd, const char *text)
{
    return program_send_bytes(fd, text, strlen(text), 0);
}

static ssize_t receive_once(descriptor entry, int fd, void *bytes, size_t count, int flags)
{
    struct limit limit;
    bool limited = engine_tends_waits() && connection_limits_wait(entry, fd, flags, &limit);
    ssize_t result;
    do {
        result = limited && limit.way == LIMIT_LATER ? -1 : kernel_receive(fd, bytes, count, flags);
        if (limited && limit.way == LIMIT_LATER)
            errno = EAGAIN;
    } while (limited && result < 0 && errno == EAGAIN && limit.way != LIMIT_BARE &&
             connection_waits_on(entry, fd, &limit));
    return result;
}

ssize_t program_receive_flags(int fd, int flags)
{
    char bytes[4096] = "";
    descriptor entry = descriptor_get(fd);
    if (!descriptor_connection(entry))
        return kernel_receive(fd, bytes, sizeof bytes, flags);
    ssize_t result = receive_once(entry, fd, bytes, sizeof bytes, flags);
    int error = errno;
    if (result > 0 && answers_shortly(entry, bytes, (size_t)result, flags))
        return result;
    struct iovec vector = {bytes, sizeof bytes};
    connection_received(entry, fd, result, error, &(struct received){&vector, 1, sizeof bytes, flags});
    errno = error;
    return result;
}

ssize_t program_receive(int fd)
{
    return program_receive_flags(fd, 0);
}

int program_shutdown(int fd, int how)
{
    connection_shutting(fd, how);
    return kernel_shutdown(fd, how);
}

int program_close(int fd)
{
    connection_closing(fd);
    return kernel_close(fd);
}

int program_dup2(int fd, int to)
{
    if (to >= 0 && to != fd)
        connection_closing(to);
    to = kernel_duplicate(fd, to);
    connection_duplicated(fd, to);
    return to;
}

int program_dup(int fd)
{
    return program_dup2(fd, -1);
}

int program_error(int fd)
{
    descriptor entry = descriptor_get(fd);
    int error = kernel_take_error(fd);
    if (descriptor_connection(entry))
        connection_error_read(entry, fd, error);
    return error;
}

void program_exit(int status)
{
    connection_exit(status);
}

int program_connected(void)
{
    int fd = program_socket(true);
    assert_int_equal(program_connect(fd, 1), 0);
    return fd;
}

void program_calls(int fd, const char *request, const char *answer)
{
    assert_int_equal(program_send(fd, request), strlen(request));
    kernel_brings(fd, answer, strlen(answer));
    assert_int_equal(program_receive(fd), strlen(answer));
}

int program_kept(void)
{
    int fd = program_connected();
    program_calls(fd, REQUEST, ANSWER);
    return fd;
}

void program_opens_circuit(void)
{
    for (unsigned int i = 0; i < 3; i++) {
        int fd = program_socket(true);
        kernel.connect_ends = ECONNREFUSED;
        assert_int_equal(program_connect(fd, 1), -1);
        program_close(fd);
    }
    assert_int_equal(counted(COUNT_OPENED), 1);
}
