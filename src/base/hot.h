/*
 * hot.h - for what each guarded connection or call runs through.
 *
 * Between two of a program's calls the kernel has taken the caches. So what a connection costs is less how many
 * instructions it takes than how many lines and pages of code they stand in, and how often they jump. HOT functions lie
 * side by side (preload/order.ld has their order), and say which way they go as a rule: the rest then stands behind
 * them, or, where it ends in a SELDOM function, apart from all of it. e2e/test_cost.py counts.
 */
#ifndef SOCKFUSE_BASE_HOT_H
#define SOCKFUSE_BASE_HOT_H

#define HOT __attribute__((hot))
#define SELDOM __attribute__((noinline, cold))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define UNLIKELY(condition) __builtin_expect(!!(condition), 0)

#endif
