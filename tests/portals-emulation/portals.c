/* Portals 4 between processes of this machine, to test what is sent over Portals where there is no such network: the calls that OxMPI
 * makes, in the binary form of the reference implementation's public header, with the meaning that the specification gives them.
 * Nothing here is made to suit its user: messages of one process to an entry of another one are matched in the order in which they were
 * put, against the priority list, then the overflow list; a put reads its memory, and a get that of its target, some time later, in
 * another thread; entries that are unlinked or used up are unknown; an entry with flow control that finds no room is disabled and refuses
 * all messages until it is enabled; queues have the length that they were given.
 *
 * A process listens on an abstract socket (it leaves no file), at which others connect. Each has two threads: one receives and matches, one
 * sends, so neither waits for the other. A peer whose connection ends is dead: what is under way to it fails.
 *
 * The environment sets limits: PORTALS_EMULATION_MAX_MSG bytes of a message, PORTALS_EMULATION_HEADERS unexpected messages,
 * PORTALS_EMULATION_ENTRIES list entries; PORTALS_EMULATION_NO_DEVICE=1 lets PtlNIInit fail. With PORTALS_EMULATION_REPORT=1 a process
 * writes to its standard error, when it ends, what it was used for. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { OK, ARG_INVALID, EQ_DROPPED = 3, EQ_EMPTY, FAIL, IN_USE = 7, NO_INIT = 9, NO_SPACE = 11, PT_FULL = 13, PT_EQ_NEEDED };
enum { E_GET, E_PUT = 2, E_PUT_OVERFLOW, E_REPLY = 8, E_SEND, E_ACK, E_PT_DISABLED, E_LINK, E_AUTO_UNLINK, E_AUTO_FREE, E_SEARCH };
enum { NI_OK, NI_UNDELIVERABLE, NI_DROPPED, NI_PT_DISABLED, NI_OP_VIOLATION = 5, NI_NO_MATCH };
enum { OP_PUT = 1 << 1, OP_GET = 1 << 2, USE_ONCE = 1 << 3, NO_HEADER = 1 << 4, LINK_DISABLE = 1 << 6, COMM_DISABLE = 1 << 7,
       UNLINK_DISABLE = 1 << 11, MANAGE_LOCAL = 1 << 15 };
enum { MD_SEND_DISABLE = 1 << 7, PT_FLOWCTRL = 1 << 1, PRIORITY = 0, OVERFLOW = 1, SEARCH_DELETE = 1 };
enum { QUEUES = 8, TABLE = 64, SPARE = 256, MDS = 1 << 16, PEERS = 256, PIDS = 1024 };
#define NONE 0xffffffffu
#define ANY 0xffffu

typedef struct { uint32_t nid, pid; } process_t;
typedef struct { void *start; uint64_t length; unsigned options; uint32_t eq, ct; } md_t;
typedef struct { void *start; uint64_t length; uint32_t ct, uid; unsigned options; process_t match_id; uint64_t bits, ignore, min_free; } me_t;
typedef struct {
    void *start, *user_ptr; uint64_t hdr_data, bits, rlength, mlength, remote_offset; process_t initiator; uint32_t uid, pt;
    unsigned char type, list, fail, op, datatype;
} event_t;
typedef struct { int entries, headers, mds, cts, eqs, pt, iovecs, list, triggered; uint64_t msg, other[5]; unsigned features; } limits_t;

/* What stands before each message on a socket. */
enum { PUT, ACK, GET, REPLY };
struct head { uint32_t kind, pid, uid, pt, fail, list, wants_ack, unused; uint64_t bits, hdr, offset, rlength, mlength, op, body; };

struct entry { struct entry *next; me_t me; void *user; uint32_t handle, pt; uint64_t used; int list, linked, headers, busy; };
struct header { struct header *next; struct entry *in; event_t event; };
struct queue { event_t *ring; uint64_t size, first, count; int dropped; };
struct operation { struct operation *next; uint32_t md, pid; void *user; uint64_t length, local, id; int kind; };
struct message { struct message *next; struct head head; const void *data; uint32_t to, md; struct entry *entry; void *user; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news = PTHREAD_COND_INITIALIZER;
static int inits, interfaces, listener = -1, stop_pipe[2] = { -1, -1 }, stopping;
static uint32_t own_pid, next_handle;
static pthread_t receiver, sender;
static struct queue queues[QUEUES];
static struct { int is_used, is_disabled; unsigned options; uint32_t eq; struct entry *lists[2]; struct header *unexpected; int headers; } table[TABLE];
static struct { int is_used, pending; md_t md; } mds[MDS];
static struct operation *operations;
static uint64_t next_operation;
static struct entry *entries;      /* those that are unlinked and still hold messages */
static struct message *outgoing, **outgoing_end = &outgoing;
static int links[PIDS];            /* connections to peers, by their numbers */
static int entries_now;
static unsigned long long queue_sizes[QUEUES], puts_made, gets_made, disablings, blocks, block_length;

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : otherwise;
}

/* ---- events ---- */

static struct queue *queue_of(uint32_t handle) { return handle < QUEUES && queues[handle].ring ? &queues[handle] : NULL; }

/* The last places of a queue, which no message takes, are for events without flow control: those of the process's own calls, of used entries, and of a
   disabled one. */
static uint64_t room(struct queue *queue) { return queue ? queue->size - (queue->count < queue->size ? queue->count : queue->size) : UINT64_MAX; }

static void post(uint32_t handle, const event_t *event, int is_special)
{
    struct queue *queue = queue_of(handle);
    if (!queue) return;
    if (queue->count >= queue->size + (is_special ? SPARE : 0)) { queue->dropped = 1; return; }
    queue->ring[(queue->first + queue->count++) % (queue->size + SPARE)] = *event;
}

/* ---- entries ---- */

static void say(struct entry *entry, int type)
{
    event_t event = { .type = type, .user_ptr = entry->user, .pt = entry->pt, .list = entry->list };
    int option = type == E_LINK ? LINK_DISABLE : UNLINK_DISABLE;
    if (!(entry->me.options & option)) post(table[entry->pt].eq, &event, 1);
}

static void take_out(struct entry *entry)
{
    struct entry **at = &table[entry->pt].lists[entry->list];
    while (*at != entry) at = &(*at)->next;
    *at = entry->next;
    entry->linked = 0;
    entries_now--;
}

/* The entry is in no list: it goes when nothing refers to it. */
static void settle(struct entry *entry)
{
    if (entry->linked || entry->headers || entry->busy) return;
    for (struct entry **at = &entries; *at; at = &(*at)->next)
        if (*at == entry) { *at = entry->next; say(entry, E_AUTO_FREE); break; }
    free(entry);
}

/* The entry is used up. */
static void unlink_used(struct entry *entry)
{
    take_out(entry);
    say(entry, E_AUTO_UNLINK);
    if (entry->list == OVERFLOW) { entry->next = entries; entries = entry; }
}

static int accepts(const me_t *me, uint32_t pid, uint32_t uid, uint64_t bits)
{
    return (me->uid == NONE || me->uid == uid) && ((bits ^ me->bits) & ~me->ignore) == 0 && (me->match_id.pid == ANY || me->match_id.pid == pid);
}

static struct entry *find(uint32_t pt, int list, const struct head *head)
{
    struct entry *entry = table[pt].lists[list];
    while (entry && !accepts(&entry->me, head->pid, head->uid, head->bits)) entry = entry->next;
    return entry;
}

/* ---- sending ---- */

static void send_later(struct message message)
{
    struct message *copy = malloc(sizeof *copy);
    *copy = message;
    copy->next = NULL;
    *outgoing_end = copy;
    outgoing_end = &copy->next;
    pthread_cond_signal(&news);
}

static void answer(const struct head *to, struct head head) { head.pid = own_pid; head.op = to->op; send_later((struct message) { .head = head, .to = to->pid, .md = NONE }); }

static void address(struct sockaddr_un *at, uint32_t pid, socklen_t *len)
{
    memset(at, 0, sizeof *at);
    at->sun_family = AF_UNIX;
    int text = snprintf(at->sun_path + 1, sizeof at->sun_path - 1, "portals-emulation-%u-%u", getuid(), pid);
    *len = offsetof(struct sockaddr_un, sun_path) + 1 + text;
}

static int write_all(int fd, const void *data, size_t len)
{
    const char *at = data;
    while (len > 0) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return -1;
        at += n; len -= n;
    }
    return 0;
}

static int read_all(int fd, void *data, size_t len)
{
    char *at = data;
    while (len > 0) {
        ssize_t n = recv(fd, at, len, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return -1;
        at += n; len -= n;
    }
    return 0;
}

static int link_to(uint32_t pid)
{
    if (links[pid] >= 0) return links[pid];
    struct sockaddr_un at;
    socklen_t len;
    address(&at, pid, &len);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *) &at, len)) { close(fd); return -1; }
    pthread_mutex_lock(&lock);
    links[pid] = fd;
    pthread_mutex_unlock(&lock);
    if (write(stop_pipe[1], "l", 1) < 0) return fd; /* the receiver watches it from now on */
    return fd;
}

/* An operation of this process is over; `head` says how. */
static void end_operation(uint64_t id, const struct head *head)
{
    for (struct operation **at = &operations; *at; at = &(*at)->next) {
        struct operation *one = *at;
        if (one->id != id) continue;
        *at = one->next;
        mds[one->md].pending--;
        event_t event = { .type = one->kind == PUT ? E_ACK : E_REPLY, .user_ptr = one->user, .rlength = one->length, .mlength = head->mlength,
                          .remote_offset = head->offset, .list = head->list, .fail = head->fail };
        post(mds[one->md].md.eq, &event, 0);
        free(one);
        return;
    }
}

static void fail_all(uint32_t pid)
{
    struct head head = { .fail = NI_UNDELIVERABLE };
    for (struct operation *one = operations, *next; one; one = next) {
        next = one->next;
        if (one->pid == pid) end_operation(one->id, &head);
    }
}

static void *send_all(void *unused)
{
    (void) unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!outgoing && !stopping) pthread_cond_wait(&news, &lock);
        struct message *one = outgoing;
        if (!one) break;
        outgoing = one->next;
        if (!outgoing) outgoing_end = &outgoing;
        pthread_mutex_unlock(&lock);
        int fd = link_to(one->to);
        int is_gone = fd < 0 || write_all(fd, &one->head, sizeof one->head) || write_all(fd, one->data, one->head.body);
        pthread_mutex_lock(&lock);
        if (is_gone) fail_all(one->to);
        if (one->head.kind == PUT && !is_gone && !(mds[one->md].md.options & MD_SEND_DISABLE)) {
            event_t event = { .type = E_SEND, .user_ptr = one->user, .rlength = one->head.rlength };
            post(mds[one->md].md.eq, &event, 0);
        }
        if (one->entry) {
            /* What a get reads has been read. */
            struct entry *entry = one->entry;
            event_t event = { .type = E_GET, .user_ptr = entry->user, .bits = one->head.bits, .rlength = one->head.rlength, .mlength = one->head.body,
                              .remote_offset = one->head.offset, .initiator = { 1, one->to }, .pt = entry->pt, .list = entry->list };
            entry->busy--;
            if (!(entry->me.options & COMM_DISABLE)) post(table[entry->pt].eq, &event, 0);
            settle(entry);
        }
        free(one);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* ---- receiving ---- */

static void disable(uint32_t pt)
{
    event_t event = { .type = E_PT_DISABLED, .pt = pt };
    table[pt].is_disabled = 1;
    disablings++;
    post(table[pt].eq, &event, 1);
}

static void put_came(const struct head *head, const char *body)
{
    uint32_t pt = head->pt;
    struct head ack = { .kind = ACK, .rlength = head->rlength };
    if (pt >= TABLE || !table[pt].is_used) ack.fail = NI_DROPPED;
    else if (table[pt].is_disabled) ack.fail = NI_PT_DISABLED;
    else {
        struct entry *entry = find(pt, PRIORITY, head);
        if (!entry) entry = find(pt, OVERFLOW, head);
        int has_flow = table[pt].options & PT_FLOWCTRL;
        int keeps = entry && entry->list == OVERFLOW && !(entry->me.options & NO_HEADER);
        int is_full = room(queue_of(table[pt].eq)) < 2 || (keeps && table[pt].headers >= (int) setting("PORTALS_EMULATION_HEADERS", 1 << 20));
        if (has_flow && (!entry || is_full)) { disable(pt); ack.fail = NI_PT_DISABLED; }
        else if (!entry || is_full) ack.fail = NI_DROPPED;
        else if (!(entry->me.options & OP_PUT)) ack.fail = NI_OP_VIOLATION;
        else {
            me_t *me = &entry->me;
            uint64_t offset = me->options & MANAGE_LOCAL ? entry->used : head->offset, left = offset < me->length ? me->length - offset : 0;
            ack.mlength = head->rlength < left ? head->rlength : left;
            ack.list = entry->list;
            ack.offset = offset;
            char *start = me->start ? (char *) me->start + offset : NULL;
            if (ack.mlength) memcpy(start, body, ack.mlength);
            event_t event = { .type = E_PUT, .start = start, .user_ptr = entry->user, .hdr_data = head->hdr, .bits = head->bits, .rlength = head->rlength,
                              .mlength = ack.mlength, .remote_offset = head->offset, .initiator = { 1, head->pid }, .uid = head->uid, .pt = pt, .list = entry->list };
            if (!(me->options & COMM_DISABLE)) post(table[pt].eq, &event, 0);
            if (keeps) {
                struct header *header = malloc(sizeof *header), **end = &table[pt].unexpected;
                while (*end) end = &(*end)->next;
                *header = (struct header) { NULL, entry, event };
                *end = header;
                entry->headers++;
                table[pt].headers++;
            }
            if (me->options & MANAGE_LOCAL) entry->used += ack.mlength;
            int is_used_up = me->options & USE_ONCE || (me->options & MANAGE_LOCAL && me->min_free && me->length - entry->used < me->min_free);
            if (is_used_up) { unlink_used(entry); settle(entry); }
        }
    }
    if (head->wants_ack) answer(head, ack);
}

static void get_came(const struct head *head)
{
    uint32_t pt = head->pt;
    struct head reply = { .kind = REPLY, .pid = own_pid, .op = head->op, .bits = head->bits, .offset = head->offset, .rlength = head->rlength };
    struct entry *entry = pt < TABLE && table[pt].is_used && !table[pt].is_disabled ? find(pt, PRIORITY, head) : NULL;
    if (!entry) { reply.fail = NI_DROPPED; answer(head, reply); return; }
    if (!(entry->me.options & OP_GET)) { reply.fail = NI_OP_VIOLATION; answer(head, reply); return; }
    uint64_t left = head->offset < entry->me.length ? entry->me.length - head->offset : 0;
    reply.body = reply.mlength = head->rlength < left ? head->rlength : left;
    entry->busy++;
    if (entry->me.options & USE_ONCE) unlink_used(entry);
    send_later((struct message) { .head = reply, .data = (char *) entry->me.start + head->offset, .to = head->pid, .md = NONE, .entry = entry });
}

/* One message of a connection. */
static int take_message(int fd, uint32_t *pid)
{
    struct head head;
    if (read_all(fd, &head, sizeof head)) return -1;
    *pid = head.pid;
    char *body = head.body ? malloc(head.body) : NULL;
    if (head.body && read_all(fd, body, head.body)) { free(body); return -1; }
    pthread_mutex_lock(&lock);
    switch (head.kind) {
    case PUT: put_came(&head, body); break;
    case GET: get_came(&head); break;
    case REPLY:
        for (struct operation *one = operations; one && head.body; one = one->next)
            if (one->id == head.op) { memcpy((char *) mds[one->md].md.start + one->local, body, head.body); break; }
        /* fall through */
    case ACK: end_operation(head.op, &head); break;
    }
    pthread_mutex_unlock(&lock);
    free(body);
    return 0;
}

static void *receive_all(void *unused)
{
    (void) unused;
    static struct { int fd; uint32_t pid; } came[PEERS];
    int count = 0;
    for (;;) {
        struct pollfd fds[2 + PEERS + PIDS];
        uint32_t of[2 + PEERS + PIDS];
        int n = 2, last;
        fds[0] = (struct pollfd) { listener, POLLIN, 0 };
        fds[1] = (struct pollfd) { stop_pipe[0], POLLIN, 0 };
        for (int i = 0; i < count; i++) { of[n] = i; fds[n++] = (struct pollfd) { came[i].fd, POLLIN, 0 }; }
        last = n;
        pthread_mutex_lock(&lock);
        for (uint32_t pid = 0; pid < PIDS; pid++)
            if (links[pid] >= 0) { of[n] = pid; fds[n++] = (struct pollfd) { links[pid], POLLRDHUP, 0 }; }
        if (stopping) { pthread_mutex_unlock(&lock); break; }
        pthread_mutex_unlock(&lock);
        if (poll(fds, n, -1) < 0) continue;
        if (fds[1].revents) { char buffer[64]; if (read(stop_pipe[0], buffer, sizeof buffer) < 0) continue; }
        for (int i = 2; i < last; i++)
            if (fds[i].revents && take_message(fds[i].fd, &came[of[i]].pid)) { close(fds[i].fd); came[of[i]].fd = -1; }
        for (int i = last; i < n; i++)
            if (fds[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) {
                /* What it had sent was read above, or is now. */
                for (int j = 0; j < count; j++)
                    while (came[j].fd >= 0 && came[j].pid == of[i] && !take_message(came[j].fd, &came[j].pid)) {}
                pthread_mutex_lock(&lock);
                fail_all(of[i]);
                shutdown(fds[i].fd, SHUT_RDWR);
                links[of[i]] = -1;
                pthread_mutex_unlock(&lock);
            }
        if (fds[0].revents && count < PEERS) {
            int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
            if (fd >= 0) { came[count].fd = fd; came[count++].pid = 0; }
        }
        int kept = 0;
        for (int i = 0; i < count; i++) if (came[i].fd >= 0) came[kept++] = came[i];
        count = kept;
    }
    for (int i = 0; i < count; i++) close(came[i].fd);
    return NULL;
}

/* ---- the calls ---- */

#define LOCKED(result) do { int answered; pthread_mutex_lock(&lock); answered = (result); pthread_mutex_unlock(&lock); return answered; } while (0)

int PtlInit(void) { LOCKED((inits++, OK)); }
void PtlFini(void) { pthread_mutex_lock(&lock); inits--; pthread_mutex_unlock(&lock); }

static int start(void)
{
    struct sockaddr_un at;
    socklen_t len;
    sigset_t all, before;
    for (uint32_t i = 0; i < PIDS; i++) links[i] = -1;
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (own_pid = 1; own_pid < PIDS; own_pid++) {
        address(&at, own_pid, &len);
        if (!bind(listener, (struct sockaddr *) &at, len)) break;
    }
    if (own_pid == PIDS || listen(listener, PEERS) || pipe2(stop_pipe, O_CLOEXEC)) return FAIL;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    stopping = 0;
    int failed = pthread_create(&receiver, NULL, receive_all, NULL) || pthread_create(&sender, NULL, send_all, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed ? FAIL : OK;
}

int PtlNIInit(unsigned iface, unsigned options, uint32_t pid, const limits_t *desired, limits_t *actual, uint32_t *handle)
{
    (void) iface; (void) pid; (void) desired;
    if (!inits) return NO_INIT;
    /* Matching, with physical addresses: there is no other interface here. */
    if (options != (1 | 1 << 3)) return ARG_INVALID;
    if (setting("PORTALS_EMULATION_NO_DEVICE", 0)) return FAIL;
    if (!interfaces && start()) return FAIL;
    interfaces++;
    if (actual) *actual = (limits_t) { .entries = setting("PORTALS_EMULATION_ENTRIES", 1 << 20), .headers = setting("PORTALS_EMULATION_HEADERS", 1 << 20), .mds = MDS,
                                       .eqs = QUEUES, .pt = TABLE - 1, .list = 1 << 20, .msg = setting("PORTALS_EMULATION_MAX_MSG", 1ull << 40) };
    *handle = 1;
    return OK;
}

int PtlNIFini(uint32_t handle)
{
    if (handle != 1 || !interfaces) return ARG_INVALID;
    if (--interfaces) return OK;
    pthread_mutex_lock(&lock);
    stopping = 1;
    pthread_cond_signal(&news);
    pthread_mutex_unlock(&lock);
    if (write(stop_pipe[1], "s", 1) < 0) return FAIL;
    /* The sender sends what it has. */
    pthread_join(sender, NULL);
    pthread_join(receiver, NULL);
    close(listener);
    for (int i = 0; i < PIDS; i++) if (links[i] >= 0) close(links[i]);
    close(stop_pipe[0]); close(stop_pipe[1]);
    return OK;
}

int PtlGetUid(uint32_t ni, uint32_t *uid) { (void) ni; *uid = getuid(); return OK; }
int PtlGetPhysId(uint32_t ni, process_t *id) { (void) ni; *id = (process_t) { 1, own_pid }; return OK; }

int PtlEQAlloc(uint32_t ni, uint64_t count, uint32_t *handle)
{
    (void) ni;
    uint32_t at = 0;
    while (at < QUEUES && queues[at].ring) at++;
    if (at == QUEUES || !count) return NO_SPACE;
    pthread_mutex_lock(&lock);
    queues[at] = (struct queue) { .ring = calloc(count + SPARE, sizeof(event_t)), .size = count };
    pthread_mutex_unlock(&lock);
    queue_sizes[at] = count;
    *handle = at;
    return OK;
}

int PtlEQFree(uint32_t handle)
{
    pthread_mutex_lock(&lock);
    struct queue *queue = queue_of(handle);
    if (queue) { free(queue->ring); queue->ring = NULL; }
    pthread_mutex_unlock(&lock);
    return queue ? OK : ARG_INVALID;
}

int PtlEQGet(uint32_t handle, event_t *event)
{
    int answered = ARG_INVALID;
    pthread_mutex_lock(&lock);
    struct queue *queue = queue_of(handle);
    if (queue && !queue->count) answered = EQ_EMPTY;
    else if (queue) {
        *event = queue->ring[queue->first];
        queue->first = (queue->first + 1) % (queue->size + SPARE);
        queue->count--;
        answered = queue->dropped ? EQ_DROPPED : OK;
        queue->dropped = 0;
    }
    pthread_mutex_unlock(&lock);
    return answered;
}

int PtlPTAlloc(uint32_t ni, unsigned options, uint32_t eq, uint32_t wanted, uint32_t *index)
{
    (void) ni;
    uint32_t at = wanted == NONE ? 3 : wanted; /* the first ones are somebody else's */
    while (wanted == NONE && at < TABLE && table[at].is_used) at++;
    if (at >= TABLE || table[at].is_used) return PT_FULL;
    if (options & PT_FLOWCTRL && !queue_of(eq)) return PT_EQ_NEEDED;
    pthread_mutex_lock(&lock);
    table[at].is_used = 1; table[at].options = options; table[at].eq = eq; table[at].is_disabled = 0;
    pthread_mutex_unlock(&lock);
    *index = at;
    return OK;
}

int PtlPTFree(uint32_t ni, uint32_t index)
{
    (void) ni;
    if (index >= TABLE || !table[index].is_used) return ARG_INVALID;
    pthread_mutex_lock(&lock);
    int is_empty = !table[index].lists[PRIORITY] && !table[index].lists[OVERFLOW];
    if (is_empty) table[index].is_used = 0;
    pthread_mutex_unlock(&lock);
    return is_empty ? OK : IN_USE;
}

int PtlPTEnable(uint32_t ni, uint32_t index)
{
    (void) ni;
    if (index >= TABLE || !table[index].is_used) return ARG_INVALID;
    LOCKED((table[index].is_disabled = 0, OK));
}

int PtlMDBind(uint32_t ni, const md_t *md, uint32_t *handle)
{
    (void) ni;
    static uint32_t next;
    pthread_mutex_lock(&lock);
    uint32_t tried = 0;
    while (tried < MDS && mds[next % MDS].is_used) { next++; tried++; }
    uint32_t at = next++ % MDS;
    if (tried < MDS) { mds[at].is_used = 1; mds[at].pending = 0; mds[at].md = *md; *handle = at; }
    pthread_mutex_unlock(&lock);
    return tried < MDS ? OK : NO_SPACE;
}

int PtlMDRelease(uint32_t handle)
{
    if (handle >= MDS) return ARG_INVALID;
    pthread_mutex_lock(&lock);
    int answered = !mds[handle].is_used ? ARG_INVALID : mds[handle].pending ? IN_USE : OK;
    if (answered == OK) mds[handle].is_used = 0;
    pthread_mutex_unlock(&lock);
    return answered;
}

/* The first unexpected message that an entry takes. */
static struct header **find_unexpected(uint32_t pt, const me_t *me)
{
    struct header **at = &table[pt].unexpected;
    while (*at && !accepts(me, (*at)->event.initiator.pid, (*at)->event.uid, (*at)->event.bits)) at = &(*at)->next;
    return *at ? at : NULL;
}

static void take_unexpected(uint32_t pt, struct header **at, void *user)
{
    struct header *header = *at;
    event_t event = header->event;
    event.type = E_PUT_OVERFLOW;
    event.user_ptr = user;
    post(table[pt].eq, &event, 1);
    *at = header->next;
    table[pt].headers--;
    header->in->headers--;
    settle(header->in);
    free(header);
}

int PtlMEAppend(uint32_t ni, uint32_t pt, const me_t *me, unsigned char list, void *user, uint32_t *handle)
{
    (void) ni;
    if (pt >= TABLE || !table[pt].is_used || list > OVERFLOW) return ARG_INVALID;
    pthread_mutex_lock(&lock);
    struct header **found;
    int answered = OK, is_used_up = 0;
    *handle = next_handle++ & 0x7fffffff;
    while (list == PRIORITY && me->options & OP_PUT && !is_used_up && (found = find_unexpected(pt, me))) {
        take_unexpected(pt, found, user);
        is_used_up = me->options & USE_ONCE;
    }
    event_t unlinked = { .type = E_AUTO_UNLINK, .user_ptr = user, .pt = pt, .list = list };
    if (is_used_up) { if (!(me->options & UNLINK_DISABLE)) post(table[pt].eq, &unlinked, 1); }
    else if (entries_now >= (int) setting("PORTALS_EMULATION_ENTRIES", 1 << 20)) answered = NO_SPACE;
    else {
        struct entry *entry = calloc(1, sizeof *entry), **end = &table[pt].lists[list];
        *entry = (struct entry) { .me = *me, .user = user, .handle = *handle, .pt = pt, .list = list, .linked = 1 };
        while (*end) end = &(*end)->next;
        *end = entry;
        entries_now++;
        if (list == OVERFLOW) { blocks++; block_length = me->length; }
        say(entry, E_LINK);
    }
    pthread_mutex_unlock(&lock);
    return answered;
}

int PtlMEUnlink(uint32_t handle)
{
    int answered = ARG_INVALID;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 2 * TABLE && answered == ARG_INVALID; i++)
        for (struct entry *entry = table[i / 2].lists[i % 2]; entry; entry = entry->next) {
            if (entry->handle != handle) continue;
            answered = entry->headers || entry->busy ? IN_USE : OK;
            if (answered == OK) { take_out(entry); free(entry); }
            break;
        }
    pthread_mutex_unlock(&lock);
    return answered;
}

int PtlMESearch(uint32_t ni, uint32_t pt, const me_t *me, unsigned char operation, void *user)
{
    (void) ni;
    if (pt >= TABLE || !table[pt].is_used) return ARG_INVALID;
    pthread_mutex_lock(&lock);
    struct header **found = find_unexpected(pt, me);
    if (found && operation == SEARCH_DELETE) take_unexpected(pt, found, user);
    else {
        event_t event = found ? (*found)->event : (event_t) { .fail = NI_NO_MATCH };
        event.type = E_SEARCH;
        event.user_ptr = user;
        post(table[pt].eq, &event, 1);
    }
    pthread_mutex_unlock(&lock);
    return OK;
}

static int begin(int kind, uint32_t md, uint64_t local, uint64_t length, int ack, process_t to, struct head head, void *user)
{
    if (md >= MDS || !mds[md].is_used || to.nid != 1 || to.pid >= PIDS || local + length > mds[md].md.length) return ARG_INVALID;
    if (length > setting("PORTALS_EMULATION_MAX_MSG", 1ull << 40)) return ARG_INVALID;
    pthread_mutex_lock(&lock);
    if (kind == PUT) puts_made++; else gets_made++;
    head.kind = kind; head.pid = own_pid; head.uid = getuid(); head.rlength = length; head.wants_ack = ack; head.op = ++next_operation;
    head.body = kind == PUT ? length : 0;
    if (kind == GET || ack) {
        struct operation *one = malloc(sizeof *one);
        *one = (struct operation) { operations, md, to.pid, user, length, local, head.op, kind };
        operations = one;
        mds[md].pending++;
    }
    send_later((struct message) { .head = head, .data = (char *) mds[md].md.start + local, .to = to.pid, .md = md, .user = user });
    pthread_mutex_unlock(&lock);
    return OK;
}

int PtlPut(uint32_t md, uint64_t local, uint64_t length, unsigned char ack, process_t to, uint32_t pt, uint64_t bits, uint64_t remote, void *user, uint64_t hdr)
{
    return begin(PUT, md, local, length, ack == 1, to, (struct head) { .pt = pt, .bits = bits, .offset = remote, .hdr = hdr }, user);
}

int PtlGet(uint32_t md, uint64_t local, uint64_t length, process_t to, uint32_t pt, uint64_t bits, uint64_t remote, void *user)
{
    return begin(GET, md, local, length, 0, to, (struct head) { .pt = pt, .bits = bits, .offset = remote }, user);
}

__attribute__((destructor)) static void report(void)
{
    if (own_pid && setting("PORTALS_EMULATION_REPORT", 0))
        fprintf(stderr, "portals: puts %llu gets %llu disabled %llu blocks %llu length %llu queues %llu %llu\n", puts_made, gets_made, disablings, blocks, block_length,
                queue_sizes[0], queue_sizes[1]);
}
