/* tls_sessions.c - as much of a TLS library as says which one it is. -DWHICH=NUMBER */

int SSL_read(void *session, void *buffer, int count)
{
    (void)session;
    (void)buffer;
    (void)count;
    return WHICH;
}
