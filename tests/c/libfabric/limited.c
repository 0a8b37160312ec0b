/* A libfabric with fewer features than the real one behind it: missing features of a test's
 * provider are really missing, and a caller that uses one is aborted. mtl_ofi_library names it; it
 * reads from the environment
 *
 *   LIMITED_TAG_BITS      the number of usable bits of a tag, the lowest ones
 *   LIMITED_NO_DATA       no remote CQ data (FI_REMOTE_CQ_DATA)
 *   LIMITED_NO_DIRECTED   no receives from one source by its address (FI_DIRECTED_RECV)
 *   LIMITED_MAX           the longest message, bytes; checked for messages with a tag
 *   LIMITED_CONTEXTS      the most transmit and receive contexts of an endpoint
 *   LIMITED_EVENTS        the number of completions for which each read of a queue must have room
 *   LIMITED_REAL, LIMITED_NAME   the name of a provider, and the name to show in its place
 *
 * Built by: cc -shared -fPIC limited.c -ldl, with the headers of libfabric. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *real(const char *symbol)
{
    static void *library;
    if (!library) library = dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
    void *found = library ? dlsym(library, symbol) : NULL;
    if (!found) {
        fprintf(stderr, "limited: libfabric.so.1 has no %s: %s\n", symbol, dlerror());
        abort();
    }
    return found;
}

static void wrong(const char *text, ...)
{
    va_list list;
    va_start(list, text);
    fputs("limited: ", stderr);
    vfprintf(stderr, text, list);
    fputc('\n', stderr);
    va_end(list);
    abort();
}

static int is_set(const char *name)
{
    return getenv(name) != NULL;
}

static size_t number(const char *name)
{
    return (size_t) atoll(getenv(name));
}

static uint64_t tags(void)
{
    const char *bits = getenv("LIMITED_TAG_BITS");
    return bits && atoi(bits) < 64 ? (UINT64_C(1) << atoi(bits)) - 1 : UINT64_MAX;
}

static size_t longest(void)
{
    const char *most = getenv("LIMITED_MAX");
    return most ? (size_t) atoll(most) : SIZE_MAX;
}

uint32_t fi_version(void)
{
    return ((uint32_t(*)(void)) real("fi_version"))();
}

void fi_freeinfo(struct fi_info *info)
{
    ((void (*)(struct fi_info *)) real("fi_freeinfo"))(info);
}

struct fi_info *fi_dupinfo(const struct fi_info *info)
{
    return ((struct fi_info * (*) (const struct fi_info *) ) real("fi_dupinfo"))(info);
}

const char *fi_strerror(int error)
{
    return ((const char *(*) (int) ) real("fi_strerror"))(error);
}

static void rename_provider(struct fi_info *info, const char *from, const char *to)
{
    if (!from || !to || !info->fabric_attr || !info->fabric_attr->prov_name) return;
    if (strcmp(info->fabric_attr->prov_name, from) != 0) return;
    free(info->fabric_attr->prov_name);
    info->fabric_attr->prov_name = strdup(to);
}

int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints, struct fi_info **out)
{
    int (*ask)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **) = real("fi_getinfo");
    if (hints && is_set("LIMITED_NO_DIRECTED") && hints->caps & FI_DIRECTED_RECV) return -FI_ENODATA;
    struct fi_info *wish = hints ? fi_dupinfo(hints) : NULL;
    if (wish) rename_provider(wish, getenv("LIMITED_NAME"), getenv("LIMITED_REAL"));
    int answer = ask(version, node, service, flags, wish, out);
    if (wish) fi_freeinfo(wish);
    if (answer) return answer;
    for (struct fi_info *info = *out; info; info = info->next) {
        rename_provider(info, getenv("LIMITED_REAL"), getenv("LIMITED_NAME"));
        info->ep_attr->mem_tag_format &= tags();
        if (is_set("LIMITED_NO_DATA")) info->domain_attr->cq_data_size = 0;
        if (info->ep_attr->max_msg_size > longest()) info->ep_attr->max_msg_size = longest();
        if (is_set("LIMITED_CONTEXTS")) info->domain_attr->max_ep_tx_ctx = info->domain_attr->max_ep_rx_ctx = number("LIMITED_CONTEXTS");
    }
    return 0;
}

static struct fi_ops_tagged checked, *plain;
static struct fi_ops_domain of_domain, *real_of_domain;
static struct fi_ops_fabric of_fabric, *real_of_fabric;

static void check_tag(const char *call, uint64_t tag, size_t length)
{
    if (tag & ~tags()) wrong("%s uses the tag %#" PRIx64 ", of which only %#" PRIx64 " may be used", call, tag, tags());
    if (length > longest()) wrong("%s of %zu bytes, the longest message has %zu", call, length, longest());
}

static void check_source(const char *call, fi_addr_t from)
{
    if (is_set("LIMITED_NO_DIRECTED") && from != FI_ADDR_UNSPEC) wrong("%s names its source", call);
}

static ssize_t checked_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t to, uint64_t tag, void *context)
{
    check_tag("fi_tsend", tag, len);
    return plain->send(ep, buf, len, desc, to, tag, context);
}

static ssize_t checked_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t to, uint64_t tag,
                                void *context)
{
    check_tag("fi_tsenddata", tag, len);
    if (is_set("LIMITED_NO_DATA")) wrong("fi_tsenddata sends data beside a message");
    return plain->senddata(ep, buf, len, desc, data, to, tag, context);
}

static ssize_t checked_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t from, uint64_t tag, uint64_t ignore, void *context)
{
    check_tag("fi_trecv", tag | ignore, 0);
    check_source("fi_trecv", from);
    return plain->recv(ep, buf, len, desc, from, tag, ignore, context);
}

static ssize_t checked_recvmsg(struct fid_ep *ep, const struct fi_msg_tagged *message, uint64_t flags)
{
    check_tag("fi_trecvmsg", message->tag | message->ignore, 0);
    check_source("fi_trecvmsg", message->addr);
    return plain->recvmsg(ep, message, flags);
}

static int limited_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
    int answer = real_of_domain->endpoint(domain, info, ep, context);
    if (answer) return answer;
    plain = (*ep)->tagged;
    checked = *plain;
    checked.send = checked_send;
    checked.senddata = checked_senddata;
    checked.recv = checked_recv;
    checked.recvmsg = checked_recvmsg;
    (*ep)->tagged = &checked;
    return 0;
}

static struct fi_ops_cq of_queue, *real_of_queue;

static ssize_t checked_read(struct fid_cq *queue, void *entries, size_t count)
{
    /* The provider itself reads no entries, to make progress. */
    if (count && count != number("LIMITED_EVENTS")) wrong("fi_cq_read of %zu completions, not %s", count, getenv("LIMITED_EVENTS"));
    return real_of_queue->read(queue, entries, count);
}

static int limited_queue(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **queue, void *context)
{
    int answer = real_of_domain->cq_open(domain, attr, queue, context);
    if (answer || !is_set("LIMITED_EVENTS")) return answer;
    real_of_queue = (*queue)->ops;
    of_queue = *real_of_queue;
    of_queue.read = checked_read;
    (*queue)->ops = &of_queue;
    return 0;
}

static int limited_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context)
{
    rename_provider(info, getenv("LIMITED_NAME"), getenv("LIMITED_REAL"));
    int answer = real_of_fabric->domain(fabric, info, domain, context);
    if (answer) return answer;
    real_of_domain = (*domain)->ops;
    of_domain = *real_of_domain;
    of_domain.endpoint = limited_endpoint;
    of_domain.cq_open = limited_queue;
    (*domain)->ops = &of_domain;
    return 0;
}

int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
    struct fi_info info = {.fabric_attr = attr};
    rename_provider(&info, getenv("LIMITED_NAME"), getenv("LIMITED_REAL"));
    int answer = ((int (*)(struct fi_fabric_attr *, struct fid_fabric **, void *)) real("fi_fabric"))(attr, fabric, context);
    if (answer) return answer;
    real_of_fabric = (*fabric)->ops;
    of_fabric = *real_of_fabric;
    of_fabric.domain = limited_domain;
    (*fabric)->ops = &of_fabric;
    return 0;
}
