/*
 * three_calls.c PORT [COUNT]: opens streams, which may get the memory that the library's own had, connects three times
 * to 127.0.0.1 and prints the errors; then, with COUNT, reads so many bytes of its standard input into four. Built with
 * sanitizers.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    char four[4];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[1]))};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < 3; i++) {
        char bytes[] = "a stream", *text;
        size_t size;
        FILE *in = fmemopen(bytes, sizeof bytes, "r"), *out = open_memstream(&text, &size);
        if (!in || !out || fclose(in) != 0 || fclose(out) != 0)
            return 2;
        free(text);
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        int result = connect(fd, (const struct sockaddr *)&address, sizeof address);
        printf("%s\n", result == 0 ? "connected" : strerror(errno));
        close(fd);
    }
    fflush(stdout);
    return argc > 2 && read(0, four, (size_t)atoi(argv[2])) < 0;
}
