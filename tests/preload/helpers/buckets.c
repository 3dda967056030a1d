/*
 * buckets.c - as much of a TLS library as one whose records are sent later, from outside: mod_ssl's SSL_write puts them
 * into Apache's buckets, GnuTLS keeps them while it is corked.
 */
#include <string.h>
#include <sys/socket.h>

struct session {
    int fd;
    size_t kept;
    char record[64];
};

static const char header[] = {23, 3, 3, 0};

int SSL_connect(void *session)
{
    char hello[] = {22, 3, 1, 0, 1, 1}, answer[16];
    int fd = ((struct session *)session)->fd;
    return send(fd, hello, sizeof hello, 0) == sizeof hello && recv(fd, answer, sizeof answer, 0) > 0 ? 1 : -1;
}

int SSL_write(void *session, const void *buffer, int count)
{
    struct session *mine = session;
    memcpy(mine->record, header, sizeof header);
    mine->record[sizeof header] = (char)count;
    memcpy(mine->record + sizeof header + 1, buffer, (size_t)count);
    mine->kept = sizeof header + 1 + (size_t)count;
    return count;
}

int SSL_read(void *session, void *buffer, int count)
{
    char record[64];
    ssize_t got = recv(((struct session *)session)->fd, record, sizeof record, 0);
    int plain = got > (ssize_t)sizeof header ? record[sizeof header] : -1;
    if (plain < 0 || plain > count)
        return -1;
    memcpy(buffer, record + sizeof header + 1, (size_t)plain);
    return plain;
}

/* The program's own: what is kept goes to the socket. */
int buckets_flush(void *session)
{
    struct session *mine = session;
    return send(mine->fd, mine->record, mine->kept, MSG_NOSIGNAL) == (ssize_t)mine->kept ? 0 : -1;
}
