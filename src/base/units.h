/*
 * units.h - what everything inside counts in: nanoseconds, and thousandths of a whole.
 */
#ifndef SOCKFUSE_BASE_UNITS_H
#define SOCKFUSE_BASE_UNITS_H

#include <stdint.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS (1000 * NS_PER_US)
#define NS_PER_S (1000 * NS_PER_MS)
#define NS_PER_MINUTE (60 * NS_PER_S)
#define NS_PER_HOUR (60 * NS_PER_MINUTE)
#define NS_PER_DAY (24 * NS_PER_HOUR)

#define PERMILLE 1000u /* all of it */

#endif
