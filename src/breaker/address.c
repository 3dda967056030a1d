/*
 * address.c - the addresses of one destination: which failed and which answered last.
 *
 * One dead address of several must not open the circuit of a destination that answers at another one (a broken IPv6
 * beside a working IPv4, one dead host behind a name). Each failure and each answer of interest draws a serial
 * number; comparing two of them tells what was later. No clock, no lock. Everything here is advice to the classifier:
 * it is read and written relaxed, and a lost race costs no more than one outcome judged by the state of a moment
 * before.
 */
#include <stdatomic.h>

#include "breaker/circuit.h"
#include "breaker/word.h"

static bool is_address(int address)
{
    return address >= 0 && (unsigned int)address < CIRCUIT_ADDRESSES;
}

static uint64_t key_of(const struct circuit *circuit, unsigned int place)
{
    return atomic_load_explicit(&circuit->addresses[place].key, memory_order_relaxed);
}

static uint64_t failed_at(const struct circuit *circuit, unsigned int place)
{
    return atomic_load_explicit(&circuit->addresses[place].failed_sequence, memory_order_relaxed);
}

static uint64_t answered_at(const struct circuit *circuit, unsigned int place)
{
    return atomic_load_explicit(&circuit->addresses[place].answered_sequence, memory_order_relaxed);
}

/*
 * Takes the place whose last note is the oldest. Places without any note are equally old: the key chooses where the
 * search begins, so that many addresses do not all push each other out of the same place.
 */
static int replace_oldest(struct circuit *circuit, uint64_t key)
{
    unsigned int oldest = 0;
    uint64_t oldest_note = UINT64_MAX;

    for (unsigned int i = 0; i < CIRCUIT_ADDRESSES; i++) {
        unsigned int place = (unsigned int)((key + i) % CIRCUIT_ADDRESSES);
        uint64_t failed = failed_at(circuit, place), answered = answered_at(circuit, place);
        uint64_t note = failed > answered ? failed : answered;

        if (note < oldest_note) {
            oldest_note = note;
            oldest = place;
        }
    }

    uint64_t expected = key_of(circuit, oldest);
    if (!atomic_compare_exchange_strong_explicit(&circuit->addresses[oldest].key, &expected, key, memory_order_relaxed,
                                                 memory_order_relaxed))
        return expected == key ? (int)oldest : ADDRESS_NONE;
    /* Who reads between these lines takes the former address's notes for the new one's: one outcome at the most. */
    atomic_store_explicit(&circuit->addresses[oldest].failed_sequence, 0, memory_order_relaxed);
    atomic_store_explicit(&circuit->addresses[oldest].answered_sequence, 0, memory_order_relaxed);
    return (int)oldest;
}

int circuit_address_index(struct circuit *circuit, uint64_t key)
{
    if (key == 0)
        return ADDRESS_NONE;
    /* Places fill up in order, and only circuit_reset frees them, all: behind the first free one there is nothing. */
    for (unsigned int place = 0; place < CIRCUIT_ADDRESSES; place++) {
        uint64_t found = key_of(circuit, place);

        if (found == 0)
            atomic_compare_exchange_strong_explicit(&circuit->addresses[place].key, &found, key, memory_order_relaxed,
                                                    memory_order_relaxed);
        if (found == key || found == 0)
            return (int)place;
    }
    return replace_oldest(circuit, key);
}

bool circuit_address_is(const struct circuit *circuit, int address, uint64_t key)
{
    return is_address(address) && key_of(circuit, (unsigned int)address) == key;
}

uint64_t circuit_address_key(const struct circuit *circuit, int address)
{
    return is_address(address) ? key_of(circuit, (unsigned int)address) : 0;
}

void circuit_address_answered(struct circuit *circuit, int address)
{
    if (!is_address(address))
        return;

    uint64_t answered = answered_at(circuit, (unsigned int)address);
    for (unsigned int place = 0; place < CIRCUIT_ADDRESSES && key_of(circuit, place) != 0; place++) {
        if (place == (unsigned int)address)
            continue;
        /* The first answer is noted too as soon as there is a neighbour: its very first failure may ask for it. */
        if (answered == 0 || failed_at(circuit, place) > answered) {
            atomic_store_explicit(&circuit->addresses[address].answered_sequence, serial_draw(circuit, 63),
                                  memory_order_relaxed);
            return;
        }
    }
}

bool circuit_other_answered(const struct circuit *circuit, int address)
{
    if (!is_address(address))
        return false;

    uint64_t failed = failed_at(circuit, (unsigned int)address);
    for (unsigned int place = 0; place < CIRCUIT_ADDRESSES; place++) {
        if (place != (unsigned int)address && answered_at(circuit, place) > failed)
            return true;
    }
    return false;
}

void circuit_address_failed(struct circuit *circuit, int address)
{
    if (is_address(address))
        atomic_store_explicit(&circuit->addresses[address].failed_sequence, serial_draw(circuit, 63),
                              memory_order_relaxed);
}

bool circuit_address_may_answer(const struct circuit *circuit, uint64_t key)
{
    for (unsigned int place = 0; place < CIRCUIT_ADDRESSES; place++) {
        if (key_of(circuit, place) == key) {
            uint64_t failed = failed_at(circuit, place);
            return failed == 0 || answered_at(circuit, place) > failed;
        }
    }
    return true;
}
