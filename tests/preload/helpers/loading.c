/* loading.c - a library that loads a plugin by its bare name: the plugin is found through its own search path. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

void *load_plugin(void)
{
    return dlopen("deep.so", RTLD_NOW);
}

/* With the rest of the function after the call, as compilers like it: not a jump. */
int loads_plugin(void)
{
    void *plugin = dlopen("deep.so", RTLD_NOW | RTLD_LOCAL);
    return plugin && dlsym(plugin, "deep_connect") != NULL && dlclose(plugin) == 0;
}

void *load_plugin_into(long space)
{
    return dlmopen(space, "deep.so", RTLD_NOW);
}
