/*
 * test_view_cut.c - a file that is cut short while it is mapped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <cmocka.h>

/* The command's parts are no library: a test that needs one brings it in as it is. */
#include "view/truncation.c"

#define PAGES 4u

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* A file of some pages of the byte 7, mapped. */
static volatile char *map_file(FILE **file)
{
    const size_t size = PAGES * page_size();
    char *bytes = malloc(size);
    memset(bytes, 7, size);
    *file = tmpfile();
    assert_non_null(*file);
    assert_int_equal(fwrite(bytes, 1, size, *file), size);
    assert_int_equal(fflush(*file), 0);
    free(bytes);
    void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(*file), 0);
    assert_true(map != MAP_FAILED);
    return map;
}

static void what_is_gone_reads_as_zeros_and_can_be_written(void **state)
{
    FILE *file;
    volatile char *map = map_file(&file);
    const size_t page = page_size();
    (void)state;
    cut_survive();
    assert_int_equal(map[3 * page], 7);
    assert_false(cut_happened());
    assert_int_equal(ftruncate(fileno(file), (off_t)page), 0);
    assert_int_equal(map[3 * page + 5], 0);
    map[2 * page] = 1;
    assert_int_equal(map[2 * page], 1);
    assert_int_equal(map[0], 7); /* what still stands is read as it is */
    assert_true(cut_happened());
    assert_false(cut_happened());
    /* Nothing of what was written goes into a file that grows again. */
    assert_int_equal(ftruncate(fileno(file), (off_t)(PAGES * page)), 0);
    char byte = 9;
    assert_int_equal(pread(fileno(file), &byte, 1, (off_t)(2 * page)), 1);
    assert_int_equal(byte, 0);
    munmap((void *)(uintptr_t)map, PAGES * page);
    fclose(file);
}

static void all_behind_a_page_that_is_gone_becomes_zeros_of_its_own(void **state)
{
    FILE *file;
    volatile char *map = map_file(&file);
    const size_t page = page_size();
    (void)state;
    cut_survive();
    cut_watch((void *)(uintptr_t)map, PAGES * page);
    assert_int_equal(ftruncate(fileno(file), (off_t)page), 0);
    assert_int_equal(map[page], 0);
    /* The file stands again, but the last page is not the file's any more. */
    assert_int_equal(ftruncate(fileno(file), (off_t)(PAGES * page)), 0);
    const char byte = 9;
    assert_int_equal(pwrite(fileno(file), &byte, 1, (off_t)(3 * page)), 1);
    assert_int_equal(map[3 * page], 0);
    assert_true(cut_happened());
    cut_unwatch((void *)(uintptr_t)map);
    munmap((void *)(uintptr_t)map, PAGES * page);
    fclose(file);
}

static void a_signal_that_somebody_sends_ends_the_program(void **state)
{
    int status;
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        cut_survive();
        raise(SIGBUS);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_gone_reads_as_zeros_and_can_be_written),
        cmocka_unit_test(all_behind_a_page_that_is_gone_becomes_zeros_of_its_own),
        cmocka_unit_test(a_signal_that_somebody_sends_ends_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
