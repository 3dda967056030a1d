/*
 * file_path.h - by which path a policy's file is known.
 */
#ifndef SOCKFUSE_POLICY_FILE_PATH_H
#define SOCKFUSE_POLICY_FILE_PATH_H

/*
 * The path by which a policy's file is known that was named so: absolute and cleaned, links not resolved. A relative
 * one is in the working folder, as $PWD calls it if that is true. "x/.." goes, unless another file is meant, for x is a
 * link. The file need not be there. To be freed; NULL: no memory, or no working folder (errno).
 */
char *policy_file_path(const char *name);

#endif
