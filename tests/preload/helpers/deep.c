/* deep.c - a library as an extension is one: it calls connect by itself, and is loaded with RTLD_DEEPBIND. */
#include <sys/socket.h>

int deep_connect(int fd, const struct sockaddr *address, socklen_t length)
{
    return connect(fd, address, length);
}

int (*deep_function(void))(int fd, const struct sockaddr *address, socklen_t length)
{
    return connect;
}
