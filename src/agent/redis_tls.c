/*
 * redis_tls.c - TLS on a connected socket to a Redis. See redis_tls.h.
 */
#include "agent/redis_tls.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef SOCKFUSE_TLS

#include <arpa/inet.h>
#include <dlfcn.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include "base/text.h"
#include "view/tls_library.h"

/* What is called of the library; headers have the types. */
#define FUNCTIONS(each)                                                                                                \
    each(TLS_client_method);                                                                                           \
    each(SSL_CTX_new);                                                                                                 \
    each(SSL_CTX_free);                                                                                                \
    each(SSL_CTX_ctrl);                                                                                                \
    each(SSL_CTX_set_verify);                                                                                          \
    each(SSL_CTX_set_default_verify_paths);                                                                            \
    each(SSL_CTX_load_verify_locations);                                                                               \
    each(SSL_CTX_set_default_passwd_cb);                                                                               \
    each(SSL_CTX_use_certificate_chain_file);                                                                          \
    each(SSL_CTX_use_PrivateKey_file);                                                                                 \
    each(SSL_new);                                                                                                     \
    each(SSL_free);                                                                                                    \
    each(SSL_set_fd);                                                                                                  \
    each(SSL_ctrl);                                                                                                    \
    each(SSL_set1_host);                                                                                               \
    each(SSL_get0_param);                                                                                              \
    each(X509_VERIFY_PARAM_set1_ip_asc);                                                                               \
    each(SSL_connect);                                                                                                 \
    each(SSL_read);                                                                                                    \
    each(SSL_write);                                                                                                   \
    each(SSL_shutdown);                                                                                                \
    each(SSL_get_error);                                                                                               \
    each(SSL_get_verify_result);                                                                                       \
    each(X509_verify_cert_error_string);                                                                               \
    each(ERR_get_error);                                                                                               \
    each(ERR_clear_error);                                                                                             \
    each(ERR_reason_error_string)

#define DECLARE(name) __typeof__(&(name)) name
static struct {
    bool is_there;
    FUNCTIONS(DECLARE);
} ssl;

struct redis_tls {
    SSL *session;
    enum tls_need needs;
    char reason[100];
};

bool redis_tls_is_possible(const char **why)
{
    void *const library = tls_library(why);
    bool complete = library != NULL;

    if (ssl.is_there || library == NULL)
        return ssl.is_there;
#define FIND(name) complete = (*(void **)&ssl.name = dlsym(library, #name)) != NULL && complete
    FUNCTIONS(FIND);
    ssl.is_there = complete;
    if (!complete)
        *why = "the OpenSSL that is here lacks what TLS needs";
    return complete;
}

/* Why the last call failed: `said`, and what the library has to say of it. */
static bool complain_of(const char *said, char *why, size_t why_size)
{
    const unsigned long error = ssl.ERR_get_error();
    const char *const reason = error != 0 ? ssl.ERR_reason_error_string(error) : NULL;
    struct text text;

    text_start(&text, why, why_size);
    text_add(&text, said);
    text_add(&text, reason != NULL ? ": " : "");
    text_add_printable(&text, reason != NULL ? reason : "");
    ssl.ERR_clear_error();
    return false;
}

/* A key that wants a passphrase is one that nobody is asked for. */
static int no_passphrase(char *buffer, int size, int is_written, void *context)
{
    (void)buffer, (void)size, (void)is_written, (void)context;
    return 0;
}

static bool trust(SSL_CTX *settings, const struct redis_url *url, char *why, size_t why_size)
{
    if (url->ca[0] == '\0' ? ssl.SSL_CTX_set_default_verify_paths(settings) != 1
                           : ssl.SSL_CTX_load_verify_locations(settings, url->ca, NULL) != 1)
        return complain_of("fleet_ca can't be read", why, why_size);
    if (url->certificate[0] != '\0' &&
        (ssl.SSL_CTX_use_certificate_chain_file(settings, url->certificate) != 1 ||
         ssl.SSL_CTX_use_PrivateKey_file(settings, url->certificate, SSL_FILETYPE_PEM) != 1))
        return complain_of("fleet_certificate can't be read, or lacks its key", why, why_size);
    return true;
}

/* TLS 1.2 at the least. A write may go on from another place, for what is not sent yet moves; and may be partial. */
static SSL_CTX *make_settings(const struct redis_url *url, char *why, size_t why_size)
{
    SSL_CTX *settings = ssl.SSL_CTX_new(ssl.TLS_client_method());

    if (settings == NULL) {
        complain_of("TLS can't begin", why, why_size);
        return NULL;
    }
    ssl.SSL_CTX_ctrl(settings, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
    ssl.SSL_CTX_ctrl(settings, SSL_CTRL_MODE, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER,
                     NULL);
    ssl.SSL_CTX_set_verify(settings, SSL_VERIFY_PEER, NULL);
    ssl.SSL_CTX_set_default_passwd_cb(settings, no_passphrase);
    if (trust(settings, url, why, why_size))
        return settings;
    ssl.SSL_CTX_free(settings);
    return NULL;
}

/* The certificate is to be of this host. An address is no name that could be told at the start (RFC 6066, section 3). */
static bool expect_host(SSL *session, const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    char name[sizeof((struct redis_url *)0)->host];

    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
        return ssl.X509_VERIFY_PARAM_set1_ip_asc(ssl.SSL_get0_param(session), host) == 1;
    memcpy(name, host, strlen(host) + 1);
    return ssl.SSL_set1_host(session, host) == 1 &&
           ssl.SSL_ctrl(session, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, name) == 1;
}

struct redis_tls *redis_tls_begin(const struct redis_url *url, int fd, char *why, size_t why_size)
{
    const char *missing;

    if (!redis_tls_is_possible(&missing)) {
        snprintf(why, why_size, "%s", missing);
        return NULL;
    }
    SSL_CTX *settings = make_settings(url, why, why_size);
    if (settings == NULL)
        return NULL;
    struct redis_tls *tls = calloc(1, sizeof *tls);
    if (tls != NULL)
        tls->session = ssl.SSL_new(settings);
    ssl.SSL_CTX_free(settings); /* the session keeps it */
    if (tls != NULL && tls->session != NULL && ssl.SSL_set_fd(tls->session, fd) == 1 &&
        expect_host(tls->session, url->host))
        return tls;
    complain_of("TLS can't begin", why, why_size);
    redis_tls_end(tls);
    return NULL;
}

/* Says good-bye as far as that leaves at once. */
void redis_tls_end(struct redis_tls *tls)
{
    if (tls == NULL)
        return;
    if (tls->session != NULL) {
        if (ssl.SSL_shutdown(tls->session) < 0)
            ssl.ERR_clear_error();
        ssl.SSL_free(tls->session);
    }
    free(tls);
}

/* What stands in the way after a call that did not succeed. False: it is over, errno says how, 0 for an orderly end. */
static bool may_go_on(struct redis_tls *tls, int result)
{
    switch (ssl.SSL_get_error(tls->session, result)) {
    case SSL_ERROR_WANT_READ:
        tls->needs = TLS_READABLE;
        errno = EAGAIN;
        return true;
    case SSL_ERROR_WANT_WRITE:
        tls->needs = TLS_WRITABLE;
        errno = EAGAIN;
        return true;
    case SSL_ERROR_ZERO_RETURN:
        errno = 0;
        return false;
    case SSL_ERROR_SYSCALL:
        return false;
    default:
        complain_of("TLS fails", tls->reason, sizeof tls->reason);
        errno = EPROTO;
        return false;
    }
}

bool redis_tls_shake(struct redis_tls *tls, enum tls_need *need, char *why, size_t why_size)
{
    tls->needs = TLS_NOTHING;
    ssl.ERR_clear_error();
    errno = 0;
    const int result = ssl.SSL_connect(tls->session);
    if (result == 1 || may_go_on(tls, result)) {
        *need = tls->needs;
        return true;
    }
    const long verdict = ssl.SSL_get_verify_result(tls->session);
    if (verdict != X509_V_OK)
        snprintf(why, why_size, "the server's certificate is not trusted: %s",
                 ssl.X509_verify_cert_error_string(verdict));
    else if (errno == EPROTO)
        snprintf(why, why_size, "%s", tls->reason);
    else
        snprintf(why, why_size, "TLS fails: %s", errno != 0 ? strerror(errno) : "the server ends the connection");
    return false;
}

ssize_t redis_tls_recv(struct redis_tls *tls, char *bytes, size_t size)
{
    tls->needs = TLS_NOTHING;
    ssl.ERR_clear_error();
    errno = 0;
    const int result = ssl.SSL_read(tls->session, bytes, (int)size);
    if (result > 0)
        return result;
    return may_go_on(tls, result) || errno != 0 ? -1 : 0;
}

ssize_t redis_tls_send(struct redis_tls *tls, const char *bytes, size_t count)
{
    tls->needs = TLS_NOTHING;
    ssl.ERR_clear_error();
    errno = 0;
    const int result = ssl.SSL_write(tls->session, bytes, (int)count);
    if (result > 0)
        return result;
    if (!may_go_on(tls, result) && errno == 0)
        errno = EPIPE;
    return -1;
}

enum tls_need redis_tls_needs(const struct redis_tls *tls)
{
    return tls->needs;
}

const char *redis_tls_reason(const struct redis_tls *tls)
{
    return tls->reason;
}

#endif
