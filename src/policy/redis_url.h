/*
 * redis_url.h - where a Redis is, as an administrator writes it: redis://[[USER]:PASSWORD@]HOST[:PORT][/DB], rediss:// for
 * TLS, redis+unix:/PATH[?db=DB].
 *
 * Pure text. A password never comes out again but in the structure itself: redis_url_format leaves it out.
 */
#ifndef SOCKFUSE_POLICY_REDIS_URL_H
#define SOCKFUSE_POLICY_REDIS_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REDIS_PORT 6379u
#define REDIS_DATABASES_MAX 16384u

struct redis_url {
    bool is_tls, has_password;
    char host[256]; /* "": path */
    uint16_t port;
    char path[108]; /* bytes with the end, as sockaddr_un has them */
    unsigned int database;
    char user[64]; /* "": the default one */
    char password[256];
    /* No part of the text, for TLS: files of whom to trust ("": whom the system trusts), and of our certificate and key. */
    char ca[256], certificate[256];
};

/* Room for any of it as text. */
#define REDIS_URL_MAX 512

/* False: `why` says what is expected, without a word of the text, which may have a password in it. */
bool redis_url_parse(struct redis_url *url, const char *text, char *why, size_t why_size);
/* As it is shown: with `***` for a password. */
void redis_url_format(const struct redis_url *url, char text[REDIS_URL_MAX]);

#endif
