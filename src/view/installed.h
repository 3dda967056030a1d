/*
 * installed.h - where `make install` puts what the command looks for.
 *
 * For who looks: view/library.h and view/page.h. The one file that is compiled anew for another place.
 */
#ifndef SOCKFUSE_VIEW_INSTALLED_H
#define SOCKFUSE_VIEW_INSTALLED_H

extern const char installed_libdir[];
extern const char installed_datadir[];
extern const char installed_libexecdir[];

#endif
