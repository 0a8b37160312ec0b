/* A CUDA driver without a device, to test how buffers on a device are treated where there is none. Its device memory is mapped twice: at the
 * address that the program gets nothing can be read or written, as with a device, so a load or store there ends the program; the
 * driver copies through the other mapping. Copies in streams are made when the stream is synchronised and not before, so that whoever does
 * not wait for them gets wrong data.
 *
 * The environment makes it fail: FAKE_CUDA_FAIL_AFTER=N lets N copies succeed, FAKE_CUDA_NO_CONTEXT=1 lets no context become current,
 * FAKE_CUDA_NO_DEVICE=1 lets cuInit fail, FAKE_CUDA_OLD=1 knows no more attributes of addresses than drivers before CUDA 9.2. A stream that
 * waits for the default one is refused. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int CUresult;
typedef uint64_t CUdeviceptr;
enum { SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, NO_DEVICE = 100, INVALID_CONTEXT = 201, ILLEGAL_ADDRESS = 700, NOT_REGISTERED = 713 };
enum { HOST = 1, DEVICE = 2, NON_BLOCKING = 1 };
enum { MOST = 4096, DEPTH = 16 };

static struct { char *device, *alias; size_t len; int managed; } allocated[MOST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int context_object, initialised, copies, queued, query_error;
static const char *pinned[MOST];
static __thread void *stack[DEPTH];
static __thread int depth;

struct rows {
    size_t sx, sy; unsigned skind; const void *shost; CUdeviceptr sdevice; void *sarray; size_t spitch;
    size_t dx, dy; unsigned dkind; void *dhost; CUdeviceptr ddevice; void *darray; size_t dpitch;
    size_t width, height;
};
/* A copy that has not been made yet. */
struct stream { struct rows rows; int is_used; };

static int number(const char *name, int otherwise) { const char *text = getenv(name); return text ? atoi(text) : otherwise; }

/* Where the driver itself reaches device memory; null: it is none, or ends before. */
static char *alias_of(CUdeviceptr at, size_t len)
{
    for (int i = 0; i < MOST; i++) {
        CUdeviceptr first = (CUdeviceptr) allocated[i].device;
        if (first && at >= first && at + len <= first + allocated[i].len) return allocated[i].alias + (at - first);
    }
    return NULL;
}

static CUresult copy(void *host, CUdeviceptr device, size_t len, int is_read)
{
    if (!initialised) return NOT_INITIALIZED;
    if (!depth || !stack[depth - 1]) return INVALID_CONTEXT;
    pthread_mutex_lock(&lock);
    char *alias = alias_of(device, len);
    int fails = copies++ >= number("FAKE_CUDA_FAIL_AFTER", 1 << 30);
    if (alias && !fails) memcpy(is_read ? host : alias, is_read ? alias : host, len);
    pthread_mutex_unlock(&lock);
    return fails ? ILLEGAL_ADDRESS : alias ? SUCCESS : INVALID_VALUE;
}

static CUresult allocate(CUdeviceptr *device, size_t len, int managed)
{
    if (!initialised) return NOT_INITIALIZED;
    size_t room = (len + 65535) / 65536 * 65536;
    int file = memfd_create("device", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, (off_t) room)) return OUT_OF_MEMORY;
    char *alias = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    char *own = managed ? alias : mmap(NULL, room, PROT_NONE, MAP_SHARED, file, 0);
    close(file);
    if (alias == MAP_FAILED || own == MAP_FAILED) return OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < MOST && allocated[i].device) i++;
    if (i < MOST) { allocated[i].alias = alias; allocated[i].len = len; allocated[i].managed = managed; allocated[i].device = own; }
    pthread_mutex_unlock(&lock);
    *device = (CUdeviceptr) own;
    return i < MOST ? SUCCESS : OUT_OF_MEMORY;
}

CUresult cuInit(unsigned flags) { (void) flags; if (number("FAKE_CUDA_NO_DEVICE", 0)) return NO_DEVICE; initialised = 1; return SUCCESS; }
CUresult cuDriverGetVersion(int *version) { *version = 12040; return SUCCESS; }
CUresult cuGetErrorString(CUresult error, const char **text) { *text = error == ILLEGAL_ADDRESS ? "an illegal memory access was encountered" : NULL; return *text ? SUCCESS : INVALID_VALUE; }
CUresult cuDeviceGet(int *device, int ordinal) { *device = ordinal; return initialised ? SUCCESS : NOT_INITIALIZED; }
CUresult cuDevicePrimaryCtxRetain(void **context, int device) { (void) device; *context = &context_object; return initialised ? SUCCESS : NOT_INITIALIZED; }
CUresult cuCtxSetCurrent(void *context) { if (depth == 0) depth = 1; stack[depth - 1] = context; return SUCCESS; }
CUresult cuCtxPushCurrent_v2(void *context)
{
    if (number("FAKE_CUDA_NO_CONTEXT", 0) || context != &context_object || depth == DEPTH) return INVALID_CONTEXT;
    stack[depth++] = context;
    return SUCCESS;
}
CUresult cuCtxPopCurrent_v2(void **context) { if (!depth) return INVALID_CONTEXT; *context = stack[--depth]; return SUCCESS; }
CUresult cuMemAlloc_v2(CUdeviceptr *device, size_t len) { return allocate(device, len, 0); }
CUresult cuMemAllocManaged(CUdeviceptr *device, size_t len, unsigned flags) { (void) flags; return allocate(device, len, 1); }
CUresult cuMemFree_v2(CUdeviceptr device)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST; i++) if ((CUdeviceptr) allocated[i].device == device) {
        size_t room = (allocated[i].len + 65535) / 65536 * 65536;
        munmap(allocated[i].alias, room);
        if (!allocated[i].managed) munmap(allocated[i].device, room);
        allocated[i].device = NULL;
        break;
    }
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}
CUresult cuPointerGetAttributes(unsigned many, const int *attributes, void **places, CUdeviceptr at)
{
    if (!initialised) return NOT_INITIALIZED;
    if (query_error) return query_error;
    pthread_mutex_lock(&lock);
    int found = -1;
    for (int i = 0; i < MOST; i++) {
        CUdeviceptr first = (CUdeviceptr) allocated[i].device;
        if (first && at >= first && at < first + allocated[i].len) found = i;
    }
    for (unsigned i = 0; i < many; i++) switch (attributes[i]) {
        case 1: *(void **) places[i] = found < 0 ? NULL : &context_object; break;
        case 2: *(unsigned *) places[i] = found < 0 ? 0 : DEVICE; break;
        case 8: *(unsigned *) places[i] = found >= 0 && allocated[found].managed; break;
        case 9: if (number("FAKE_CUDA_OLD", 0)) { pthread_mutex_unlock(&lock); return INVALID_VALUE; } *(int *) places[i] = found < 0 ? -2 : 0; break;
        default: pthread_mutex_unlock(&lock); return INVALID_VALUE;
    }
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}
CUresult cuMemcpyDtoH_v2(void *host, CUdeviceptr device, size_t len) { return copy(host, device, len, 1); }
CUresult cuMemcpyHtoD_v2(CUdeviceptr device, const void *host, size_t len) { return copy((void *) host, device, len, 0); }
static CUresult copy_rows(const struct rows *rows)
{
    int is_read = rows->skind == DEVICE && rows->dkind == HOST;
    if (!is_read && !(rows->skind == HOST && rows->dkind == DEVICE)) return INVALID_VALUE;
    for (size_t row = 0; row < rows->height; row++) {
        CUresult done = is_read ? copy((char *) rows->dhost + row * rows->dpitch, rows->sdevice + row * rows->spitch, rows->width, 1)
                                : copy((char *) rows->shost + row * rows->spitch, rows->ddevice + row * rows->dpitch, rows->width, 0);
        if (done) return done;
    }
    return SUCCESS;
}
CUresult cuStreamCreate(void **stream, unsigned flags)
{
    if (flags != NON_BLOCKING) return INVALID_VALUE;
    return (*stream = calloc(1, sizeof(struct stream))) ? SUCCESS : OUT_OF_MEMORY;
}
CUresult cuStreamSynchronize(void *handle)
{
    struct stream *stream = handle;
    if (!stream->is_used) return SUCCESS;
    stream->is_used = 0;
    return copy_rows(&stream->rows);
}
CUresult cuStreamDestroy_v2(void *stream) { free(stream); return SUCCESS; }
/* A stream without room for another copy makes the one before. */
CUresult cuMemcpy2DAsync_v2(const struct rows *rows, void *handle)
{
    struct stream *stream = handle;
    CUresult before = cuStreamSynchronize(stream);
    *stream = (struct stream) {*rows, 1};
    return before;
}
static CUresult later(void *host, CUdeviceptr device, size_t len, void *stream, int is_read)
{
    struct rows rows = {.skind = is_read ? DEVICE : HOST, .shost = host, .sdevice = device, .spitch = len,
                        .dkind = is_read ? HOST : DEVICE, .dhost = host, .ddevice = device, .dpitch = len, .width = len, .height = 1};
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST; i++) if (pinned[i] == host) { queued++; break; }
    pthread_mutex_unlock(&lock);
    return cuMemcpy2DAsync_v2(&rows, stream);
}
CUresult cuMemcpyDtoHAsync_v2(void *host, CUdeviceptr device, size_t len, void *stream) { return later(host, device, len, stream, 1); }
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr device, const void *host, size_t len, void *stream) { return later((void *) host, device, len, stream, 0); }
static CUresult pin(const void *from, const void *to, CUresult otherwise)
{
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < MOST && pinned[i] != from) i++;
    if (i < MOST) pinned[i] = to;
    pthread_mutex_unlock(&lock);
    return i < MOST ? SUCCESS : otherwise;
}
CUresult cuMemHostRegister_v2(void *at, size_t len, unsigned flags) { (void) len; (void) flags; return pin(NULL, at, OUT_OF_MEMORY); }
CUresult cuMemHostUnregister(void *at) { return pin(at, NULL, NOT_REGISTERED); }

/* For tests: how many copies from and to pinned memory there were. */
int fake_cuda_queued(void) { return queued; }
/* For tests: what each query for an address says from now on; 0: what is so. */
void fake_cuda_fail_queries(int error) { query_error = error; }
