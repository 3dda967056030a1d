/*
 * tls_library.c - OpenSSL, where the system has it. See tls_library.h.
 */
#include "view/tls_library.h"

#include <stddef.h>

#ifdef SOCKFUSE_TLS

#include <dlfcn.h>
#include <openssl/opensslv.h>

#define TEXT_OF(number) #number
#define SONAME(number) "libssl.so." TEXT_OF(number)
/* The one whose headers this build has read. */
#define LIBRARY SONAME(OPENSSL_SHLIB_VERSION)

void *tls_library(const char **why)
{
    static void *library;

    if (library == NULL)
        library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    *why = library != NULL ? NULL
                           : "TLS needs OpenSSL, and " LIBRARY " is not here: install libssl3 (Debian 13: libssl3t64)";
    return library;
}

#else

void *tls_library(const char **why)
{
    *why = "this build has no TLS: install libssl-dev and build again";
    return NULL;
}

#endif
