/*
 * policy_keeping.h - the memory of policies that were handed over: who still goes by one, and giving back those that
 * nobody does.
 *
 * A connection goes by a target of its policy until it takes a later one's, and a call that is held (deferred.h) does
 * so to its end: they follow the policy. Who reads the present one holds it meanwhile. A policy that is not the present
 * one, and that nobody has followed or held since the last reload, is given back: its pages become zeros, and its
 * addresses stay for the next one. So who reads a target a moment too late (another thread has moved the connection to
 * the new policy meanwhile) finds zeros: rules that are off. The first policy is the program's own memory, and stays.
 *
 * No lock. A handler that jumps out of a wrapper may at worst leave a policy held, for ever; out of policy_keeping_room
 * and policy_keeping_sweep nothing may jump, see undisturbed.h. Async-signal-safe; system calls in these two alone.
 */
#ifndef SOCKFUSE_CONNECTION_POLICY_KEEPING_H
#define SOCKFUSE_CONNECTION_POLICY_KEEPING_H

#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"

/* The present policy, which stays as it is until policy_keeping_drop. Never around the program's own call. */
const struct policy *policy_keeping_hold(void);
void policy_keeping_drop(const struct policy *policy);

/* Whoever goes by the target from now on follows its policy; policy_keeping_leave takes what this returns. */
uint32_t policy_keeping_follow(const struct target *target);
void policy_keeping_leave(uint32_t follower);

/*
 * Room for a policy to be, page-aligned; NULL: no memory. Until policy_keeping_made it is left alone, whether it has
 * come into force or not.
 */
void *policy_keeping_room(size_t size);
void policy_keeping_made(const void *room);
/* After another policy has come into force. */
void policy_keeping_sweep(void);

#endif
