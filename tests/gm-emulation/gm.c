/* The calls of GM 2 (Myrinet) that OxMPI uses, over local sockets between processes: Myrinet hardware and its library cannot be had any more.
 * It follows what GM's manual and the public header gm.h say: tokens, sizes, priorities, callbacks from gm_unknown() alone, order within a
 * priority and a pair of ports, messages that come while the program does not call GM, as a thread stands for the interface's processor.
 * A client that breaks the rules (no token, a message longer than its size, a put or get whose own memory is not registered) is aborted
 * with a sentence. A put or get of memory that is not registered at the target is rejected. Memory that is deregistered while it
 * is used is sent as bytes of 0xaa, and what is to be received there is discarded. Nothing is left of a port that was closed.
 *
 * What the environment sets:
 *   GM_EMULATION_NETWORK             a name; ports see only those of the same network
 *   GM_EMULATION_PORTS               ports of the interface (16); 0, 1 and 3 are the driver's, the mapper's and IP's
 *   GM_EMULATION_SEND_TOKENS         of each port (16)
 *   GM_EMULATION_RECEIVE_TOKENS      of each port (64)
 *   GM_EMULATION_REGISTERED          bytes that each port registers at most (no limit)
 *   GM_EMULATION_CALLBACK_MS         how much later a callback comes (0)
 *   GM_EMULATION_TIMEOUT_MS          after which time a send fails that is not accepted (30000)
 *   GM_EMULATION_VANISH=PORT:COUNT   the interface of this port is cut off after that many packets
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum {
    GM_SUCCESS = 0, GM_FAILURE = 1, GM_BUSY = 5, GM_INVALID_PARAMETER = 8, GM_OUT_OF_MEMORY = 9, GM_SEND_TIMED_OUT = 15,
    GM_SEND_REJECTED = 16, GM_SEND_TARGET_PORT_CLOSED = 17, GM_SEND_TARGET_NODE_UNREACHABLE = 18, GM_SEND_DROPPED = 19,
    GM_NO_SUCH_DEVICE = 24, GM_INVALID_PORT_NUMBER = 42
};
enum { NO_RECV_EVENT = 0, ALARM_EVENT = 2, RECV_EVENT = 11, FAST_OFFSET = 4, SENT_TOKENS_EVENT = 29 };
enum { DATA, PUT, GET, ACK };
enum { TAKEN, NO_BUFFER, REJECTED };
enum { FRAGMENT = 32 << 10, FAST_MOST = 128, NODE = 1, GLOBAL = 0x1000, MILLISECOND = 1000000, RETRY_MS = 20 };

struct gm_port;
typedef void (*callback_t)(struct gm_port *, void *, int);

/* gm_recv_t of 64-bit machines; all numbers in network byte order. */
struct recv_event {
    uint8_t padding[32];
    uint64_t message, buffer;
    uint32_t reserved, length;
    uint16_t sender_node_id, reserved_after;
    uint8_t tag, size, sender_port_id, type;
};

struct packet {
    uint8_t kind, priority, size, status;
    uint32_t port;
    uint64_t incarnation, sequence, address;
    uint32_t total, offset, length, reserved;
};

struct operation {
    struct operation *next;
    int kind, status, is_sent, was_refused;
    unsigned size, priority, node, port;
    char *local;
    uint64_t remote, len, done, begun, retry_at, visible_at;
    callback_t callback;
    void *context;
};

/* An order of messages: to or from a port, of a priority. */
struct connection {
    unsigned port, priority;
    uint64_t incarnation, sequence;
    int is_disabled, is_busy;
    char *buffer;
    unsigned size, tag;
};

struct list { struct connection *all; unsigned len; };

struct buffer { char *start; unsigned size, priority, tag; };

struct range { char *start; size_t len; int is_own; };

struct received {
    struct received *next;
    struct recv_event event;
    char message[FAST_MOST];
};

struct gm_port {
    pthread_mutex_t lock;
    pthread_t thread;
    int socket, wake, is_ending, is_cut, allows;
    unsigned number, send_tokens, receive_tokens, most_receive_tokens, provided;
    uint64_t incarnation, acceptable[2];
    long vanish_after;
    struct buffer *buffers;
    struct range *ranges;
    unsigned range_count;
    uint64_t registered;
    struct list out, in;
    struct operation *queue, *done;
    struct received *events, current;
    struct operation *ended;
    unsigned polls;
};

static long setting(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text ? atol(text) : otherwise;
}

static void die(const char *why)
{
    fprintf(stderr, "gm emulation: %s\n", why);
    abort();
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t) time.tv_sec * 1000000000 + (uint64_t) time.tv_nsec;
}

static socklen_t address_of(unsigned port, struct sockaddr_un *address)
{
    const char *network = getenv("GM_EMULATION_NETWORK");
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    int len = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "gm-emulation-%u-%.60s-%u-%u", (unsigned) getuid(),
                       network ? network : "", NODE, port);
    return (socklen_t) (sizeof address->sun_family + 1 + (size_t) len);
}

static struct connection *connection(struct list *list, unsigned port, unsigned priority)
{
    for (unsigned i = 0; i < list->len; i++)
        if (list->all[i].port == port && list->all[i].priority == priority) return &list->all[i];
    list->all = realloc(list->all, (list->len + 1) * sizeof *list->all);
    struct connection *new = &list->all[list->len++];
    memset(new, 0, sizeof *new);
    new->port = port;
    new->priority = priority;
    return new;
}

static int is_registered(struct gm_port *p, const char *start, uint64_t len)
{
    for (unsigned i = 0; i < p->range_count; i++)
        if (start >= p->ranges[i].start && start + len <= p->ranges[i].start + p->ranges[i].len) return 1;
    return 0;
}

static void store(char *to, const char *from, size_t len)
{
    uint64_t word;
    if (len != 8 || (uintptr_t) to % 8) { memcpy(to, from, len); return; }
    memcpy(&word, from, 8);
    __atomic_store_n((uint64_t *) to, word, __ATOMIC_RELEASE);
}

/* Returns 0, or the errno. */
static int transmit(struct gm_port *p, unsigned port, struct packet *head, const char *data)
{
    struct sockaddr_un address;
    struct iovec parts[2] = {{head, sizeof *head}, {(char *) data, data ? head->length : 0}};
    struct msghdr message = {.msg_name = &address, .msg_namelen = address_of(port, &address), .msg_iov = parts, .msg_iovlen = 2};
    head->port = p->number;
    head->incarnation = p->incarnation;
    return sendmsg(p->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? errno : 0;
}

/* Takes an operation off the queue; its callback comes when the client has it from gm_receive(). */
static void finish(struct gm_port *p, struct operation *of, int status)
{
    struct operation **at;
    for (at = &p->queue; *at != of; at = &(*at)->next) {}
    *at = of->next;
    of->next = NULL;
    of->status = status;
    of->visible_at = now() + (uint64_t) setting("GM_EMULATION_CALLBACK_MS", 0) * MILLISECOND;
    for (at = &p->done; *at; at = &(*at)->next) {}
    *at = of;
    struct connection *order = connection(&p->out, of->port, of->priority);
    /* The number of a packet that may have arrived is not used again. */
    if (status != GM_SUCCESS && of->begun) order->sequence++;
    if (status != GM_SUCCESS && status != GM_SEND_DROPPED) order->is_disabled = 1;
}

/* Transmits what is first in each order, again if nothing has answered. Returns when to come back. */
static uint64_t advance(struct gm_port *p)
{
    char data[FRAGMENT];
    uint64_t time = now(), next = time + 1000 * (uint64_t) MILLISECOND;
    uint64_t limit = (uint64_t) setting("GM_EMULATION_TIMEOUT_MS", 30000) * MILLISECOND;
    for (unsigned i = 0; i < p->out.len; i++) p->out.all[i].is_busy = 0;
    for (struct operation *of = p->queue, *after; of; of = after) {
        after = of->next;
        struct connection *order = connection(&p->out, of->port, of->priority);
        if (order->is_disabled || order->is_busy) continue;
        order->is_busy = 1;
        if (!of->begun) of->begun = time;
        if (time - of->begun > limit) {
            finish(p, of, of->was_refused ? GM_SEND_TIMED_OUT : GM_SEND_TARGET_NODE_UNREACHABLE);
            continue;
        }
        if (time >= of->retry_at) {
            uint64_t left = of->len - of->done;
            struct packet head = {.kind = (uint8_t) of->kind, .priority = (uint8_t) of->priority, .size = (uint8_t) of->size,
                .sequence = order->sequence + 1, .address = of->remote + of->done, .total = (uint32_t) of->len,
                .offset = (uint32_t) of->done, .length = (uint32_t) (left < FRAGMENT ? left : FRAGMENT)};
            if (of->kind != GET) {
                if (is_registered(p, of->local, of->len)) memcpy(data, of->local + of->done, head.length);
                else memset(data, 0xaa, head.length);
            }
            int error = p->is_cut ? 0 : transmit(p, of->port, &head, of->kind == GET ? NULL : data);
            if (error == ECONNREFUSED || error == ENOENT) { finish(p, of, GM_SEND_TARGET_PORT_CLOSED); continue; }
            of->retry_at = time + (error ? 1 : RETRY_MS) * (uint64_t) MILLISECOND;
        }
        if (of->retry_at < next) next = of->retry_at;
    }
    return next;
}

static void answered(struct gm_port *p, const struct packet *head, const char *data)
{
    struct connection *order = connection(&p->out, head->port, head->priority);
    struct operation *of;
    for (of = p->queue; of && (of->port != head->port || of->priority != head->priority); of = of->next) {}
    if (!of || !of->begun || head->sequence != order->sequence + 1) return;
    if (head->status == REJECTED) {
        finish(p, of, GM_SEND_REJECTED);
    } else if (head->status == NO_BUFFER) {
        of->was_refused = 1;
        of->retry_at = now() + MILLISECOND;
    } else {
        order->sequence++;
        if (of->kind == GET && is_registered(p, of->local, of->len)) memcpy(of->local + of->done, data, head->length);
        of->done += head->length;
        of->begun = now();
        of->retry_at = 0;
        if (of->done >= of->len) finish(p, of, GM_SUCCESS);
    }
}

static void deliver(struct gm_port *p, const struct packet *head, struct connection *order)
{
    struct received *new = calloc(1, sizeof *new), **at;
    int is_fast = head->total <= FAST_MOST, is_peer = head->port == p->number;
    struct recv_event *event = &new->event;
    if (is_fast) memcpy(new->message, order->buffer, head->total);
    /* What a fast one has is in the receive queue, not in the buffer. */
    if (is_fast) memset(order->buffer, 0xee, head->total);
    event->buffer = htobe64((uint64_t) (uintptr_t) order->buffer);
    event->length = htobe32(head->total);
    event->sender_node_id = htobe16(NODE);
    event->sender_port_id = (uint8_t) head->port;
    event->size = head->size;
    event->tag = (uint8_t) order->tag;
    event->type = (uint8_t) (RECV_EVENT + (is_fast ? FAST_OFFSET : 0) + (is_peer ? 2 : 0) + head->priority);
    for (at = &p->events; *at; at = &(*at)->next) {}
    *at = new;
    order->buffer = NULL;
}

/* What has begun to come and does not go on: its buffer is there for others. */
static void give_back(struct gm_port *p, struct connection *order)
{
    if (order->buffer) p->buffers[p->provided++] = (struct buffer) {order->buffer, order->size, order->priority, order->tag};
    order->buffer = NULL;
}

static int accept_data(struct gm_port *p, const struct packet *head, const char *data, struct connection *order)
{
    if (head->offset == 0) {
        give_back(p, order);
        if (!(p->acceptable[head->priority & 1] >> head->size & 1)) return REJECTED;
        unsigned at;
        for (at = 0; at < p->provided; at++)
            if (p->buffers[at].size == head->size && p->buffers[at].priority == head->priority) break;
        if (at == p->provided) return NO_BUFFER;
        order->buffer = p->buffers[at].start;
        order->size = head->size;
        order->tag = p->buffers[at].tag;
        memmove(&p->buffers[at], &p->buffers[at + 1], (p->provided - at - 1) * sizeof *p->buffers);
        p->provided--;
    }
    if (is_registered(p, order->buffer, head->total)) memcpy(order->buffer + head->offset, data, head->length);
    if (head->offset + head->length == head->total) deliver(p, head, order);
    return TAKEN;
}

static void take(struct gm_port *p, const struct packet *head, const char *data)
{
    if (head->kind == ACK) { answered(p, head, data); return; }
    struct connection *order = connection(&p->in, head->port, head->priority);
    if (order->incarnation != head->incarnation) {
        /* Another process has the port now. */
        give_back(p, order);
        order->incarnation = head->incarnation;
        order->sequence = head->sequence - 1;
    }
    struct packet answer = {.kind = ACK, .priority = head->priority, .status = TAKEN, .sequence = head->sequence, .length = head->length};
    char *here = (char *) (uintptr_t) head->address;
    char found[FRAGMENT];
    if (head->sequence > order->sequence) {
        if (head->kind == DATA) answer.status = (uint8_t) accept_data(p, head, data, order);
        else if (!p->allows || !is_registered(p, here, head->length)) answer.status = REJECTED;
        else if (head->kind == PUT) store(here, data, head->length);
        if (answer.status == TAKEN) order->sequence = head->sequence;
    }
    if (head->kind == GET) {
        /* Also for a second time, as the first answer may have been lost. */
        if (!p->allows || !is_registered(p, here, head->length)) answer.status = REJECTED;
        else memcpy(found, here, head->length);
    }
    /* One that finds no room is made good by the sender's next attempt. */
    transmit(p, head->port, &answer, head->kind == GET && answer.status == TAKEN ? found : NULL);
}

static void *work(void *of)
{
    struct gm_port *p = of;
    char bytes[sizeof(struct packet) + FRAGMENT];
    uint64_t count;
    for (;;) {
        pthread_mutex_lock(&p->lock);
        if (p->is_ending) { pthread_mutex_unlock(&p->lock); return NULL; }
        uint64_t time = now(), next = advance(p);
        pthread_mutex_unlock(&p->lock);
        struct pollfd fds[2] = {{p->socket, POLLIN, 0}, {p->wake, POLLIN, 0}};
        poll(fds, 2, next > time ? (int) ((next - time) / MILLISECOND) + 1 : 0);
        if (fds[1].revents && read(p->wake, &count, sizeof count) < 0) {}
        for (;;) {
            ssize_t len = recv(p->socket, bytes, sizeof bytes, MSG_DONTWAIT);
            if (len < (ssize_t) sizeof(struct packet)) break;
            pthread_mutex_lock(&p->lock);
            if (p->vanish_after >= 0 && p->vanish_after-- == 0) p->is_cut = 1;
            if (!p->is_cut) take(p, (struct packet *) bytes, bytes + sizeof(struct packet));
            if (!p->is_cut) advance(p);
            pthread_mutex_unlock(&p->lock);
        }
    }
}

static void wake(struct gm_port *p)
{
    uint64_t one = 1;
    if (write(p->wake, &one, sizeof one) < 0) {}
}

int gm_init(void) { return GM_SUCCESS; }
void gm_finalize(void) {}

int gm_open(struct gm_port **to, unsigned unit, unsigned number, const char *name, int version)
{
    struct sockaddr_un address;
    sigset_t all, before;
    if (unit != 0) return GM_NO_SUCH_DEVICE;
    if (number >= (unsigned) setting("GM_EMULATION_PORTS", 16)) return GM_INVALID_PORT_NUMBER;
    if (!name || version < 0x100) return GM_INVALID_PARAMETER;
    if (number <= 1 || number == 3) return GM_BUSY;
    struct gm_port *p = calloc(1, sizeof *p);
    pthread_mutex_init(&p->lock, NULL);
    p->number = number;
    p->send_tokens = (unsigned) setting("GM_EMULATION_SEND_TOKENS", 16);
    p->receive_tokens = p->most_receive_tokens = (unsigned) setting("GM_EMULATION_RECEIVE_TOKENS", 64);
    p->buffers = calloc(p->receive_tokens, sizeof *p->buffers);
    p->acceptable[0] = p->acceptable[1] = ~0ull;
    p->vanish_after = -1;
    const char *vanish = getenv("GM_EMULATION_VANISH"), *count = vanish ? strchr(vanish, ':') : NULL;
    if (count && (unsigned) atoi(vanish) == number) p->vanish_after = atol(count + 1);
    if (getrandom(&p->incarnation, sizeof p->incarnation, 0) < 0) return GM_FAILURE;
    p->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int room = 4 << 20;
    setsockopt(p->socket, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    socklen_t len = address_of(number, &address);
    if (p->socket < 0 || p->wake < 0 || bind(p->socket, (struct sockaddr *) &address, len) < 0) {
        int status = errno == EADDRINUSE ? GM_BUSY : GM_FAILURE;
        close(p->socket);
        close(p->wake);
        free(p->buffers);
        free(p);
        return status;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&p->thread, NULL, work, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) die("no thread can be made");
    *to = p;
    return GM_SUCCESS;
}

void gm_close(struct gm_port *p)
{
    pthread_mutex_lock(&p->lock);
    p->is_ending = 1;
    pthread_mutex_unlock(&p->lock);
    wake(p);
    pthread_join(p->thread, NULL);
    close(p->socket);
    close(p->wake);
    for (unsigned i = 0; i < p->range_count; i++)
        if (p->ranges[i].is_own) munmap(p->ranges[i].start, p->ranges[i].len);
    for (struct operation *of = p->queue, *next; of; of = next) { next = of->next; free(of); }
    for (struct operation *of = p->done, *next; of; of = next) { next = of->next; free(of); }
    for (struct received *of = p->events, *next; of; of = next) { next = of->next; free(of); }
    free(p->ended);
    free(p->out.all);
    free(p->in.all);
    free(p->ranges);
    free(p->buffers);
    free(p);
}

unsigned gm_num_ports(struct gm_port *p) { return p ? (unsigned) setting("GM_EMULATION_PORTS", 16) : 0; }
unsigned gm_num_send_tokens(struct gm_port *p) { return p ? (unsigned) setting("GM_EMULATION_SEND_TOKENS", 16) : 0; }
unsigned gm_num_receive_tokens(struct gm_port *p) { return p->most_receive_tokens; }

unsigned gm_min_size_for_length(unsigned long length)
{
    unsigned size = 3;
    while ((1ul << size) < length + 8) size++;
    return size;
}

unsigned long gm_max_length_for_size(unsigned size) { return (1ul << size) - 8; }

int gm_get_node_id(struct gm_port *p, unsigned *node) { *node = NODE; return p ? GM_SUCCESS : GM_INVALID_PARAMETER; }

int gm_node_id_to_global_id(struct gm_port *p, unsigned node, unsigned *global)
{
    *global = GLOBAL + node;
    return p && node == NODE ? GM_SUCCESS : GM_INVALID_PARAMETER;
}

int gm_global_id_to_node_id(struct gm_port *p, unsigned global, unsigned *node)
{
    *node = global - GLOBAL;
    return p && *node == NODE ? GM_SUCCESS : GM_INVALID_PARAMETER;
}

static void add_range(struct gm_port *p, char *start, size_t len, int is_own)
{
    p->ranges = realloc(p->ranges, (p->range_count + 1) * sizeof *p->ranges);
    p->ranges[p->range_count++] = (struct range) {start, len, is_own};
}

static int remove_range(struct gm_port *p, char *start, size_t len, int is_own)
{
    for (unsigned i = 0; i < p->range_count; i++) {
        struct range of = p->ranges[i];
        if (of.start != start || of.is_own != is_own || (!is_own && of.len != len)) continue;
        p->ranges[i] = p->ranges[--p->range_count];
        if (is_own) munmap(start, of.len);
        return GM_SUCCESS;
    }
    return GM_INVALID_PARAMETER;
}

void *gm_dma_malloc(struct gm_port *p, unsigned long len)
{
    len = (len + 4095) & ~4095ul;
    char *start = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return NULL;
    pthread_mutex_lock(&p->lock);
    add_range(p, start, len, 1);
    pthread_mutex_unlock(&p->lock);
    return start;
}

void gm_dma_free(struct gm_port *p, void *start)
{
    pthread_mutex_lock(&p->lock);
    remove_range(p, start, 0, 1);
    pthread_mutex_unlock(&p->lock);
}

int gm_register_memory(struct gm_port *p, void *start, unsigned long len)
{
    pthread_mutex_lock(&p->lock);
    int fits = p->registered + len <= (uint64_t) setting("GM_EMULATION_REGISTERED", LONG_MAX);
    if (fits) {
        p->registered += len;
        add_range(p, start, len, 0);
    }
    pthread_mutex_unlock(&p->lock);
    return fits ? GM_SUCCESS : GM_OUT_OF_MEMORY;
}

int gm_deregister_memory(struct gm_port *p, void *start, unsigned long len)
{
    pthread_mutex_lock(&p->lock);
    int status = remove_range(p, start, len, 0);
    if (status == GM_SUCCESS) p->registered -= len;
    pthread_mutex_unlock(&p->lock);
    return status;
}

int gm_allow_remote_memory_access(struct gm_port *p)
{
    pthread_mutex_lock(&p->lock);
    p->allows = 1;
    pthread_mutex_unlock(&p->lock);
    return GM_SUCCESS;
}

int gm_set_acceptable_sizes(struct gm_port *p, int priority, unsigned long mask)
{
    if (priority < 0 || priority > 1) return GM_INVALID_PARAMETER;
    pthread_mutex_lock(&p->lock);
    p->acceptable[priority] = mask;
    pthread_mutex_unlock(&p->lock);
    return GM_SUCCESS;
}

void gm_provide_receive_buffer_with_tag(struct gm_port *p, void *start, unsigned size, unsigned priority, unsigned tag)
{
    pthread_mutex_lock(&p->lock);
    if (p->receive_tokens == 0) die("a receive buffer was provided without a receive token");
    p->receive_tokens--;
    p->buffers[p->provided++] = (struct buffer) {start, size, priority, tag};
    pthread_mutex_unlock(&p->lock);
}

static void enqueue(struct gm_port *p, struct operation what)
{
    struct operation *new = malloc(sizeof *new), **at;
    *new = what;
    pthread_mutex_lock(&p->lock);
    if (p->send_tokens == 0) die("something was sent without a send token");
    if ((what.kind == PUT || what.kind == GET) && !is_registered(p, what.local, what.len)) die("memory of a put or get is not registered");
    p->send_tokens--;
    for (at = &p->queue; *at; at = &(*at)->next) {}
    *at = new;
    pthread_mutex_unlock(&p->lock);
    wake(p);
}

void gm_send_with_callback(struct gm_port *p, void *start, unsigned size, unsigned long len, unsigned priority, unsigned node,
                           unsigned port, callback_t callback, void *context)
{
    if (len > gm_max_length_for_size(size)) die("a message is longer than its size");
    enqueue(p, (struct operation) {.kind = DATA, .local = start, .size = size, .len = len, .priority = priority, .node = node,
                                   .port = port, .callback = callback, .context = context});
}

void gm_put(struct gm_port *p, void *start, uint64_t remote, unsigned long len, int priority, unsigned node, unsigned port,
            callback_t callback, void *context)
{
    enqueue(p, (struct operation) {.kind = PUT, .local = start, .remote = remote, .len = len, .priority = (unsigned) priority,
                                   .node = node, .port = port, .callback = callback, .context = context});
}

void gm_get(struct gm_port *p, uint64_t remote, void *start, unsigned long len, int priority, unsigned node, unsigned port,
            callback_t callback, void *context)
{
    enqueue(p, (struct operation) {.kind = GET, .local = start, .remote = remote, .len = len, .priority = (unsigned) priority,
                                   .node = node, .port = port, .callback = callback, .context = context});
}

/* Ends what is queued if it is to be dropped, and lets messages go on. */
static void go_on(struct gm_port *p, struct operation what, int drops)
{
    enqueue(p, what);
    pthread_mutex_lock(&p->lock);
    struct connection *order = connection(&p->out, what.port, what.priority);
    if (!order->is_disabled) die("sends were dropped or resumed, and none has failed");
    for (struct operation *of = p->queue, *after; of; of = after) {
        after = of->next;
        if (of->port != what.port || of->priority != what.priority) continue;
        if (of->callback == what.callback && of->context == what.context) finish(p, of, GM_SUCCESS);
        else if (drops) finish(p, of, GM_SEND_DROPPED);
    }
    order->is_disabled = 0;
    pthread_mutex_unlock(&p->lock);
    wake(p);
}

void gm_drop_sends(struct gm_port *p, unsigned priority, unsigned node, unsigned port, callback_t callback, void *context)
{
    go_on(p, (struct operation) {.kind = DATA, .priority = priority, .node = node, .port = port, .callback = callback, .context = context}, 1);
}

void gm_resume_sending(struct gm_port *p, unsigned priority, unsigned node, unsigned port, callback_t callback, void *context)
{
    go_on(p, (struct operation) {.kind = DATA, .priority = priority, .node = node, .port = port, .callback = callback, .context = context}, 0);
}

struct recv_event *gm_receive(struct gm_port *p)
{
    struct recv_event *event = &p->current.event;
    memset(&p->current, 0, sizeof p->current);
    pthread_mutex_lock(&p->lock);
    struct operation *of = p->done;
    struct received *got = p->events;
    if (of && !p->ended && of->visible_at <= now()) {
        p->done = of->next;
        p->ended = of;
        event->type = SENT_TOKENS_EVENT;
    } else if (got) {
        p->events = got->next;
        p->current = *got;
        free(got);
        p->receive_tokens++;
        if (event->type >= RECV_EVENT + FAST_OFFSET) event->message = htobe64((uint64_t) (uintptr_t) p->current.message);
    } else if (++p->polls % 256 == 0) {
        /* What a client does not know it passes to gm_unknown(). */
        event->type = ALARM_EVENT;
    }
    pthread_mutex_unlock(&p->lock);
    return event;
}

void gm_unknown(struct gm_port *p, struct recv_event *event)
{
    if (event->type != SENT_TOKENS_EVENT) return;
    struct operation *of = p->ended;
    if (!of) die("an event was passed to gm_unknown twice");
    pthread_mutex_lock(&p->lock);
    p->ended = NULL;
    p->send_tokens++;
    pthread_mutex_unlock(&p->lock);
    of->callback(p, of->context, of->status);
    free(of);
}

const char *gm_strerror(int status)
{
    switch (status) {
    case GM_SUCCESS: return "success";
    case GM_BUSY: return "port is busy";
    case GM_INVALID_PARAMETER: return "invalid parameter";
    case GM_OUT_OF_MEMORY: return "out of memory";
    case GM_SEND_TIMED_OUT: return "send timed out";
    case GM_SEND_REJECTED: return "send was rejected";
    case GM_SEND_TARGET_PORT_CLOSED: return "target port was closed";
    case GM_SEND_TARGET_NODE_UNREACHABLE: return "target node was unreachable";
    case GM_SEND_DROPPED: return "send was dropped";
    case GM_NO_SUCH_DEVICE: return "no such device";
    case GM_INVALID_PORT_NUMBER: return "invalid port number";
    default: return "failure";
    }
}
