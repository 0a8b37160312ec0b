/* The interface of HCOLL as far as OxMPI uses it (docs/coll-components.md), without HCOLL: each collective is messages between all ranks
 * that need each other's data, sent by the functions of the runtime, and over when all of them have ended. It shows how OxMPI gets along with
 * such a library, and nothing about HCOLL itself.
 *
 * The environment makes it refuse: HCOLL_EMULATION_REFUSE=TYPE:OPERATION,... those pairs of a reduction, by their numbers;
 * HCOLL_EMULATION_LARGEST=BYTES longer vectors; HCOLL_EMULATION_NO_CONTEXT=RANK has that rank of the job make none;
 * HCOLL_EMULATION_HOOKS=1 wants to be told of unmapped memory. HCOLL_EMULATION_LATE=N lets a collective end N calls of progress after its
 * last message. HCOLL_EMULATION_LOG=FILE gets lines "RANK FUNCTION CALLS" of each process at its end, "RANK made CONTEXTS" and "RANK contexts LEFT". */
#include <complex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, ERROR = -1 };
enum { REQUEST_DONE, REQUEST_IDLE, REQUEST_ACTIVE };
#define IN_PLACE ((void *) 1)

/* A described type: the flag that it is described here, its length in bits, and its number. */
typedef struct {
    union {
        struct {
            uint8_t in_line : 1, type : 2, contiguity : 1, n_types : 2, padding : 1, is_signed : 1;
            uint8_t packed_size, mantissa_size;
            uint16_t data_extent, offset_from_base;
            uint8_t alignment;
        } in_line;
        uint64_t pointer;
    } rep;
    short id;
} dte_t;
typedef struct { int id; } op_t;
typedef struct { int rank; void *handle; } ec_t;
typedef void *group_t;
typedef struct { void *data; int status; } request_t;

struct rte_functions {
    int (*recv)(dte_t, uint32_t, void *, ec_t, group_t, uint32_t, request_t *);
    int (*send)(dte_t, uint32_t, void *, ec_t, group_t, uint32_t, request_t *);
    int (*test)(request_t *, int *);
    int (*ec_cmp)(ec_t, group_t, ec_t, group_t);
    int (*get_ec_handles)(int, int *, group_t, ec_t *);
    int (*group_size)(group_t);
    int (*my_rank)(group_t);
    int (*ec_on_local_node)(ec_t, group_t);
    group_t (*world_group)(void);
    uint32_t (*jobid)(void);
    void (*progress)(void);
    void *(*get_coll_handle)(void);
    int (*coll_handle_test)(void *);
    void (*coll_handle_free)(void *);
    void (*coll_handle_complete)(void *);
    int (*wait_completion)(request_t *);
    int (*group_id)(group_t);
    int (*world_rank)(group_t, ec_t);
    void *types[5];
};
_Static_assert(sizeof(dte_t) == 24 && sizeof(ec_t) == 16 && sizeof(request_t) == 16, "as crates/hcoll has them");

struct rte_functions hcoll_rte_functions;

#define TYPE(name, bits, number) dte_t name = {.rep.in_line = {.in_line = 1, .contiguity = 1, .packed_size = bits}, .id = number}
TYPE(byte_dte, 8, 1); TYPE(integer16_dte, 16, 2); TYPE(integer32_dte, 32, 3); TYPE(integer64_dte, 64, 4);
TYPE(u_byte_dte, 8, 6); TYPE(u_integer16_dte, 16, 7); TYPE(u_integer32_dte, 32, 8); TYPE(u_integer64_dte, 64, 9);
TYPE(float32_dte, 32, 11); TYPE(float64_dte, 64, 12); TYPE(float32_complex_dte, 64, 15); TYPE(float64_complex_dte, 128, 16);

enum { MAX = 1, MIN, SUM, PROD, LAND, BAND, LOR, BOR, LXOR, BXOR };
op_t hcoll_dte_op_max = {MAX}, hcoll_dte_op_min = {MIN}, hcoll_dte_op_sum = {SUM}, hcoll_dte_op_prod = {PROD}, hcoll_dte_op_land = {LAND},
     hcoll_dte_op_band = {BAND}, hcoll_dte_op_lor = {LOR}, hcoll_dte_op_bor = {BOR}, hcoll_dte_op_lxor = {LXOR}, hcoll_dte_op_bxor = {BXOR};

struct init_opts { int base_tag, max_tag, enable_thread_support, mem_hook_needed; };
static struct init_opts options;
static int is_ready, own_rank = -1, made, contexts, calls[8];
static const char *names[8] = {"ibarrier", "ibcast", "iallgather", "iallgatherv", "iallreduce", "ireduce", "igatherv", "ialltoallv"};

struct context { group_t group; int rank, size, tag; ec_t *peers; };

/* A collective under way. */
struct going {
    struct going *next;
    void *handle;
    request_t *requests;
    int count, late;
    /* Of a reduction: the vectors of all ranks, which are combined into the target at the end. */
    char *all;
    void *target;
    int ranks, elements;
    dte_t type;
    int op;
};
static struct going *first;
/* One thread at a time is in here: the runtime says so. */
static volatile int inside;

static int number(const char *name, int otherwise) { const char *text = getenv(name); return text ? atoi(text) : otherwise; }
static size_t size_of(dte_t type) { return type.rep.in_line.packed_size / 8; }

static void enter(void)
{
    if (__atomic_exchange_n(&inside, 1, __ATOMIC_ACQUIRE)) {
        fprintf(stderr, "hcoll emulation: two threads are in the library\n");
        abort();
    }
}
static void leave(void) { __atomic_store_n(&inside, 0, __ATOMIC_RELEASE); }

#define EACH(t, expression) \
    for (int i = 0; i < n; i++) { t a = ((t *) into)[i], b = ((const t *) from)[i]; ((t *) into)[i] = (t) (expression); }
#define ARITHMETIC(t) \
    case SUM: EACH(t, a + b) break; \
    case PROD: EACH(t, a * b) break;
#define ORDER(t) \
    case MAX: EACH(t, a > b ? a : b) break; \
    case MIN: EACH(t, a < b ? a : b) break;
#define INTEGER(t) \
    switch (op) { \
        ARITHMETIC(t) ORDER(t) \
        case LAND: EACH(t, a && b) break; \
        case LOR: EACH(t, a || b) break; \
        case LXOR: EACH(t, !a != !b) break; \
        case BAND: EACH(t, a & b) break; \
        case BOR: EACH(t, a | b) break; \
        case BXOR: EACH(t, a ^ b) break; \
    }

static void combine(int type, int op, int n, void *into, const void *from)
{
    switch (type) {
        case 1: INTEGER(int8_t) break;
        case 2: INTEGER(int16_t) break;
        case 3: INTEGER(int32_t) break;
        case 4: INTEGER(int64_t) break;
        case 6: INTEGER(uint8_t) break;
        case 7: INTEGER(uint16_t) break;
        case 8: INTEGER(uint32_t) break;
        case 9: INTEGER(uint64_t) break;
        case 11: switch (op) { ARITHMETIC(float) ORDER(float) } break;
        case 12: switch (op) { ARITHMETIC(double) ORDER(double) } break;
        case 15: switch (op) { ARITHMETIC(float complex) } break;
        case 16: switch (op) { ARITHMETIC(double complex) } break;
    }
}

/* Whether a vector is served. */
static int takes(size_t bytes, int type, int op)
{
    const char *at = getenv("HCOLL_EMULATION_REFUSE");
    int t, o, length;
    for (; op && at && sscanf(at, "%d:%d%n", &t, &o, &length) == 2; at += length + (at[length] == ','))
        if (t == type && o == op) return 0;
    return bytes <= (size_t) number("HCOLL_EMULATION_LARGEST", 1 << 30);
}

static struct going *begin(struct context *c, int which, void **handle)
{
    struct going *g = calloc(1, sizeof *g);
    g->requests = calloc(2 * (size_t) c->size + 1, sizeof *g->requests);
    g->late = number("HCOLL_EMULATION_LATE", 0);
    *handle = g->handle = hcoll_rte_functions.get_coll_handle();
    c->tag = (c->tag + 1) % options.max_tag;
    calls[which]++;
    return g;
}

static void transfer(struct context *c, struct going *g, int is_send, int peer, void *buffer, size_t bytes)
{
    int (*f)(dte_t, uint32_t, void *, ec_t, group_t, uint32_t, request_t *) = is_send ? hcoll_rte_functions.send : hcoll_rte_functions.recv;
    if (f(byte_dte, (uint32_t) bytes, buffer, c->peers[peer], c->group, (uint32_t) (options.base_tag + c->tag), &g->requests[g->count++])) {
        fprintf(stderr, "hcoll emulation: a message cannot be sent\n");
        abort();
    }
}

static int post(struct going *g)
{
    /* In front of older ones, so that none relies on the order. */
    g->next = first;
    first = g;
    leave();
    return SUCCESS;
}

static int no(void) { leave(); return ERROR; }

static int barrier(void *context, void **handle)
{
    struct context *c = context;
    enter();
    struct going *g = begin(c, 0, handle);
    for (int r = 0; r < c->size; r++)
        if (r != c->rank) {
            transfer(c, g, 1, r, NULL, 0);
            transfer(c, g, 0, r, NULL, 0);
        }
    return post(g);
}

static int bcast(void *buffer, int count, dte_t type, int root, void **handle, void *context)
{
    struct context *c = context;
    size_t bytes = (size_t) count * size_of(type);
    enter();
    if (!takes(bytes, type.id, 0)) return no();
    struct going *g = begin(c, 1, handle);
    for (int r = 0; r < c->size; r++)
        if (r != root && (c->rank == root || c->rank == r)) transfer(c, g, c->rank == root, c->rank == root ? r : root, buffer, bytes);
    return post(g);
}

/* What this rank gives, at its own place and to the others; theirs to their places. */
static void gather(struct context *c, struct going *g, void *own, size_t mine, char *into, const int *counts, const int *starts, int root)
{
    int gets = root < 0 || root == c->rank;
    if (gets && own == IN_PLACE) {
        own = into + starts[c->rank];
        mine = (size_t) counts[c->rank];
    } else if (gets) memmove(into + starts[c->rank], own, mine);
    for (int r = 0; r < c->size; r++) {
        if (r == c->rank) continue;
        if (root < 0 || root == r) transfer(c, g, 1, r, own, mine);
        if (gets) transfer(c, g, 0, r, into + starts[r], (size_t) counts[r]);
    }
}

static int allgatherv(void *own, int mine, dte_t type, void *into, int *counts, int *starts, dte_t other, void *context, void **handle)
{
    struct context *c = context;
    size_t all = 0;
    (void) other;
    enter();
    for (int r = 0; r < c->size; r++) all += (size_t) counts[r];
    if (!takes(all, type.id, 0)) return no();
    struct going *g = begin(c, 3, handle);
    gather(c, g, own, (size_t) mine, into, counts, starts, -1);
    return post(g);
}

static int allgather(void *own, int mine, dte_t type, void *into, int count, dte_t other, void *context, void **handle)
{
    struct context *c = context;
    int counts[c->size], starts[c->size];
    (void) other;
    for (int r = 0; r < c->size; r++) {
        counts[r] = count;
        starts[r] = r * count;
    }
    enter();
    if (!takes((size_t) count, type.id, 0)) return no();
    struct going *g = begin(c, 2, handle);
    gather(c, g, own, (size_t) mine, into, counts, starts, -1);
    return post(g);
}

static int gatherv(void *own, int mine, dte_t type, void *into, int *counts, int *starts, dte_t other, int root, void *context, void **handle)
{
    struct context *c = context;
    (void) type, (void) other;
    enter();
    struct going *g = begin(c, 6, handle);
    gather(c, g, own, (size_t) mine, into, counts, starts, root);
    return post(g);
}

static int reduce_to(struct context *c, int which, void *own, void *into, int count, dte_t type, op_t *op, int root, void **handle)
{
    size_t bytes = (size_t) count * size_of(type);
    int counts[c->size], starts[c->size];
    enter();
    if (!takes(bytes, type.id, op->id)) return no();
    struct going *g = begin(c, which, handle);
    for (int r = 0; r < c->size; r++) {
        counts[r] = (int) bytes;
        starts[r] = r * (int) bytes;
    }
    if (root < 0 || root == c->rank) {
        g->all = malloc(bytes * (size_t) c->size);
        g->target = into;
        g->ranks = c->size;
        g->elements = count;
        g->type = type;
        g->op = op->id;
    }
    gather(c, g, own == IN_PLACE ? into : own, bytes, g->all, counts, starts, root);
    return post(g);
}

static int allreduce(void *own, void *into, int count, dte_t type, op_t *op, void *context, void **handle)
{
    return reduce_to(context, 4, own, into, count, type, op, -1, handle);
}

static int reduce(void *own, void *into, int count, dte_t type, op_t *op, int root, void *context, void **handle)
{
    return reduce_to(context, 5, own, into, count, type, op, root, handle);
}

static int alltoallv(void *from, int *lengths, int *places, dte_t type, void *into, int *counts, int *starts, dte_t other, void *context,
                     void **handle)
{
    struct context *c = context;
    (void) type, (void) other;
    enter();
    struct going *g = begin(c, 7, handle);
    for (int r = 0; r < c->size; r++) {
        char *give = (char *) from + places[r], *get = (char *) into + starts[r];
        if (r == c->rank) {
            if (counts[r]) memmove(get, give, (size_t) counts[r]);
            continue;
        }
        transfer(c, g, 1, r, give, (size_t) lengths[r]);
        transfer(c, g, 0, r, get, (size_t) counts[r]);
    }
    return post(g);
}

struct {
    void *blocking[17];
    int (*ibarrier)(void *, void **);
    int (*ibcast)(void *, int, dte_t, int, void **, void *);
    int (*iallgather)(void *, int, dte_t, void *, int, dte_t, void *, void **);
    int (*iallgatherv)(void *, int, dte_t, void *, int *, int *, dte_t, void *, void **);
    int (*iallreduce)(void *, void *, int, dte_t, op_t *, void *, void **);
    int (*ireduce)(void *, void *, int, dte_t, op_t *, int, void *, void **);
    int (*igatherv)(void *, int, dte_t, void *, int *, int *, dte_t, int, void *, void **);
    int (*ialltoallv)(void *, int *, int *, dte_t, void *, int *, int *, dte_t, void *, void **);
} hcoll_collectives;

/* Whether all messages have ended. */
static int has_ended(request_t *requests, int count)
{
    int all = 1;
    for (int i = 0; i < count; i++) {
        int done = 1;
        if (hcoll_rte_functions.test(&requests[i], &done)) return ERROR;
        all &= done;
    }
    return all;
}

static int go_on(void)
{
    enter();
    for (struct going **at = &first; *at;) {
        struct going *g = *at;
        if (has_ended(g->requests, g->count) != 1 || g->late-- > 0) {
            at = &g->next;
            continue;
        }
        *at = g->next;
        size_t bytes = (size_t) g->elements * (g->all ? size_of(g->type) : 0);
        for (int r = 1; r < g->ranks; r++) combine(g->type.id, g->op, g->elements, g->all, g->all + (size_t) r * bytes);
        if (g->all) memcpy(g->target, g->all, bytes);
        hcoll_rte_functions.coll_handle_complete(g->handle);
        free(g->all);
        free(g->requests);
        free(g);
    }
    leave();
    return SUCCESS;
}

int (*hcoll_progress_fn)(void);

const char *hcoll_get_version(void) { return "4.0.0-emulation"; }

int hcoll_read_init_opts(struct init_opts **opts)
{
    *opts = calloc(1, sizeof **opts);
    return SUCCESS;
}

void hcoll_free_init_opts(struct init_opts *opts) { free(opts); }

int hcoll_init_with_opts(struct init_opts **opts)
{
    enter();
    options = **opts;
    (*opts)->mem_hook_needed = number("HCOLL_EMULATION_HOOKS", 0);
    hcoll_collectives.ibarrier = barrier;
    hcoll_collectives.ibcast = bcast;
    hcoll_collectives.iallgather = allgather;
    hcoll_collectives.iallgatherv = allgatherv;
    hcoll_collectives.iallreduce = allreduce;
    hcoll_collectives.ireduce = reduce;
    hcoll_collectives.igatherv = gatherv;
    hcoll_collectives.ialltoallv = alltoallv;
    hcoll_progress_fn = go_on;
    is_ready = 1;
    own_rank = hcoll_rte_functions.my_rank(hcoll_rte_functions.world_group());
    leave();
    return SUCCESS;
}

/* All ranks of the group exchange their numbers in the job before any of them has a context. */
void *hcoll_create_context(group_t group)
{
    enter();
    struct rte_functions *rte = &hcoll_rte_functions;
    struct context *c = calloc(1, sizeof *c);
    int size = rte->group_size(group), rank = rte->my_rank(group), is_well = is_ready && !rte->group_id, ended;
    int ranks[size], own[size], theirs[size], count = 0;
    request_t requests[2 * size];
    *c = (struct context){.group = group, .rank = rank, .size = size, .peers = calloc((size_t) size, sizeof *c->peers)};
    for (int r = 0; r < size; r++) ranks[r] = r;
    is_well &= !rte->get_ec_handles(size, ranks, group, c->peers);
    for (int r = 0; r < size; r++) {
        own[r] = rte->world_rank(group, c->peers[rank]);
        if (r == rank) continue;
        is_well &= !rte->send(integer32_dte, 1, &own[r], c->peers[r], group, 0, &requests[count++]);
        is_well &= !rte->recv(integer32_dte, 1, &theirs[r], c->peers[r], group, 0, &requests[count++]);
    }
    while (is_well && (ended = has_ended(requests, count)) != 1) {
        is_well = ended != ERROR;
        leave();
        rte->progress();
        enter();
    }
    for (int r = 0; r < size && is_well; r++)
        is_well = r == rank || (theirs[r] == rte->world_rank(group, c->peers[r]) && theirs[r] < rte->group_size(rte->world_group()) &&
                                !rte->ec_cmp(c->peers[r], group, c->peers[rank], group));
    is_well &= own[0] != number("HCOLL_EMULATION_NO_CONTEXT", -1);
    if (!is_well) {
        free(c->peers);
        free(c);
        c = NULL;
    } else {
        made++;
        contexts++;
    }
    leave();
    return c;
}

int hcoll_context_free(void *context, group_t group)
{
    struct context *c = context;
    enter();
    if (c->group != group || hcoll_rte_functions.group_size(group) != c->size) abort();
    free(c->peers);
    free(c);
    contexts--;
    leave();
    return SUCCESS;
}

int hcoll_finalize(void)
{
    enter();
    is_ready = 0;
    leave();
    return SUCCESS;
}

__attribute__((destructor)) static void report(void)
{
    const char *log = getenv("HCOLL_EMULATION_LOG");
    FILE *file = log && own_rank >= 0 ? fopen(log, "a") : NULL;
    if (!file) return;
    for (int i = 0; i < 8; i++)
        if (calls[i]) fprintf(file, "%d %s %d\n", own_rank, names[i], calls[i]);
    fprintf(file, "%d made %d\n%d contexts %d\n", own_rank, made, own_rank, contexts);
    fclose(file);
}
