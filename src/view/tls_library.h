/*
 * tls_library.h - OpenSSL, where the system has it. It is loaded when somebody needs it, and linked by nobody: without
 * TLS no program of ours knows of it, and a package needs none. Only for programs of ours; no guarded one calls this.
 */
#ifndef SOCKFUSE_VIEW_TLS_LIBRARY_H
#define SOCKFUSE_VIEW_TLS_LIBRARY_H

/* A handle for dlsym, kept until the program ends. NULL: `why` says what is missing, and what would help. */
void *tls_library(const char **why);

#endif
