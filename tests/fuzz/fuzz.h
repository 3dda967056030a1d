/*
 * fuzz.h - what every fuzzer of this folder is: one function, which libFuzzer calls with ever other bytes, or alone.c
 * once for each file.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>

/* Tries one input, and aborts where something is wrong. Returns 0. The bytes are only lent. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#endif
