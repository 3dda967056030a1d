/*
 * test_cli_program.c - what is told of a program from its file: ELF headers, also damaged ones, scripts, the search
 * along PATH.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* The command's parts are no library: a test that needs one brings it in as it is. */
#include "view/output.c"
#include "view/elf.c"
#include "cli/program.c"
#include "view/message.c" /* the last one: others mean its functions, and it libc's */

static char folder[] = "/tmp/sockfuse-test.XXXXXX";

static char *in_folder(const char *name)
{
    static char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static char *make_file(const char *name, const void *bytes, size_t size, mode_t mode)
{
    char *path = in_folder(name);
    unlink(path);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

static struct elf_facts examine_bytes(const void *bytes, size_t size)
{
    struct elf_facts facts;
    int descriptor = open(make_file("elf", bytes, size, 0644), O_RDONLY | O_CLOEXEC);
    assert_true(descriptor >= 0);
    elf_examine(descriptor, &facts);
    close(descriptor);
    return facts;
}

/* This test's own file. */
static size_t own_bytes(unsigned char **bytes)
{
    FILE *file = fopen("/proc/self/exe", "re");
    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    *bytes = malloc(size);
    assert_non_null(*bytes);
    assert_int_equal(fread(*bytes, 1, size, file), size);
    fclose(file);
    return size;
}

/* --- ELF ---------------------------------------------------------------------------------------------------------- */

static void an_ordinary_program_has_an_interpreter_and_this_machines_word_size(void **state)
{
    unsigned char *bytes;
    size_t size = own_bytes(&bytes);
    struct elf_facts facts = examine_bytes(bytes, size);
    (void)state;
    assert_true(facts.is_elf && facts.has_interpreter && !facts.is_go);
    assert_int_equal(facts.bits, sizeof(void *) * 8);
    assert_non_null(strstr(facts.interpreter, "/ld-"));
    free(bytes);
}

static void other_files_are_no_elf(void **state)
{
    static const char script[] = "#!/bin/sh\nexit 0\n# and a line behind it\n";
    (void)state;
    assert_false(examine_bytes("", 0).is_elf);
    assert_false(examine_bytes(script, sizeof script).is_elf);
    assert_false(examine_bytes("\177ELF", 4).is_elf);
    struct elf_facts facts;
    int descriptor = open("/tmp", O_RDONLY | O_CLOEXEC);
    elf_examine(descriptor, &facts);
    close(descriptor);
    assert_false(facts.is_elf);
}

/* A file with ELF's first bytes, one segment and what that holds. */
struct small {
    Elf64_Ehdr header;
    Elf64_Phdr segment;
    char content[64];
};

static struct small small_elf(uint32_t type, const void *content, size_t size)
{
    struct small file = {0};
    memcpy(file.header.e_ident, ELFMAG, SELFMAG);
    file.header.e_ident[EI_CLASS] = ELFCLASS64;
    file.header.e_ident[EI_DATA] = __BYTE_ORDER == __LITTLE_ENDIAN ? ELFDATA2LSB : ELFDATA2MSB;
    file.header.e_type = ET_EXEC;
    file.header.e_machine = EM_X86_64;
    file.header.e_phoff = offsetof(struct small, segment);
    file.header.e_phentsize = sizeof file.segment;
    file.header.e_phnum = 1;
    file.segment.p_type = type;
    file.segment.p_offset = offsetof(struct small, content);
    file.segment.p_filesz = size;
    memcpy(file.content, content, size);
    return file;
}

static void a_program_without_an_interpreter_is_static(void **state)
{
    struct small file = small_elf(PT_LOAD, "", 0);
    struct elf_facts facts = examine_bytes(&file, sizeof file);
    (void)state;
    assert_true(facts.is_elf && !facts.has_interpreter && !facts.is_go);
}

static void the_interpreter_is_told_by_name(void **state)
{
    static const char name[] = "/lib/ld-musl-x86_64.so.1";
    struct small file = small_elf(PT_INTERP, name, sizeof name);
    struct elf_facts facts = examine_bytes(&file, sizeof file);
    (void)state;
    assert_true(facts.has_interpreter);
    assert_string_equal(facts.interpreter, name);
    assert_true(facts.is_musl);
}

static void an_interpreter_without_an_end_or_beyond_the_file_is_not_read_on(void **state)
{
    struct small file = small_elf(PT_INTERP, "abcd", 4);
    (void)state;
    assert_string_equal(examine_bytes(&file, sizeof file).interpreter, "abcd");
    file.segment.p_filesz = 1000;
    struct elf_facts facts = examine_bytes(&file, sizeof file);
    assert_true(facts.has_interpreter);
    assert_string_equal(facts.interpreter, "");
    file.segment.p_filesz = UINT64_MAX;
    assert_true(examine_bytes(&file, sizeof file).has_interpreter);
    file.segment.p_filesz = 4;
    file.segment.p_offset = UINT64_MAX - 2;
    assert_true(examine_bytes(&file, sizeof file).has_interpreter);
}

static void a_go_program_is_known_by_its_note(void **state)
{
    struct {
        Elf64_Nhdr note;
        char name[4];
        char content[8];
    } other = {{4, 8, 1}, "GNU", "12345678"}, go = {{4, 8, 4}, "Go\0", "buildid"};
    char both[sizeof other + sizeof go];
    memcpy(both, &other, sizeof other);
    memcpy(both + sizeof other, &go, sizeof go);
    struct small file = small_elf(PT_NOTE, both, sizeof both);
    (void)state;
    assert_true(examine_bytes(&file, sizeof file).is_go);
    file = small_elf(PT_NOTE, &other, sizeof other);
    assert_false(examine_bytes(&file, sizeof file).is_go);
    go.note.n_namesz = UINT32_MAX; /* a length that leads out of the segment */
    memcpy(both + sizeof other, &go, sizeof go);
    file = small_elf(PT_NOTE, both, sizeof both);
    assert_false(examine_bytes(&file, sizeof file).is_go);
}

static void the_other_byte_order_is_told(void **state)
{
    struct small file = small_elf(PT_LOAD, "", 0);
    (void)state;
    file.header.e_ident[EI_DATA] = file.header.e_ident[EI_DATA] == ELFDATA2LSB ? ELFDATA2MSB : ELFDATA2LSB;
    file.header.e_machine = __builtin_bswap16(EM_S390);
    struct elf_facts facts = examine_bytes(&file, sizeof file);
    assert_true(facts.is_elf);
    assert_int_equal(facts.machine, EM_S390);
    assert_int_equal(facts.big_endian, __BYTE_ORDER == __LITTLE_ENDIAN);
}

/* Whatever is in the headers, reading them ends, and stays inside the file (the sanitizers watch). */
static void no_damage_to_the_headers_harms_the_reader(void **state)
{
    unsigned char *bytes;
    size_t size = own_bytes(&bytes);
    Elf64_Ehdr header;
    memcpy(&header, bytes, sizeof header);
    uint64_t random = 42;
    (void)state;
    for (size_t length = 0; length < sizeof header; length++)
        examine_bytes(bytes, length);
    int descriptor = open(make_file("damaged", bytes, size, 0644), O_RDWR | O_CLOEXEC);
    assert_true(descriptor >= 0);
    for (int round = 0; round < 3000; round++) {
        /* The header, the table of segments, the table of sections, in turn. */
        const uint64_t starts[] = {EI_NIDENT, header.e_phoff, header.e_shoff};
        const uint64_t sizes[] = {sizeof header - EI_NIDENT, (uint64_t)header.e_phentsize * header.e_phnum,
                                  (uint64_t)header.e_shentsize * header.e_shnum};
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t at = starts[round % 3] + (random >> 33) % sizes[round % 3];
        unsigned char damage = (unsigned char)(random >> 20);
        assert_int_equal(pwrite(descriptor, &damage, 1, (off_t)at), 1);
        struct elf_facts facts;
        elf_examine(descriptor, &facts);
        assert_true(facts.is_elf);
        assert_non_null(memchr(facts.interpreter, '\0', sizeof facts.interpreter));
        if (round % 2 == 0) /* every other damage stays, so that they add up */
            assert_int_equal(pwrite(descriptor, bytes + at, 1, (off_t)at), 1);
        if (round % 100 == 99)
            assert_int_equal(pwrite(descriptor, bytes, size, 0), size);
    }
    close(descriptor);
    free(bytes);
}

/* --- the search along PATH ---------------------------------------------------------------------------------------- */

static void expect_found(const char *name, const char *expected)
{
    char path[PATH_MAX];
    assert_true(program_find(name, path, sizeof path));
    assert_string_equal(path, expected);
}

static void expect_missing(const char *name, int error)
{
    char path[PATH_MAX];
    assert_false(program_find(name, path, sizeof path));
    assert_int_equal(errno, error);
}

static void the_first_executable_along_path_is_found(void **state)
{
    char first[PATH_MAX], second[PATH_MAX], path[3 * PATH_MAX];
    (void)state;
    snprintf(first, sizeof first, "%s/first", folder);
    snprintf(second, sizeof second, "%s/second", folder);
    mkdir(first, 0755);
    mkdir(second, 0755);
    make_file("first/plain", "", 0, 0644);
    make_file("second/plain", "", 0, 0755);
    make_file("first/denied", "", 0, 0644);
    make_file("first/both", "", 0, 0755);
    make_file("second/both", "", 0, 0755);
    snprintf(path, sizeof path, "/nonexistent:/etc/passwd:%s:%s", first, second);
    setenv("PATH", path, 1);
    expect_found("both", in_folder("first/both"));
    expect_found("plain", in_folder("second/plain")); /* a file that can't be executed is passed over */
    expect_missing("denied", EACCES);
    expect_missing("nowhere", ENOENT);
    expect_missing("", ENOENT);
    expect_found(in_folder("second/plain"), in_folder("second/plain"));
    expect_missing("/etc", EACCES);
    expect_missing("./nowhere", ENOENT);
}

static void an_empty_word_in_path_is_the_current_folder(void **state)
{
    char first[PATH_MAX];
    (void)state;
    make_file("here", "", 0, 0755);
    snprintf(first, sizeof first, "%s", folder);
    char *before = getcwd(NULL, 0);
    assert_int_equal(chdir(first), 0);
    setenv("PATH", "/nonexistent:", 1);
    expect_found("here", "./here");
    setenv("PATH", "", 1);
    expect_found("here", "./here");
    unsetenv("PATH");
    expect_missing("here", ENOENT);
    expect_found("sh", "/bin/sh");
    assert_int_equal(chdir(before), 0);
    free(before);
}

/* --- scripts ------------------------------------------------------------------------------------------------------ */

static void expect_binary(const char *script, const char *binary)
{
    struct program program;
    char *path = copy_text(make_file("script", script, strlen(script), 0755));
    setenv("PATH", "/usr/bin:/bin", 1);
    assert_true(program_examine(path, &program));
    assert_string_equal(program.path, path);
    assert_true(program.is_script);
    assert_string_equal(program.binary, binary);
    free(path);
}

static void a_script_is_judged_by_its_interpreter(void **state)
{
    (void)state;
    expect_binary("#!/bin/sh\n", "/bin/sh");
    expect_binary("#! \t /bin/sh  -e  \n", "/bin/sh");
    expect_binary("#!/bin/sh", "/bin/sh");
    expect_binary("exit 0\n", "/bin/sh");
    expect_binary("", "/bin/sh");
    expect_binary("#!/usr/bin/env sh\n", "/usr/bin/sh");
    expect_binary("#!/usr/bin/env -S A=1 -u B sh -e\n", "/usr/bin/sh");
    expect_binary("#!/usr/bin/env -Ssh -e\n", "/usr/bin/sh");
    expect_binary("#!/usr/bin/env -vS sh -e\n", "/usr/bin/sh");
    expect_binary("#!/usr/bin/env --split-string=sh -e\n", "/usr/bin/sh");
}

static void an_emptied_environment_is_noticed(void **state)
{
    static const char script[] = "#!/usr/bin/env -S -i sh\n";
    struct program program;
    (void)state;
    expect_binary(script, "/usr/bin/sh");
    assert_true(program_examine(in_folder("script"), &program));
    assert_true(program.environment_emptied);
}

/* To env, what stands behind its name is one word. */
static void an_option_that_env_does_not_have_names_no_program(void **state)
{
    static const char script[] = "#!/usr/bin/env --split-string sh\n";
    struct program program;
    (void)state;
    make_file("script", script, strlen(script), 0755);
    assert_true(program_examine(in_folder("script"), &program));
    assert_false(program.examined);
}

static void interpreters_that_go_round_in_circles_are_given_up(void **state)
{
    char script[PATH_MAX + 8];
    struct program program;
    (void)state;
    snprintf(script, sizeof script, "#!%s\n", in_folder("circle"));
    make_file("circle", script, strlen(script), 0755);
    assert_true(program_examine(in_folder("circle"), &program));
    assert_false(program.examined);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void **state)
{
    char *command;
    (void)state;
    if (asprintf(&command, "/bin/rm -rf %s", folder) < 0)
        return 1;
    int status = system(command);
    free(command);
    return status;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ordinary_program_has_an_interpreter_and_this_machines_word_size),
        cmocka_unit_test(other_files_are_no_elf),
        cmocka_unit_test(a_program_without_an_interpreter_is_static),
        cmocka_unit_test(the_interpreter_is_told_by_name),
        cmocka_unit_test(an_interpreter_without_an_end_or_beyond_the_file_is_not_read_on),
        cmocka_unit_test(a_go_program_is_known_by_its_note),
        cmocka_unit_test(the_other_byte_order_is_told),
        cmocka_unit_test(no_damage_to_the_headers_harms_the_reader),
        cmocka_unit_test(the_first_executable_along_path_is_found),
        cmocka_unit_test(an_empty_word_in_path_is_the_current_folder),
        cmocka_unit_test(a_script_is_judged_by_its_interpreter),
        cmocka_unit_test(an_emptied_environment_is_noticed),
        cmocka_unit_test(an_option_that_env_does_not_have_names_no_program),
        cmocka_unit_test(interpreters_that_go_round_in_circles_are_given_up),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
