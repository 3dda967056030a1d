/*
 * service.c - what the agent tells the service manager. See service.h.
 *
 * A datagram of lines to the socket that NOTIFY_SOCKET names: a path, or an abstract name behind an '@'.
 */
#define _GNU_SOURCE
#include "agent/service.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/clock.h"
#include "view/output.h"

static struct {
    char *place; /* NULL: nobody asks */
    uint64_t watchdog_us;
    ev_timer timer;
} manager;

static void tell(const char *lines)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (manager.place == NULL || strlen(manager.place) >= sizeof address.sun_path)
        return;
    const size_t length = strlen(manager.place);
    memcpy(address.sun_path, manager.place, length);
    if (address.sun_path[0] == '@')
        address.sun_path[0] = '\0';
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    /* Who does not listen any more has nothing to lose by it. */
    sendto(fd, lines, strlen(lines), MSG_NOSIGNAL, (const struct sockaddr *)&address,
           (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
    close(fd);
}

void service_know(void)
{
    const char *place = environment("NOTIFY_SOCKET"), *watchdog = environment("WATCHDOG_USEC"),
               *pid = environment("WATCHDOG_PID");
    uint64_t number;
    if (place != NULL && (place[0] == '/' || place[0] == '@'))
        manager.place = copy_text(place);
    if (watchdog != NULL && ascii_is_number(watchdog, &number) && number > 0)
        manager.watchdog_us = number;
    if (pid != NULL && (!ascii_is_number(pid, &number) || number != (uint64_t)getpid()))
        manager.watchdog_us = 0;
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

static void live(struct ev_loop *loop, ev_timer *timer, int events)
{
    (void)loop, (void)timer, (void)events;
    tell("WATCHDOG=1");
}

void service_ready(struct ev_loop *loop)
{
    tell("READY=1");
    if (manager.place == NULL || manager.watchdog_us == 0)
        return;
    const double half = (double)manager.watchdog_us / 2e6;
    ev_timer_init(&manager.timer, live, half, half);
    ev_timer_start(loop, &manager.timer);
    tell("WATCHDOG=1");
}

void service_reloading(void)
{
    char *lines = format_text("RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_real_ns() / 1000);
    tell(lines);
    free(lines);
}

void service_reloaded(void)
{
    tell("READY=1");
}

void service_stopping(void)
{
    tell("STOPPING=1");
}

void service_status(const char *text)
{
    char *line = format_text("STATUS=%s", text);
    tell(line);
    free(line);
}
