/*
 * alone.c - runs a fuzzer without libFuzzer, over each file that it is given, once: what a run has left in
 * build/crashes, under a debugger or with another compiler. `make fuzz` has no use for it.
 *
 *     make fuzz-programs BUILD=build/alone FUZZ_ALONE=1 FUZZ_CC=gcc
 *     build/alone/tests/fuzz/fuzz_http build/crashes/crash-*
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

static void try_file(const char *path)
{
    static uint8_t read_in[1 << 20];
    FILE *stream = fopen(path, "r");
    if (stream == NULL)
        err(1, "%s", path);
    const size_t size = fread(read_in, 1, sizeof read_in, stream);
    if (ferror(stream))
        err(1, "%s", path);
    if (!feof(stream))
        errx(1, "%s: more than %zu bytes", path, sizeof read_in);
    fclose(stream);
    /* Of just its size, so that the sanitizers see its end. */
    uint8_t *bytes = malloc(size);
    if (bytes == NULL && size > 0)
        err(1, "malloc");
    if (size > 0)
        memcpy(bytes, read_in, size);
    LLVMFuzzerTestOneInput(bytes, size);
    free(bytes);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        try_file(argv[i]);
    return 0;
}
