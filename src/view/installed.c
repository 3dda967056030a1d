/*
 * installed.c - where `make install` puts what the command looks for.
 *
 * See installed.h.
 */
#include "view/installed.h"

/* For tools that look at the sources without what make says. */
#ifndef SOCKFUSE_LIBDIR
#define SOCKFUSE_LIBDIR "/usr/local/lib/sockfuse"
#define SOCKFUSE_DATADIR "/usr/local/share/sockfuse"
#define SOCKFUSE_LIBEXECDIR "/usr/local/libexec/sockfuse"
#endif

const char installed_libdir[] = SOCKFUSE_LIBDIR;
const char installed_datadir[] = SOCKFUSE_DATADIR;
const char installed_libexecdir[] = SOCKFUSE_LIBEXECDIR;
