/* Waits for an answer that never comes until its POSIX timer rings. Usage: posix_timer SIGNAL HOST PORT STATUS */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void ring(int number)
{
    (void)number;
}

static void stop(int number)
{
    (void)number;
    _exit(0);
}

int main(int count, char **arguments)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    struct sigaction rings = {.sa_handler = ring}, stops = {.sa_handler = stop};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL};
    struct itimerspec soon = {.it_value = {.tv_nsec = 300000000}};
    timer_t timer;
    char byte;
    if (count != 5 || inet_pton(AF_INET, arguments[2], &to.sin_addr) != 1)
        return 2;
    to.sin_port = htons((uint16_t)atoi(arguments[3]));
    event.sigev_signo = atoi(arguments[1]);
    sigaction(event.sigev_signo, &rings, NULL);
    sigaction(SIGTERM, &stops, NULL);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) || send(fd, "request", 7, 0) != 7)
        return 2;
    puts("waits");
    fflush(stdout);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &soon, NULL))
        return 2;
    if (recv(fd, &byte, 1, 0) >= 0 || errno != EINTR)
        return 2;
    close(fd);
    return atoi(arguments[4]);
}
