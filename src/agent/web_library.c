/*
 * web_library.c - libmicrohttpd. See web_library.h.
 */
#ifdef SOCKFUSE_HTTPD
#include "agent/web_library.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "view/output.h"

/* That of version 0.9.x and of 1.0. */
#define LIBRARY "libmicrohttpd.so.12"

struct web_library httpd;

static bool take(void *library, const char *name, void *function)
{
    void *const found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    if (found == NULL)
        warnx("HTTP: %s has no %s", LIBRARY, name);
    return found != NULL;
}

#define TAKE(function) good = take(library, #function, &httpd.function) && good;

bool web_library_load(void)
{
    static void *library;
    bool good = true;
    if (library != NULL)
        return true;
    library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        warnx("HTTP needs %s, which is not here: install libmicrohttpd12 (Debian 13: libmicrohttpd12t64)", LIBRARY);
        return false;
    }
    WEB_LIBRARY_FUNCTIONS(TAKE)
    if (good)
        return true;
    dlclose(library); /* so that the next one who asks is told so too */
    library = NULL;
    return false;
}

#else
typedef int nothing_without_libmicrohttpd;
#endif
