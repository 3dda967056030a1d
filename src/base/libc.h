/*
 * libc.h - what the C library has that not every one has. Nothing but macros: the linker's lists are made with it too.
 *
 * The one place where libraries are told apart. Others ask for what they need.
 */
#ifndef SOCKFUSE_BASE_LIBC_H
#define SOCKFUSE_BASE_LIBC_H

#include <features.h>

#ifdef __GLIBC__
#define LIBC_HAS__FORK __GLIBC_PREREQ(2, 34)
#define LIBC_HAS_EXECVEAT __GLIBC_PREREQ(2, 34)
#define LIBC_HAS_PIDFD_SPAWN __GLIBC_PREREQ(2, 39)
/* Name spaces of the dynamic linker. */
#define LIBC_HAS_DLMOPEN 1
/* Another fcntl than the one that programs call by that name. */
#define LIBC_HAS_FCNTL64 1
/* A handler at the exit that is told the status. */
#define LIBC_HAS_ON_EXIT 1
/* Constructors get the program's arguments. */
#define LIBC_HANDS_ARGUMENTS 1
/* A function that is libc's own for certain, by which libc is known among the objects. */
#define LIBC_OWN_HEADER <gnu/libc-version.h>
#define LIBC_OWN gnu_get_libc_version
#define LIBC_IOCTL_REQUEST unsigned long
#else /* musl, which tells nobody that it is */
#define LIBC_HAS__FORK 1
#define LIBC_HAS_EXECVEAT 0
#define LIBC_HAS_PIDFD_SPAWN 0
#define LIBC_HAS_DLMOPEN 0
#define LIBC_HAS_FCNTL64 0
#define LIBC_HAS_ON_EXIT 0
#define LIBC_HANDS_ARGUMENTS 0
#define LIBC_OWN_HEADER <sys/auxv.h>
#define LIBC_OWN getauxval
#define LIBC_IOCTL_REQUEST int
#endif

#endif
