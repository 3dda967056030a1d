/* static_get HOST PORT: prints what an HTTP server answers. Linked statically, it is beyond any preload. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static const char request[] = "GET / HTTP/1.0\r\n\r\n";
    struct sockaddr_in place = {.sin_family = AF_INET};
    struct timeval patience = {.tv_sec = 1};
    char answer[4096];
    ssize_t got = 0;
    if (argc != 3 || inet_pton(AF_INET, argv[1], &place.sin_addr) != 1)
        return 2;
    place.sin_port = htons((unsigned short)atoi(argv[2]));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) != 0 ||
        connect(fd, (struct sockaddr *)&place, sizeof place) != 0 ||
        write(fd, request, sizeof request - 1) != sizeof request - 1 || (got = read(fd, answer, sizeof answer)) < 0) {
        perror("static_get");
        return 1;
    }
    fwrite(answer, 1, (size_t)got, stdout);
    return got == 0;
}
