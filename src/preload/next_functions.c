/*
 * next_functions.c - looks names up in the objects behind this one. See next_functions.h.
 *
 * Objects are listed in the order in which they were loaded, and those that come with the program are searched in the
 * same: the program, preloads, then what these need, level by level. What a constructor has loaded since stands behind
 * libc, where nobody looks here.
 */
#define _GNU_SOURCE
#include "preload/next_functions.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/libc.h"
#include LIBC_OWN_HEADER

#define SYMBOL_TYPE(info) ELF64_ST_TYPE(info) /* the same in 32 bit */
#define SYMBOL_BINDING(info) ELF64_ST_BIND(info)
#define HIDDEN_VERSION 0x8000u

/* An object's tables: its symbols and their names, and a hash table of these (DT_GNU_HASH). */
struct tables {
    const ElfW(Sym) * symbols;
    const char *strings;
    const ElfW(Half) * versions; /* NULL: none has one */
    const uint32_t *hash;
};

struct search {
    uintptr_t self, libc;
    bool is_behind;
    const char *names;
    size_t count;
    void **found;
};

static bool has(const struct dl_phdr_info *object, uintptr_t address)
{
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && address - (object->dlpi_addr + part->p_vaddr) < part->p_memsz)
            return true;
    }
    return false;
}

/* The loader puts addresses here, but where it can't write it leaves offsets. */
static const void *address_of(const struct dl_phdr_info *object, const ElfW(Dyn) * entry)
{
    const uintptr_t at = (uintptr_t)entry->d_un.d_ptr;
    return (const void *)(at < object->dlpi_addr ? at + object->dlpi_addr : at);
}

/* False: it has no such table. */
static bool find_tables(const struct dl_phdr_info *object, struct tables *tables)
{
    const ElfW(Dyn) *entry = NULL;
    *tables = (struct tables){.symbols = NULL};
    for (size_t i = 0; i < object->dlpi_phnum; i++)
        if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
            entry = (const ElfW(Dyn) *)(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
    for (; entry && entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB)
            tables->symbols = address_of(object, entry);
        else if (entry->d_tag == DT_STRTAB)
            tables->strings = address_of(object, entry);
        else if (entry->d_tag == DT_VERSYM)
            tables->versions = address_of(object, entry);
        else if (entry->d_tag == DT_GNU_HASH)
            tables->hash = address_of(object, entry);
    }
    return tables->symbols && tables->strings && tables->hash;
}

static uint32_t hash_of_name(const char *name)
{
    uint32_t hash = 5381;
    for (; *name; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

/* Whether a name without a version leads here: to a version that stands for all, and to what the object has itself. */
static bool is_meant(const struct tables *tables, uint32_t index)
{
    const ElfW(Sym) *symbol = &tables->symbols[index];
    return symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 && SYMBOL_BINDING(symbol->st_info) != STB_LOCAL &&
           (!tables->versions || !(tables->versions[index] & HIDDEN_VERSION));
}

/* The symbol's index; 0: there is none. */
static uint32_t look_up(const struct tables *tables, const char *name)
{
    const uint32_t buckets = tables->hash[0], first = tables->hash[1], words = tables->hash[2];
    const uint32_t hash = hash_of_name(name), bits = 8 * sizeof(ElfW(Addr));
    const ElfW(Addr) *filter = (const void *)(tables->hash + 4);
    const ElfW(Addr) word = filter[hash / bits % words];
    if (!(word >> hash % bits & word >> (hash >> tables->hash[3]) % bits & 1))
        return 0;
    const uint32_t *bucket = (const void *)(filter + words), *chain = bucket + buckets;
    uint32_t index = bucket[hash % buckets];
    for (bool ended = index < first; !ended; index++) {
        const uint32_t entry = chain[index - first];
        if ((entry | 1) == (hash | 1) && strcmp(tables->strings + tables->symbols[index].st_name, name) == 0 &&
            is_meant(tables, index))
            return index;
        ended = entry & 1;
    }
    return 0;
}

/* False: one of them is no usual function. */
static bool look_in(const struct dl_phdr_info *object, const struct tables *tables, struct search *search)
{
    const char *name = search->names;
    for (size_t i = 0; i < search->count; i++, name += strlen(name) + 1) {
        uint32_t index = search->found[i] ? 0 : look_up(tables, name);
        if (index == 0)
            continue;
        const ElfW(Sym) *symbol = &tables->symbols[index];
        if (SYMBOL_TYPE(symbol->st_info) != STT_FUNC && SYMBOL_TYPE(symbol->st_info) != STT_NOTYPE)
            return false;
        search->found[i] = (void *)(object->dlpi_addr + symbol->st_value);
    }
    return true;
}

static int look(struct dl_phdr_info *object, size_t size, void *context)
{
    struct search *search = context;
    struct tables tables;
    (void)size;
    if (!search->is_behind) {
        search->is_behind = has(object, search->self);
        return 0;
    }
    return !find_tables(object, &tables) || !look_in(object, &tables, search) || has(object, search->libc);
}

void next_functions(const void *self, const char *names, size_t count, void **found)
{
    __typeof__(&LIBC_OWN) of_libc = LIBC_OWN;
    struct search search = {.self = (uintptr_t)self, .names = names, .count = count, .found = found};
    memcpy(&search.libc, &of_libc, sizeof search.libc);
    memset(found, 0, count * sizeof *found);
    dl_iterate_phdr(look, &search);
}
