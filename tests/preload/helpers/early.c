/*
 * early.c - a library whose constructor uses sockets before anybody else's has run. EARLY_PORT says where something
 * listens.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

/* 0: all went well; else the line that did not. */
int early_result = -1;
/* A connection that is still open when the program starts. */
int early_fd = -1;

#define TRY(condition)                                                                                                 \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            early_result = __LINE__;                                                                                   \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

__attribute__((constructor)) static void start(void)
{
    const char *port = getenv("EARLY_PORT");
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST}, *list;
    struct iovec vector = {"early", 5};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    int error = -1;
    socklen_t length = sizeof error;
    char byte;

    TRY(port != NULL);
    address.sin_port = htons((unsigned short)atoi(port));
    for (int round = 0; round < 2; round++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        TRY(fd >= 0);
        errno = 4242;
        TRY(connect(fd, (struct sockaddr *)&address, sizeof address) == 0 && errno == 4242);
        TRY(getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0);
        TRY(send(fd, "early", 5, 0) == 5 && write(fd, "early", 5) == 5 && sendmsg(fd, &message, 0) == 5);
        TRY(writev(fd, &vector, 1) == 5 && syscall(SYS_write, fd, "early", 5) == 5);
        TRY(recv(fd, &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
        TRY(fcntl(fd, F_GETFL) >= 0);
        int copy = dup(fd), up = fcntl(fd, F_DUPFD_CLOEXEC, 60);
        TRY(copy >= 0 && up >= 60 && dup2(copy, 61) == 61);
        TRY(close(copy) == 0 && close(up) == 0 && syscall(SYS_close, 61) == 0);
        TRY(close_range(70, 80, 0) == 0);
        TRY(shutdown(fd, SHUT_WR) == 0);
        if (round == 0)
            TRY(close(fd) == 0);
        else
            early_fd = fd;
    }
    TRY(getaddrinfo("127.0.0.1", port, &hints, &list) == 0);
    freeaddrinfo(list);
    early_result = 0;
}
