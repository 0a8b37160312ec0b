/* Device memory by the CUDA driver in OXMPI_TEST_CUDA, or libcuda.so.1. It is opened at run
 * time, so compiling needs no toolkit. */
#ifndef DEVICE_H
#define DEVICE_H

#include <dlfcn.h>

typedef uint64_t device;

static struct {
    void *library;
    int (*init)(unsigned), (*get)(int *, int), (*retain)(void **, int), (*current)(void *);
    int (*alloc)(device *, size_t), (*managed)(device *, size_t, unsigned), (*free)(device);
    int (*to_host)(void *, device, size_t), (*to_device)(device, const void *, size_t);
    void *context;
} cuda;

/* Makes a context current in this thread. */
static inline int device_use(void) { return cuda.current(cuda.context); }

/* Opens the driver; returns the reason if it cannot be used, or null. */
static inline const char *device_open(void)
{
    const char *name = getenv("OXMPI_TEST_CUDA");
    cuda.library = dlopen(name ? name : "libcuda.so.1", RTLD_NOW);
    if (!cuda.library) return dlerror();
#define FIND(field, symbol) if (!(*(void **) &cuda.field = dlsym(cuda.library, symbol))) return "no " symbol
    FIND(init, "cuInit");
    FIND(get, "cuDeviceGet");
    FIND(retain, "cuDevicePrimaryCtxRetain");
    FIND(current, "cuCtxSetCurrent");
    FIND(alloc, "cuMemAlloc_v2");
    FIND(managed, "cuMemAllocManaged");
    FIND(free, "cuMemFree_v2");
    FIND(to_host, "cuMemcpyDtoH_v2");
    FIND(to_device, "cuMemcpyHtoD_v2");
#undef FIND
    int number;
    if (cuda.init(0)) return "cuInit fails";
    if (cuda.get(&number, 0) || cuda.retain(&cuda.context, number)) return "there is no device";
    return device_use() ? "the context does not become current" : NULL;
}

static inline void *device_new(size_t len)
{
    device at = 0;
    CHECK_EQ(cuda.alloc(&at, len ? len : 1), 0);
    return (void *) (uintptr_t) at;
}
static inline void device_end(void *at) { CHECK_EQ(cuda.free((device) (uintptr_t) at), 0); }
static inline void device_put(void *at, const void *from, size_t len)
{
    if (len) CHECK_EQ(cuda.to_device((device) (uintptr_t) at, from, len), 0);
}
static inline void device_take(void *to, const void *at, size_t len)
{
    if (len) CHECK_EQ(cuda.to_host(to, (device) (uintptr_t) at, len), 0);
}

#endif
