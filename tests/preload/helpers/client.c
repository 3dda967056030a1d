/* client.c - a plugin that reads by a TLS library; by which one, its linking says. */
int SSL_read(void *session, void *buffer, int count);

int client_read(void)
{
    char byte;
    volatile int got = SSL_read(&byte, &byte, 1);
    return got;
}

/* A jump, when optimised: the caller's place on the stack is that of whoever called this. */
int client_hands_over(void)
{
    static char byte;
    return SSL_read(&byte, &byte, 1);
}
