/*
 * test_exports.c - what the library's file brings into somebody else's process: the names of the table, libc, and
 * nothing else.
 */
/* links: core */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

static const char *const table[] = {
#define SYMBOL(name, ...) #name,
#define ALIAS(alias, name) #alias,
#define FOREIGN(name, ...) #name,
#include "preload/symbols.def"
};
static const char *const aliases[][2] = {
#define SYMBOL(...)
#define ALIAS(alias, name) {#alias, #name},
#include "preload/symbols.def"
};
#if __SIZEOF_POINTER__ == 8
#define SYMBOL_OF ELF64_R_SYM
#else
#define SYMBOL_OF ELF32_R_SYM
#endif
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The library's file, mapped, with what is looked at. */
static struct {
    const char *bytes;
    const ElfW(Ehdr) * head;
    const ElfW(Phdr) * segments;
    const ElfW(Dyn) * dynamic;
    const ElfW(Sym) * symbols;
    size_t symbol_count;
    const char *strings;
    const ElfW(Sym) * all; /* also those that are not exported; NULL: stripped */
    size_t all_count;
    const char *all_strings;
    const ElfW(Shdr) * relocations[2]; /* the sections that have any */
} file;

static int map_library(void **state)
{
    struct stat status;
    (void)state;
    int fd = open(stage_library(), O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && fstat(fd, &status) == 0);
    file.bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    assert_true(file.bytes != MAP_FAILED);
    close(fd);
    file.head = (const void *)file.bytes;
    file.segments = (const void *)(file.bytes + file.head->e_phoff);
    const ElfW(Shdr) *sections = (const void *)(file.bytes + file.head->e_shoff);
    for (int i = 0; i < file.head->e_shnum; i++) {
        if (sections[i].sh_type == SHT_DYNSYM) {
            file.symbols = (const void *)(file.bytes + sections[i].sh_offset);
            file.symbol_count = sections[i].sh_size / sizeof *file.symbols;
            file.strings = file.bytes + sections[sections[i].sh_link].sh_offset;
        } else if (sections[i].sh_type == SHT_SYMTAB) {
            file.all = (const void *)(file.bytes + sections[i].sh_offset);
            file.all_count = sections[i].sh_size / sizeof *file.all;
            file.all_strings = file.bytes + sections[sections[i].sh_link].sh_offset;
        } else if (sections[i].sh_type == SHT_RELA || sections[i].sh_type == SHT_REL) {
            file.relocations[file.relocations[0] != NULL] = &sections[i];
        } else if (sections[i].sh_type == SHT_DYNAMIC) {
            file.dynamic = (const void *)(file.bytes + sections[i].sh_offset);
        }
    }
    assert_non_null(file.symbols);
    assert_non_null(file.dynamic);
    return 0;
}

static const ElfW(Sym) * defined(const char *name)
{
    for (size_t i = 1; i < file.symbol_count; i++)
        if (file.symbols[i].st_shndx != SHN_UNDEF && !strcmp(file.strings + file.symbols[i].st_name, name))
            return &file.symbols[i];
    return NULL;
}

static void every_name_of_the_table_is_exported(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(table); i++) {
        const ElfW(Sym) *symbol = defined(table[i]);
        if (!symbol || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || ELF64_ST_BIND(symbol->st_info) != STB_GLOBAL)
            fail_msg("%s is not exported as a function", table[i]);
        /* And it is ours that the program finds. */
        Dl_info where;
        assert_true(dladdr(dlsym(RTLD_DEFAULT, table[i]), &where) != 0);
        assert_string_equal(strrchr(where.dli_fname, '/'), "/libsockfuse.so");
    }
    for (size_t i = 0; i < COUNT(aliases); i++)
        assert_int_equal(defined(aliases[i][0])->st_value, defined(aliases[i][1])->st_value);
}

static void nothing_else_is_exported(void **state)
{
    size_t count = 0;
    (void)state;
    for (size_t i = 1; i < file.symbol_count; i++) {
        const char *name = file.strings + file.symbols[i].st_name;
        if (file.symbols[i].st_shndx == SHN_UNDEF || ELF64_ST_BIND(file.symbols[i].st_info) == STB_LOCAL)
            continue;
        bool known = false;
        for (size_t j = 0; j < COUNT(table) && !known; j++)
            known = !strcmp(table[j], name);
        if (!known)
            fail_msg("%s is exported and not in the table", name);
        count++;
    }
    assert_int_equal(count, COUNT(table));
}

/* What the library asks the dynamic linker for is found in its own table first. See base/bare.h. */
static void the_library_calls_none_of_its_wrappers_by_the_public_name(void **state)
{
    static const char *const by_name[] = {
#define SYMBOL(name, ...) #name,
#define NEEDED SYMBOL
#define ALIAS(alias, name) #alias,
#include "preload/symbols.def"
    };
    (void)state;
    for (size_t section = 0; section < COUNT(file.relocations); section++) {
        const ElfW(Shdr) *relocations = file.relocations[section];
        for (size_t at = 0; relocations && at < relocations->sh_size; at += relocations->sh_entsize) {
            /* Both kinds begin alike. */
            const ElfW(Rel) *relocation = (const void *)(file.bytes + relocations->sh_offset + at);
            const char *name = file.strings + file.symbols[SYMBOL_OF(relocation->r_info)].st_name;
            for (size_t i = 0; i < COUNT(by_name); i++)
                if (!strcmp(by_name[i], name))
                    fail_msg("%s is called by its public name", name);
        }
    }
}

/* Whether a text has the first `length` bytes of a name as a word. */
static bool has_word(const char *text, const char *name, size_t length)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz_0123456789";
    for (const char *at = text; (at = memmem(at, strlen(at), name, length)); at++)
        if (at > text && !strchr(letters, at[-1]) && at[length] && !strchr(letters, at[length]))
            return true;
    return false;
}

/* What the linker put into memory that stays writable, by the symbol table. */
static void all_state_that_can_change_is_named_in_one_header(void **state)
{
    char path[PATH_MAX], header[16384];
    size_t named = 0;
    (void)state;
    snprintf(path, sizeof path, "%s/../../src/connection/engine.h", getenv("SOCKFUSE_TESTS"));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = read(fd, header, sizeof header - 1);
    assert_true(fd >= 0 && length > 0);
    close(fd);
    header[length] = '\0';
    const ElfW(Shdr) *sections = (const void *)(file.bytes + file.head->e_shoff);
    const char *section_names = file.bytes + sections[file.head->e_shstrndx].sh_offset;
    if (!file.all)
        skip(); /* stripped */
    for (size_t i = 0; i < file.all_count; i++) {
        int type = ELF64_ST_TYPE(file.all[i].st_info);
        const char *name = file.all_strings + file.all[i].st_name;
        if ((type != STT_OBJECT && type != STT_TLS) || file.all[i].st_shndx >= file.head->e_shnum || !*name)
            continue;
        const ElfW(Shdr) *section = &sections[file.all[i].st_shndx];
        /* Constants with addresses inside are written by the dynamic linker alone; `completed` is the compiler's. */
        if (!(section->sh_flags & SHF_WRITE) || (strncmp(section_names + section->sh_name, ".bss", 4) != 0 &&
                                                 strcmp(section_names + section->sh_name, ".data") != 0 &&
                                                 strncmp(section_names + section->sh_name, ".tbss", 5) != 0))
            continue;
        if (!strncmp(name, "completed.", 10) || *name == '_')
            continue;
        /* Inside a function: gcc says `name.NUMBER`, clang `function.name`. */
        const char *dot = strchr(name, '.');
        if (!has_word(header, name, strcspn(name, ".")) && !(dot && has_word(header, dot + 1, strcspn(dot + 1, "."))))
            fail_msg("%s is not named in engine.h", name);
        named++;
    }
    assert_true(named > 10);
}

static void libc_is_the_only_library_that_comes_along(void **state)
{
    (void)state;
    for (const ElfW(Dyn) *entry = file.dynamic; entry->d_tag != DT_NULL; entry++) {
        const char *text = file.strings + entry->d_un.d_val;
        if (entry->d_tag == DT_NEEDED && strcmp(text, "libc.so.6") != 0 && strncmp(text, "ld-linux", 8) != 0)
            fail_msg("it needs %s", text);
        if (entry->d_tag == DT_SONAME)
            assert_string_equal(text, "libsockfuse.so");
        assert_true(entry->d_tag != DT_RPATH && entry->d_tag != DT_RUNPATH && entry->d_tag != DT_TEXTREL);
    }
}

static void symbols_are_bound_at_the_start(void **state)
{
    bool now = false;
    (void)state;
    for (const ElfW(Dyn) *entry = file.dynamic; entry->d_tag != DT_NULL; entry++)
        now |= entry->d_tag == DT_BIND_NOW || (entry->d_tag == DT_FLAGS && entry->d_un.d_val & DF_BIND_NOW) ||
               (entry->d_tag == DT_FLAGS_1 && entry->d_un.d_val & DF_1_NOW);
    assert_true(now);
}

static void stack_is_not_executable_and_thread_data_is_small(void **state)
{
    bool stack = false, relro = false;
    (void)state;
    for (int i = 0; i < file.head->e_phnum; i++) {
        const ElfW(Phdr) *segment = &file.segments[i];
        if (segment->p_type == PT_GNU_STACK) {
            assert_false(segment->p_flags & PF_X);
            stack = true;
        }
        if (segment->p_type == PT_LOAD)
            assert_false((segment->p_flags & PF_W) && (segment->p_flags & PF_X));
        /* It lies in the static block, of which the loader has little to spare for those that come by dlopen. */
        if (segment->p_type == PT_TLS)
            assert_true(segment->p_memsz <= 256);
        relro |= segment->p_type == PT_GNU_RELRO;
    }
    assert_true(stack);
    assert_true(relro);
}

/*
 * dlopen and dlmopen look at who called them, and fork-like system calls return twice: the last thing on the way
 * through our wrapper must be a jump, whatever the compiler was told to optimise. The disassembler shows no call
 * through a pointer (x86: call *…, ARM: blr), and a jump through one (jmp *…, br).
 */
static void check_that_it_jumps(const char *name, const ElfW(Sym) * symbol)
{
    char command[2 * PATH_MAX], line[512];
    bool jumps = false;
    snprintf(command, sizeof command, "LD_PRELOAD= objdump -d --start-address=%#lx --stop-address=%#lx '%s'",
             (unsigned long)symbol->st_value, (unsigned long)(symbol->st_value + symbol->st_size), stage_library());
    FILE *output = popen(command, "r");
    assert_non_null(output);
    while (fgets(line, sizeof line, output)) {
        bool calls = (strstr(line, "call") && strchr(line, '*')) || strstr(line, "\tblr\t");
        if (calls && !strstr(line, "<dlsym"))
            fail_msg("%s calls: %s", name, line);
        jumps |= (strstr(line, "jmp") && strchr(line, '*')) || strstr(line, "\tbr\t");
    }
    assert_int_equal(pclose(output), 0);
    if (!jumps)
        fail_msg("%s does not jump", name);
}

/* And so must the stubs, by which a process without a policy makes its first call. */
static void wrappers_that_must_jump_do(void **state)
{
    static const char *const jumping[] = {"dlopen", "dlmopen", "syscall", "vfork", "_Fork", "clone"};
    size_t stubs = 0;
    (void)state;
    for (size_t i = 0; i < COUNT(jumping); i++) {
        char stub[32];
        size_t length = (size_t)snprintf(stub, sizeof stub, "early_%s", jumping[i]);
        check_that_it_jumps(jumping[i], defined(jumping[i]));
        for (size_t j = 0; j < file.all_count; j++) {
            const char *name = file.all_strings + file.all[j].st_name;
            if (strncmp(name, stub, length) != 0 || (name[length] && name[length] != '.'))
                continue;
            check_that_it_jumps(stub, &file.all[j]);
            stubs++;
        }
    }
    assert_true(!file.all || stubs == COUNT(jumping));
}

/* No thread, no lock, no child, no signal handler, no exit of its own. */
static void forbidden_functions_are_not_even_imported(void **state)
{
    static const char *const forbidden[] = {
        "pthread_create", "pthread_mutex_lock", "sem_wait", "fork", "vfork",        "system",
        "signal",         "sigaction",          "abort",    "exit", "__assert_fail"};
    (void)state;
    for (size_t i = 1; i < file.symbol_count; i++)
        for (size_t j = 0; j < COUNT(forbidden); j++)
            if (file.symbols[i].st_shndx == SHN_UNDEF && !strcmp(file.strings + file.symbols[i].st_name, forbidden[j]))
                fail_msg("it imports %s", forbidden[j]);
}

static int scene_call(int argc, char **argv)
{
    struct server server;
    (void)argc;
    server_at_port(&server, argv[0]);
    return connect(caller_socket(&server, 0), AT(&server)) == -1 && errno == ECONNREFUSED ? 0 : 1;
}

static void program_with_ld_bind_now_works(void **state)
{
    struct server server;
    (void)state;
    server_start(&server, "127.0.0.1", SERVER_REFUSES);
    assert_true(exited_well(scene_run(
        "call", &(struct scene_options){.environment = {"LD_BIND_NOW=1"}, .arguments = {server_port(&server)}})));
    expect(&server, "1 failed:refused");
    server_stop(&server);
}

int main(int argc, char **argv)
{
    static const struct scene scenes[] = {{"call", scene_call}, {NULL, NULL}};
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_of_the_table_is_exported),
        cmocka_unit_test(nothing_else_is_exported),
        cmocka_unit_test(the_library_calls_none_of_its_wrappers_by_the_public_name),
        cmocka_unit_test(all_state_that_can_change_is_named_in_one_header),
        cmocka_unit_test(libc_is_the_only_library_that_comes_along),
        cmocka_unit_test(symbols_are_bound_at_the_start),
        cmocka_unit_test(stack_is_not_executable_and_thread_data_is_small),
        cmocka_unit_test(wrappers_that_must_jump_do),
        cmocka_unit_test(forbidden_functions_are_not_even_imported),
        cmocka_unit_test(program_with_ld_bind_now_works),
    };
    stage_enter(argc, argv, NULL, scenes);
    return cmocka_run_group_tests(tests, map_library, NULL);
}
