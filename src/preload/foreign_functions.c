/*
 * foreign_functions.c - finding the functions of libraries that come and go. See foreign_functions.h.
 */
#define _GNU_SOURCE
#include "preload/foreign_functions.h"

#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "base/shared.h"
#include "preload/real.h"

#define OBJECTS_MAX 4096u /* that are asked for a function, when nobody else knows it */

static int take_unloads(struct dl_phdr_info *object, size_t size, void *unloads)
{
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof object->dlpi_subs)
        *(uint64_t *)unloads = object->dlpi_subs;
    return 1; /* the first object tells as much as all */
}

/* How many objects the dynamic linker has unloaded. It counts under the lock under which it unmaps them, so code that
 * is running is what it was when the count was the same. */
static uint64_t count_unloads(void)
{
    uint64_t unloads = 0;
    dl_iterate_phdr(take_unloads, &unloads);
    return unloads;
}

/* The function in a loaded object, or in the libraries that it needs. */
static void *found_through(const char *file, const char *name)
{
    void *handle = real.dlopen(file, RTLD_LAZY | RTLD_NOLOAD), *found = NULL;
    if (handle) {
        found = dlsym(handle, name);
        dlclose(handle); /* whoever had it loaded keeps it */
    }
    return found;
}

struct nth_object {
    size_t left; /* objects before it */
    char *file;  /* room for PATH_MAX bytes */
};

static int take_nth(struct dl_phdr_info *object, size_t size, void *context)
{
    struct nth_object *nth = context;
    (void)size;
    if (nth->left-- > 0)
        return 0;
    strncpy(nth->file, object->dlpi_name ? object->dlpi_name : "", PATH_MAX - 1);
    return 1;
}

/* One by one, for within dl_iterate_phdr nothing may be opened. */
static void *search_objects(const char *name, const void *ours, char *file)
{
    for (size_t i = 0; i < OBJECTS_MAX; i++) {
        struct nth_object nth = {i, file};
        if (!dl_iterate_phdr(take_nth, &nth))
            break;
        void *found = file[0] ? found_through(file, name) : NULL;
        if (found && found != ours)
            return found;
    }
    return NULL;
}

/* The names of files are longer than a thread's stack may have room for. */
static void *found_anywhere(const char *name, const void *ours)
{
    char *file = mmap(NULL, PATH_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (file == MAP_FAILED)
        return NULL;
    void *found = search_objects(name, ours, file);
    munmap(file, PATH_MAX);
    return found;
}

/* A library of the global scope would stay for a caller that is bound to it; now the caller is bound to us. */
static void keep_loaded(const void *function)
{
    Dl_info object;
    if (dladdr(function, &object) && object.dli_fname)
        real.dlopen(object.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

static void *look_up(const char *name, const void *caller, const void *ours)
{
    Dl_info object;
    void *found = NULL;
    if (dladdr(caller, &object) && object.dli_fname)
        found = found_through(object.dli_fname, name);
    if (found && found != ours)
        return found; /* the caller needs its library, and keeps it */
    found = dlsym(RTLD_NEXT, name);
    if (!found || found == ours)
        found = dlsym(RTLD_DEFAULT, name);
    if (!found || found == ours)
        return found_anywhere(name, ours);
    keep_loaded(found);
    return found;
}

/* What a place says; in whole words, whatever a pointer's size is. */
struct found {
    uint64_t unloads; /* what the linker had unloaded when it was looked up */
    uint64_t caller, function;
};
_Static_assert(sizeof((struct foreign_caller *)0)->found == sizeof(struct found), "it fits");

/* False: it is just being written. */
static bool read_place(const struct foreign_caller *place, uint32_t *version, struct found *found)
{
    if (!seqlock_look(&place->lock, version))
        return false;
    words_load(found, place->found, WORDS(struct found));
    return seqlock_stands(&place->lock, *version);
}

static void write_place(struct foreign_caller *place, uint32_t version, const struct found *found)
{
    const uint32_t mine = seqlock_begin(&place->lock, version);
    if (mine == 0)
        return; /* somebody else took it */
    words_store(place->found, found, WORDS(struct found));
    seqlock_end(&place->lock, mine);
}

uintptr_t foreign_function(struct foreign_callers *callers, const char *name, const void *caller, const void *ours)
{
    struct found found;
    struct foreign_caller *free_place = NULL;
    const uint64_t unloads = count_unloads();
    uint32_t version, free_version = 0;
    for (size_t i = 0; i < FOREIGN_CALLERS; i++) {
        struct foreign_caller *place = &callers->at[i];
        if (!read_place(place, &version, &found))
            continue;
        if (version != 0 && found.unloads == unloads) {
            if (found.caller == (uintptr_t)caller)
                return (uintptr_t)found.function;
            continue;
        }
        if (!free_place) { /* never used, or of a time that is over */
            free_place = place;
            free_version = version;
        }
        if (version == 0)
            break; /* nor are those behind it */
    }
    found = (struct found){unloads, (uintptr_t)caller, (uintptr_t)look_up(name, caller, ours)};
    if (found.function != 0 && free_place)
        write_place(free_place, free_version, &found);
    return (uintptr_t)found.function;
}
