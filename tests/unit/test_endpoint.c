/* Endpoints: what connect was given in one canonical form, and as text and back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "policy/endpoint.h"
#include "support_breaker.h"

static struct endpoint of_ipv6(const char *address, uint16_t port, uint32_t scope_id)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_scope_id = scope_id};
    struct endpoint endpoint;
    assert_int_equal(inet_pton(AF_INET6, address, &in6.sin6_addr), 1);
    in6.sin6_flowinfo = htonl(77); /* says nothing about where it goes */
    assert_true(endpoint_from_sockaddr(&endpoint, (const struct sockaddr *)&in6, sizeof in6));
    return endpoint;
}

static struct endpoint of_ipv4(const char *address, uint16_t port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct endpoint endpoint;
    memset(in.sin_zero, 0xee, sizeof in.sin_zero); /* nobody has to clear it */
    assert_int_equal(inet_pton(AF_INET, address, &in.sin_addr), 1);
    assert_true(endpoint_from_sockaddr(&endpoint, (const struct sockaddr *)&in, sizeof in));
    return endpoint;
}

/* `name` as connect gets it: so many bytes of sun_path, in memory that ends right behind them. */
static bool of_unix(struct endpoint *endpoint, const char *name, size_t length)
{
    const size_t size = offsetof(struct sockaddr_un, sun_path) + length;
    struct sockaddr *address = malloc(size);
    assert_non_null(address);
    memcpy(address, &(sa_family_t){AF_UNIX}, sizeof(sa_family_t));
    memcpy((char *)address + offsetof(struct sockaddr_un, sun_path), name, length);
    const bool good = endpoint_from_sockaddr(endpoint, address, (socklen_t)size);
    free(address);
    return good;
}

static void expect_text(const struct endpoint *endpoint, const char *expected)
{
    char text[DESTINATION_MAX];
    struct endpoint back;
    assert_int_equal(endpoint_format(endpoint, text, sizeof text), strlen(expected));
    assert_string_equal(text, expected);
    assert_true(endpoint_parse(&back, text));
    assert_true(endpoint_equal(endpoint, &back));
    assert_int_equal(endpoint_hash(endpoint), endpoint_hash(&back));
}

static void addresses_are_written_and_read_back(void **state)
{
    (void)state;
    static const struct {
        const char *address, *text;
    } ipv6[] = {
        {"2001:db8::1", "[2001:db8::1]:80"},
        {"::", "[::]:80"},
        {"::1", "[::1]:80"},
        {"1::", "[1::]:80"},
        {"2001:DB8:0:0:1:0:0:1", "[2001:db8::1:0:0:1]:80"}, /* the first of equal runs */
        {"1:0:0:2:0:0:0:3", "[1:0:0:2::3]:80"},
        {"1:0:2:3:4:5:6:7", "[1:0:2:3:4:5:6:7]:80"},
        {"1:2:3:4:5:6:7:8", "[1:2:3:4:5:6:7:8]:80"},
        {"0:0:1:0:0:0:0:0", "[0:0:1::]:80"},
        {"::1:2:3:4:5:6", "[::1:2:3:4:5:6]:80"},
    };
    for (size_t i = 0; i < sizeof ipv6 / sizeof *ipv6; i++) {
        const struct endpoint endpoint = of_ipv6(ipv6[i].address, 80, 0);
        assert_int_equal(endpoint.family, ENDPOINT_IPV6);
        expect_text(&endpoint, ipv6[i].text);
    }
    struct endpoint endpoint = of_ipv4("192.0.2.1", 80);
    expect_text(&endpoint, "192.0.2.1:80");
    endpoint = of_ipv4("255.255.255.255", 65535);
    expect_text(&endpoint, "255.255.255.255:65535");
    endpoint = of_ipv4("0.0.0.0", 0);
    expect_text(&endpoint, "0.0.0.0:0");
}

static void random_addresses_are_written_as_inet_ntop_does(void **state)
{
    (void)state;
    unsigned int seed = 6;
    for (unsigned int round = 0; round < 20000; round++) {
        struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(1)};
        char expected[INET6_ADDRSTRLEN + 8], text[DESTINATION_MAX];
        struct endpoint endpoint, back;
        for (unsigned int i = 0; i < 16; i++) { /* many zeros, for the runs */
            if (rand_r(&seed) % 3 == 0)
                in6.sin6_addr.s6_addr[i] = (uint8_t)rand_r(&seed);
        }
        in6.sin6_addr.s6_addr[0] |= 1; /* inet_ntop writes ::1.2.3.4 for what only looks like IPv4 */
        expected[0] = '[';
        inet_ntop(AF_INET6, &in6.sin6_addr, expected + 1, INET6_ADDRSTRLEN);
        strcat(expected, "]:1");
        assert_true(endpoint_from_sockaddr(&endpoint, (struct sockaddr *)&in6, sizeof in6));
        endpoint_format(&endpoint, text, sizeof text);
        assert_string_equal(text, expected);
        assert_true(endpoint_parse(&back, text));
        assert_true(endpoint_equal(&endpoint, &back));
    }
}

static void ipv4_addresses_are_read_as_inet_pton_reads_them(void **state)
{
    static const char *const parts[] = {
        "0", "1", "00", "01", "9",  "10", "099", "100", "255", "256", "1234567890123456789012",
        ".", "",  " ",  "-1", "+1", "a",  "1x",  ".",   ".",   ".",   "."};
    const size_t count = sizeof parts / sizeof *parts;
    unsigned int read = 0;
    (void)state;
    uint64_t random = 1;
    for (unsigned int round = 0; round < 200000; round++) {
        char text[256] = "";
        uint8_t expected[4], address[4];
        for (int part = 0; part < 4 + (breaker_random(&random) % 16 == 0); part++) {
            strcat(text, part > 0 && breaker_random(&random) % 32 != 0 ? "." : "");
            strcat(text, parts[breaker_random(&random) % (breaker_random(&random) % 4 == 0 ? count : 10)]);
        }
        bool good = inet_pton(AF_INET, text, expected) == 1;
        if (endpoint_read_ipv4(text, address) != good)
            fail_msg("`%s`: inet_pton says %d", text, good);
        if (good)
            assert_memory_equal(address, expected, sizeof address);
        read += good;
    }
    assert_true(read > 1000);
}

static void a_mapped_address_is_the_ipv4_address(void **state)
{
    (void)state;
    const struct endpoint mapped = of_ipv6("::ffff:127.0.0.1", 5432, 9), plain = of_ipv4("127.0.0.1", 5432);
    assert_memory_equal(&mapped, &plain, sizeof plain);
    expect_text(&mapped, "127.0.0.1:5432");
    struct endpoint parsed;
    assert_true(endpoint_parse(&parsed, "[::ffff:127.0.0.1]:5432"));
    assert_true(endpoint_equal(&parsed, &plain));
    assert_int_equal(of_ipv6("::fffe:127.0.0.1", 1, 0).family, ENDPOINT_IPV6);
    assert_int_equal(of_ipv6("::127.0.0.1", 1, 0).family, ENDPOINT_IPV6);
}

static void a_zone_counts_for_link_local_addresses_alone(void **state)
{
    (void)state;
    const struct endpoint local = of_ipv6("fe80::1", 80, 3), other = of_ipv6("fe80::1", 80, 4);
    expect_text(&local, "[fe80::1%3]:80");
    assert_false(endpoint_equal(&local, &other));
    assert_true(endpoint_hash(&local) != endpoint_hash(&other));
    const struct endpoint edge = of_ipv6("febf::1", 80, 4294967295u), global = of_ipv6("fec0::1", 80, 3);
    expect_text(&edge, "[febf::1%4294967295]:80");
    expect_text(&global, "[fec0::1]:80");
}

static void expect_address(const char *text, const char *written)
{
    struct endpoint endpoint;
    char buffer[DESTINATION_MAX];
    if (written == NULL) {
        assert_false(endpoint_parse_address(&endpoint, text));
        return;
    }
    assert_true(endpoint_parse_address(&endpoint, text));
    assert_int_equal(endpoint.port, 0);
    assert_int_equal(endpoint_format_address(&endpoint, buffer, sizeof buffer), strlen(written));
    assert_string_equal(buffer, written);
}

static void an_address_is_written_and_read_without_a_port(void **state)
{
    (void)state;
    expect_address("192.0.2.1", "192.0.2.1");
    expect_address("2001:DB8::1", "2001:db8::1");
    expect_address("::ffff:192.0.2.1", "192.0.2.1");
    expect_address("fe80::1%2", "fe80::1%2");
    expect_address("2001:db8::1%2", "2001:db8::1");
    expect_address("fe80::1%4294967295", "fe80::1%4294967295");
    static const char *const none[] = {
        "",
        "1.2.3",
        "1.2.3.4:80",
        "[::1]",
        "::1%",
        "::1%x",
        "::1%4294967296",
        "::g",
        "1.2.3.4%1",
        "host",
        ":",
        "1.2.3.4 ",
        " 1.2.3.4",
        "unix:/x",
        "%1",
        "1:2:3:4:5:6:7:8:9:0:1:2:3:4:5:6:7:8:9:0:1:2:3",
    };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        expect_address(none[i], NULL);
    struct endpoint path = {.family = ENDPOINT_UNIX, .path = "/x"};
    char buffer[DESTINATION_MAX];
    assert_int_equal(endpoint_format_address(&path, buffer, sizeof buffer), 0);
}

static void paths_are_taken_as_the_kernel_takes_them(void **state)
{
    (void)state;
    struct endpoint endpoint;
    char longest[ENDPOINT_PATH_MAX + 2];
    assert_true(of_unix(&endpoint, "/run/x", 6)); /* without a zero behind it */
    expect_text(&endpoint, "unix:/run/x");
    assert_true(of_unix(&endpoint, "/run/x\0garbage", 14));
    expect_text(&endpoint, "unix:/run/x");
    assert_true(of_unix(&endpoint, "run/x", 6));
    expect_text(&endpoint, "unix:run/x");
    memset(longest, 'p', sizeof longest);
    assert_true(of_unix(&endpoint, longest, ENDPOINT_PATH_MAX));
    assert_int_equal(strlen(endpoint.path), ENDPOINT_PATH_MAX);
    char text[DESTINATION_MAX];
    assert_int_equal(endpoint_format(&endpoint, text, sizeof text), 5 + ENDPOINT_PATH_MAX);
    assert_false(of_unix(&endpoint, longest, ENDPOINT_PATH_MAX + 1));
    assert_false(of_unix(&endpoint, "", 0));
}

static void abstract_names_are_no_paths(void **state)
{
    (void)state;
    struct endpoint endpoint, path;
    assert_true(of_unix(&endpoint, "\0app", 4));
    assert_true(endpoint.abstract);
    expect_text(&endpoint, "unix:@app");
    assert_true(of_unix(&path, "app", 3));
    assert_false(endpoint_equal(&endpoint, &path));
    assert_true(endpoint_hash(&endpoint) != endpoint_hash(&path));
    assert_true(of_unix(&endpoint, "\0app\0\0\0\0", 8)); /* the whole sun_path was passed */
    expect_text(&endpoint, "unix:@app");
    assert_true(of_unix(&endpoint, "\0a\0b", 4));
    expect_text(&endpoint, "unix:@a@b");
    assert_true(of_unix(&endpoint, "\0", 1));
    expect_text(&endpoint, "unix:@");
    /* a relative path that begins with @ must not be written like an abstract name */
    assert_true(of_unix(&path, "@app", 4));
    char text[DESTINATION_MAX];
    endpoint_format(&path, text, sizeof text);
    assert_string_equal(text, "unix:./@app");
}

static void short_foreign_and_missing_addresses_are_none(void **state)
{
    (void)state;
    struct endpoint endpoint;
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
    struct sockaddr_in in = {.sin_family = AF_INET};
    const struct sockaddr unspecified = {.sa_family = AF_UNSPEC}, netlink = {.sa_family = AF_NETLINK};
    assert_false(endpoint_from_sockaddr(&endpoint, NULL, 16));
    for (socklen_t length = 0; length < sizeof in; length++) {
        struct sockaddr *exact = malloc(length + 1u); /* the sanitizer sees a byte too far */
        memcpy(exact, &in, length);
        assert_false(endpoint_from_sockaddr(&endpoint, exact, length));
        free(exact);
    }
    for (socklen_t length = 0; length <= sizeof in6; length++) { /* RFC 2133's has no zone: 24 bytes */
        assert_int_equal(endpoint_from_sockaddr(&endpoint, (struct sockaddr *)&in6, length), length >= 24);
    }
    assert_true(endpoint_from_sockaddr(&endpoint, (struct sockaddr *)&in, 100)); /* the kernel takes it too */
    assert_false(endpoint_from_sockaddr(&endpoint, &unspecified, sizeof unspecified));
    assert_false(endpoint_from_sockaddr(&endpoint, &netlink, sizeof netlink));
}

static void an_address_need_not_be_aligned(void **state)
{
    (void)state;
    char memory[sizeof(struct sockaddr_in6) + 1];
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(80)};
    struct endpoint endpoint;
    inet_pton(AF_INET6, "2001:db8::1", &in6.sin6_addr);
    memcpy(memory + 1, &in6, sizeof in6);
    assert_true(endpoint_from_sockaddr(&endpoint, (const void *)(memory + 1), sizeof in6));
    expect_text(&endpoint, "[2001:db8::1]:80");
}

static void what_does_not_fit_is_not_cut(void **state)
{
    (void)state;
    const struct endpoint endpoint = of_ipv4("192.0.2.1", 80);
    for (size_t size = 0; size <= strlen("192.0.2.1:80") + 1; size++) {
        char *text = malloc(size + 1);
        memset(text, '!', size + 1);
        const size_t length = endpoint_format(&endpoint, text, size);
        assert_int_equal(length, size > 12 ? 12 : 0);
        assert_int_equal(text[size], '!');
        if (size > 0)
            assert_int_equal(text[length], '\0');
        free(text);
    }
    char text[8] = "x";
    assert_int_equal(endpoint_format(&(struct endpoint){0}, text, sizeof text), 0);
    assert_string_equal(text, "");
}

static void what_is_no_endpoint_is_not_read(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "1.2.3.4",
        "1.2.3.4:",
        ":80",
        "1.2.3.4:65536",
        "1.2.3.4:-1",
        "1.2.3.4:80x",
        "1.2.3:80",
        "localhost:80",
        "[::1]",
        "[::1:80",
        "::1:80",
        "[::1]80",
        "[]:80",
        "[1.2.3.4]:80",
        "1.2.3.4:http",
        "unix:",
        "[::1%]:80",
        "[::1%eth0]:80",
        "[::1%4294967296]:80",
        "[fe80::1%3%4]:80",
        "1.2.3.4 :80",
        "1.2.3.4:+80",
        "[",
        "[:80",
        "]:80",
        "1.2.3.4:184467440737095516160",
        "[1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc]:80",
    };
    struct endpoint endpoint;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (endpoint_parse(&endpoint, bad[i]))
            fail_msg("`%s` was read", bad[i]);
    }
    char path[5 + ENDPOINT_PATH_MAX + 2] = "unix:";
    memset(path + 5, 'p', ENDPOINT_PATH_MAX + 1);
    assert_false(endpoint_parse(&endpoint, path));
    path[5 + ENDPOINT_PATH_MAX] = '\0';
    assert_true(endpoint_parse(&endpoint, path));
}

static void hashes_tell_endpoints_apart_and_are_never_zero(void **state)
{
    (void)state;
    const struct endpoint a = of_ipv4("127.0.0.1", 80), b = of_ipv4("127.0.0.1", 81), c = of_ipv4("127.0.0.2", 80);
    const struct endpoint v6 = of_ipv6("7f00:1::", 80, 0);
    assert_true(endpoint_hash(&a) != endpoint_hash(&b));
    assert_true(endpoint_hash(&a) != endpoint_hash(&c));
    assert_true(endpoint_hash(&a) != endpoint_hash(&v6));
    assert_int_equal(endpoint_host_hash(&a), endpoint_host_hash(&b));
    assert_true(endpoint_host_hash(&a) != endpoint_host_hash(&c));
    assert_true(endpoint_hash(&a) != 0 && endpoint_hash(&(struct endpoint){0}) != 0);
    assert_false(endpoint_equal(&a, &b));
    assert_false(endpoint_equal(&a, &v6));
    /* the same in 32- and 64-bit programs, which share tables: fixed for ever */
    assert_int_equal(endpoint_hash(&a), UINT64_C(0xb4eb0a5d46b0c68c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_written_and_read_back),
        cmocka_unit_test(random_addresses_are_written_as_inet_ntop_does),
        cmocka_unit_test(ipv4_addresses_are_read_as_inet_pton_reads_them),
        cmocka_unit_test(a_mapped_address_is_the_ipv4_address),
        cmocka_unit_test(a_zone_counts_for_link_local_addresses_alone),
        cmocka_unit_test(an_address_is_written_and_read_without_a_port),
        cmocka_unit_test(paths_are_taken_as_the_kernel_takes_them),
        cmocka_unit_test(abstract_names_are_no_paths),
        cmocka_unit_test(short_foreign_and_missing_addresses_are_none),
        cmocka_unit_test(an_address_need_not_be_aligned),
        cmocka_unit_test(what_does_not_fit_is_not_cut),
        cmocka_unit_test(what_is_no_endpoint_is_not_read),
        cmocka_unit_test(hashes_tell_endpoints_apart_and_are_never_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
