/*
 * elf.c - what an ELF file's headers say about how it is loaded (System V ABI, chapters 4 and 5).
 *
 * See elf.h.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "view/output.h"
#include "view/elf.h"

/* Beyond these a file is damaged or made to annoy; real ones have a dozen segments and some forty sections. */
#define SEGMENTS_MAX 512u
#define SECTIONS_MAX 4096u
#define NAMES_MAX (1u << 20)
#define NOTES_MAX (1u << 16)

/* A file's tables of headers, whatever their width. */
struct tables {
    uint64_t segments_at, sections_at;
    unsigned int segment_size, segment_count, section_size, section_count, section_names;
};

struct part {
    uint32_t type, name, link;
    uint64_t offset, size;
};

static bool read_at(int descriptor, void *buffer, size_t size, uint64_t offset)
{
    if (offset > (uint64_t)INT64_MAX - size)
        return false;
    return pread(descriptor, buffer, size, (off_t)offset) == (ssize_t)size;
}

static bool read_tables(int descriptor, bool wide, struct tables *tables)
{
    if (wide) {
        Elf64_Ehdr header;
        if (!read_at(descriptor, &header, sizeof header, 0))
            return false;
        *tables = (struct tables){header.e_phoff,     header.e_shoff, header.e_phentsize, header.e_phnum,
                                  header.e_shentsize, header.e_shnum, header.e_shstrndx};
        return true;
    }
    Elf32_Ehdr header;
    if (!read_at(descriptor, &header, sizeof header, 0))
        return false;
    *tables = (struct tables){header.e_phoff,     header.e_shoff, header.e_phentsize, header.e_phnum,
                              header.e_shentsize, header.e_shnum, header.e_shstrndx};
    return true;
}

static bool read_segment(int descriptor, bool wide, const struct tables *tables, unsigned int index, struct part *part)
{
    uint64_t at = tables->segments_at + (uint64_t)index * tables->segment_size;
    if (wide) {
        Elf64_Phdr header;
        if (tables->segment_size < sizeof header || !read_at(descriptor, &header, sizeof header, at))
            return false;
        *part = (struct part){.type = header.p_type, .offset = header.p_offset, .size = header.p_filesz};
        return true;
    }
    Elf32_Phdr header;
    if (tables->segment_size < sizeof header || !read_at(descriptor, &header, sizeof header, at))
        return false;
    *part = (struct part){.type = header.p_type, .offset = header.p_offset, .size = header.p_filesz};
    return true;
}

static bool read_section(int descriptor, bool wide, const struct tables *tables, unsigned int index, struct part *part)
{
    uint64_t at = tables->sections_at + (uint64_t)index * tables->section_size;
    if (wide) {
        Elf64_Shdr header;
        if (tables->section_size < sizeof header || !read_at(descriptor, &header, sizeof header, at))
            return false;
        *part = (struct part){header.sh_type, header.sh_name, header.sh_link, header.sh_offset, header.sh_size};
        return true;
    }
    Elf32_Shdr header;
    if (tables->section_size < sizeof header || !read_at(descriptor, &header, sizeof header, at))
        return false;
    *part = (struct part){header.sh_type, header.sh_name, header.sh_link, header.sh_offset, header.sh_size};
    return true;
}

/* Whether a segment of notes has one whose owner is "Go" (the build id that Go's linker writes). */
static bool has_go_note(int descriptor, const struct part *segment)
{
    static const char owner[] = "Go";
    if (segment->size < sizeof(Elf64_Nhdr) || segment->size > NOTES_MAX)
        return false;
    char *notes = allocate((size_t)segment->size, 1);
    bool found = false;
    if (read_at(descriptor, notes, (size_t)segment->size, segment->offset)) {
        size_t at = 0;
        while (!found && segment->size - at >= sizeof(Elf64_Nhdr)) {
            Elf64_Nhdr note; /* the same in both widths */
            memcpy(&note, notes + at, sizeof note);
            uint64_t name_size = ((uint64_t)note.n_namesz + 3) & ~UINT64_C(3);
            uint64_t whole = sizeof note + name_size + (((uint64_t)note.n_descsz + 3) & ~UINT64_C(3));
            if (whole > segment->size - at)
                break;
            found = name_size >= sizeof owner && memcmp(notes + at + sizeof note, owner, sizeof owner) == 0;
            at += (size_t)whole;
        }
    }
    free(notes);
    return found;
}

static bool has_go_section(int descriptor, bool wide, const struct tables *tables)
{
    static const char wanted[] = ".go.buildinfo";
    struct part names;
    if (tables->section_count > SECTIONS_MAX || tables->section_names >= tables->section_count)
        return false;
    if (!read_section(descriptor, wide, tables, tables->section_names, &names) || names.size > NAMES_MAX)
        return false;
    char *text = allocate((size_t)names.size, 1);
    bool found = false;
    if (read_at(descriptor, text, (size_t)names.size, names.offset)) {
        for (unsigned int i = 0; i < tables->section_count && !found; i++) {
            struct part section;
            found = read_section(descriptor, wide, tables, i, &section) && names.size >= sizeof wanted &&
                    section.name <= names.size - sizeof wanted &&
                    memcmp(text + section.name, wanted, sizeof wanted) == 0;
        }
    }
    free(text);
    return found;
}

bool elf_is_asan(const char *name)
{
    static const char gcc[] = "libasan.so", clang[] = "libclang_rt.asan";
    return strncmp(name, gcc, sizeof gcc - 1) == 0 || strncmp(name, clang, sizeof clang - 1) == 0;
}

/* Of a library that it asks for. glibc's is libc.so.6; musl's has the one or the other name, by the distribution. */
static void note_needed(const char *name, struct elf_facts *facts)
{
    static const char alpines[] = "libc.musl-";
    facts->needs_asan |= elf_is_asan(name);
    facts->is_musl |= strcmp(name, "libc.so") == 0 || strncmp(name, alpines, sizeof alpines - 1) == 0;
}

/* What `count` bytes of dynamic entries ask for; `names` ends with a zero. */
static void examine_entries(const char *entries, size_t count, bool wide, const char *names, size_t names_size,
                            struct elf_facts *facts)
{
    const size_t size = wide ? sizeof(Elf64_Dyn) : sizeof(Elf32_Dyn);
    for (size_t at = 0; count - at >= size; at += size) {
        Elf64_Dyn entry;
        if (wide) {
            memcpy(&entry, entries + at, sizeof entry);
        } else {
            Elf32_Dyn narrow;
            memcpy(&narrow, entries + at, sizeof narrow);
            entry.d_tag = narrow.d_tag;
            entry.d_un.d_val = narrow.d_un.d_val;
        }
        if (entry.d_tag == DT_NULL)
            break;
        if (entry.d_tag == DT_NEEDED && entry.d_un.d_val < names_size)
            note_needed(names + entry.d_un.d_val, facts);
    }
}

static void examine_dynamic(int descriptor, bool wide, const struct tables *tables, struct elf_facts *facts)
{
    struct part dynamic = {0}, names;
    unsigned int count = tables->section_count;
    if (count > SECTIONS_MAX)
        return;
    for (unsigned int i = 0; i < count && dynamic.type != SHT_DYNAMIC; i++)
        if (!read_section(descriptor, wide, tables, i, &dynamic))
            return;
    if (dynamic.type != SHT_DYNAMIC || dynamic.size > NAMES_MAX || dynamic.link >= count ||
        !read_section(descriptor, wide, tables, dynamic.link, &names) || names.size > NAMES_MAX)
        return;
    char *entries = allocate((size_t)dynamic.size + 1, 1), *text = allocate((size_t)names.size + 1, 1);
    if (read_at(descriptor, entries, (size_t)dynamic.size, dynamic.offset) &&
        read_at(descriptor, text, (size_t)names.size, names.offset))
        examine_entries(entries, (size_t)dynamic.size, wide, text, (size_t)names.size, facts);
    free(entries);
    free(text);
}

static void examine_segments(int descriptor, bool wide, const struct tables *tables, struct elf_facts *facts)
{
    for (unsigned int i = 0; i < tables->segment_count && i < SEGMENTS_MAX; i++) {
        struct part segment;
        if (!read_segment(descriptor, wide, tables, i, &segment))
            return;
        if (segment.type == PT_INTERP) {
            facts->has_interpreter = true;
            if (segment.size < sizeof facts->interpreter &&
                !read_at(descriptor, facts->interpreter, (size_t)segment.size, segment.offset))
                facts->interpreter[0] = '\0';
        }
        if (segment.type == PT_NOTE && has_go_note(descriptor, &segment))
            facts->is_go = true;
    }
}

void elf_examine(int descriptor, struct elf_facts *facts)
{
    *facts = (struct elf_facts){0};
    /* Up to e_machine both widths are alike. */
    unsigned char start[offsetof(Elf64_Ehdr, e_version)];
    if (!read_at(descriptor, start, sizeof start, 0) || memcmp(start, ELFMAG, SELFMAG) != 0)
        return;
    facts->is_elf = true;
    facts->bits = start[EI_CLASS] == ELFCLASS32 ? 32 : 64;
    facts->big_endian = start[EI_DATA] == ELFDATA2MSB;
    memcpy(&facts->machine, start + offsetof(Elf64_Ehdr, e_machine), sizeof facts->machine);
    facts->machine = facts->big_endian ? be16toh(facts->machine) : le16toh(facts->machine);
    if (facts->big_endian != (__BYTE_ORDER == __BIG_ENDIAN))
        return;
    bool wide = facts->bits == 64;
    struct tables tables;
    if (!read_tables(descriptor, wide, &tables))
        return;
    examine_segments(descriptor, wide, &tables, facts);
    if (!facts->is_go)
        facts->is_go = has_go_section(descriptor, wide, &tables);
    facts->is_musl = strstr(facts->interpreter, "ld-musl") != NULL;
    examine_dynamic(descriptor, wide, &tables, facts);
}
