/*
 * follow.c - commands that go on looking. See follow.h.
 */
#include "cli/follow.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

bool follow_wait(int milliseconds)
{
    struct pollfd output = {.fd = STDOUT_FILENO, .events = 0};
    if (ferror(stdout) != 0)
        return false;
    int ready = poll(&output, 1, milliseconds);
    return ready == 0 || (ready < 0 && errno == EINTR);
}
