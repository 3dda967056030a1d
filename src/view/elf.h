/*
 * elf.h - what an ELF file's headers say about how it is loaded.
 *
 * For `run`, which must know whether the loader will take the library into a program. Reads headers only, by hand and
 * with every offset checked: the file may be anything.
 */
#ifndef SOCKFUSE_VIEW_ELF_H
#define SOCKFUSE_VIEW_ELF_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct elf_facts {
    bool is_elf;
    uint8_t bits; /* 32 or 64 */
    bool big_endian;
    uint16_t machine;     /* e_machine */
    bool has_interpreter; /* PT_INTERP: false in a static program, and in the dynamic loader itself */
    bool is_go;           /* by its build information, which also stripped binaries keep */
    bool needs_asan;      /* AddressSanitizer's runtime as a library (gcc's way), which wants to be loaded first */
    bool is_musl;         /* by its loader, or by what it calls its C library */
    char interpreter[PATH_MAX];
};

/*
 * Reads the headers of an open file. Where they are cut off or of the other byte order, the rest stays unknown
 * (false).
 */
void elf_examine(int descriptor, struct elf_facts *facts);

/* Whether a library of that name, without folders, is AddressSanitizer's runtime: gcc's, or clang's. */
bool elf_is_asan(const char *name);

#endif
