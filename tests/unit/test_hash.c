/*
 * test_hash.c - the hash and the mixer give what is published of them: files that are shared depend on it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"

/* From the test vectors of FNV's authors. */
static void bytes_hash_as_fnv_1a_says(void **state)
{
    (void)state;
    assert_true(hash_bytes(HASH_BEGIN, "", 0) == UINT64_C(0xcbf29ce484222325));
    assert_true(hash_bytes(HASH_BEGIN, "a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(hash_bytes(HASH_BEGIN, "foobar", 6) == UINT64_C(0x85944171f73967e8));
    assert_true(hash_bytes(HASH_BEGIN, "\xff\x00\x00\x01", 4) == UINT64_C(0x6961196491cc682d));
}

static void a_hash_goes_on_where_it_stopped(void **state)
{
    (void)state;
    assert_true(hash_bytes(hash_bytes(HASH_BEGIN, "foo", 3), "bar", 3) == hash_bytes(HASH_BEGIN, "foobar", 6));
}

/* The first outputs of splitmix64 with the seed 1234567. */
static void bits_spread_as_splitmix64_says(void **state)
{
    static const uint64_t expected[] = {UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
                                        UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
                                        UINT64_C(16408922859458223821)};
    uint64_t seed = 1234567;
    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_true(hash_spread(seed += HASH_STEP) == expected[i]);
    assert_true(hash_spread(0) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_hash_as_fnv_1a_says),
        cmocka_unit_test(a_hash_goes_on_where_it_stopped),
        cmocka_unit_test(bits_spread_as_splitmix64_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
