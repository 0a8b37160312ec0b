// ranks: 2 4
// transports: all
/* Puts and gets that a network may carry out without the target's help: lengths around the
 * limits of envelopes and registered pieces, in every kind of epoch, in windows of all kinds of
 * memory, which are freed and made again with other data. Origins are of malloc and
 * MPI_Alloc_mem. With CHECK_RDMA set the adapter must have written into the windows of others
 * (--mca rpi ib); with CHECK_RDMA=0 it must not have. */
#include "contents.h"
#include "mpit.h"
#include "win.h"

enum { MOST = (1 << 20) + 9, ROUNDS = 2 };

static const int lengths[] = {1, 8, 1023, 1084, 1085, 4096, 16384, 100003, MOST};
enum { LENGTHS = sizeof lengths / sizeof *lengths, EPOCHS = 8 };

static const char *const epochs[EPOCHS] = {"fence", "post and start", "lock", "lock exclusive", "lock_all and flush",
                                           "flush_local", "Rput and Rget", "flush_all"};

static void begin(MPI_Win win, int epoch, int to, MPI_Group before, MPI_Group after)
{
    switch (epoch) {
    case 0: CHECK_OK(MPI_Win_fence(0, win)); break;
    case 1:
        CHECK_OK(MPI_Win_post(before, 0, win));
        CHECK_OK(MPI_Win_start(after, 0, win));
        break;
    case 2: CHECK_OK(MPI_Win_lock(MPI_LOCK_SHARED, to, 0, win)); break;
    case 3: CHECK_OK(MPI_Win_lock(MPI_LOCK_EXCLUSIVE, to, 0, win)); break;
    default: CHECK_OK(MPI_Win_lock_all(0, win));
    }
}

static void end(MPI_Win win, int epoch, int to)
{
    switch (epoch) {
    case 0: CHECK_OK(MPI_Win_fence(0, win)); break;
    case 1:
        CHECK_OK(MPI_Win_complete(win));
        CHECK_OK(MPI_Win_wait(win));
        break;
    case 2:
    case 3: CHECK_OK(MPI_Win_unlock(to, win)); break;
    case 4: CHECK_OK(MPI_Win_flush(to, win)); break;
    case 5: CHECK_OK(MPI_Win_flush_local(to, win)); break;
    case 7: CHECK_OK(MPI_Win_flush_all(win)); break;
    }
    if (epoch > 3) CHECK_OK(MPI_Win_unlock_all(win));
    if (epoch > 1) MPI_Barrier(MPI_COMM_WORLD);
}

static void put(MPI_Win win, int epoch, int to, const unsigned char *out, int len)
{
    MPI_Request request;
    if (epoch != 6) {
        CHECK_OK(MPI_Put(out, len, MPI_BYTE, to, 3, len, MPI_BYTE, win));
        return;
    }
    CHECK_OK(MPI_Rput(out, len, MPI_BYTE, to, 3, len, MPI_BYTE, win, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void get(MPI_Win win, int epoch, int to, unsigned char *in, int len, int round)
{
    MPI_Request request;
    if (epoch != 6) {
        CHECK_OK(MPI_Get(in, len, MPI_BYTE, to, 3, len, MPI_BYTE, win));
        return;
    }
    CHECK_OK(MPI_Rget(in, len, MPI_BYTE, to, 3, len, MPI_BYTE, win, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    holds(in, rank, round, (size_t) len);
}

static void exchange(struct window *w, int round, int epoch, int len, unsigned char *out, unsigned char *in)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Group world, before, after;
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 1, &from, &before);
    MPI_Group_incl(world, 1, &to, &after);
    fill(out, rank, round, (size_t) len);
    memset(in, 0, (size_t) len);
    begin(w->win, epoch, to, before, after);
    put(w->win, epoch, to, out, len);
    end(w->win, epoch, to);
    unsigned char *own = w->base;
    if (epoch > 1) CHECK_OK(MPI_Win_sync(w->win));
    holds(own + 3, from, round, (size_t) len);
    own[3 + len] = (unsigned char) (round + epoch);
    MPI_Barrier(MPI_COMM_WORLD);
    begin(w->win, epoch, to, before, after);
    get(w->win, epoch, to, in, len, round);
    end(w->win, epoch, to);
    holds(in, rank, round, (size_t) len);
    CHECK_EQ(own[3 + len], (unsigned char) (round + epoch));
    CHECK_EQ(own[2], 0);
    if (epoch == 0) CHECK_OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Group_free(&world);
    MPI_Group_free(&before);
    MPI_Group_free(&after);
}

/* Many short ones before one flush, of all ranks to all others, during accumulates, which are
 * messages. */
static void many(struct window *w)
{
    enum { EACH = 200 };
    int *own = w->base;
    memset(own, 0, sizeof(int) * (size_t) (EACH * size + 1));
    MPI_Barrier(MPI_COMM_WORLD);
    int values[EACH], one = 1;
    CHECK_OK(MPI_Win_lock_all(0, w->win));
    for (int i = 0; i < EACH; i++) {
        values[i] = rank * 1000 + i;
        for (int to = 0; to < size; to++)
            CHECK_OK(MPI_Put(&values[i], 1, MPI_INT, to, (rank * EACH + i) * (MPI_Aint) sizeof(int), 1, MPI_INT, w->win));
        if (i % 20 == 0)
            for (int to = 0; to < size; to++)
                CHECK_OK(MPI_Accumulate(&one, 1, MPI_INT, to, EACH * size * (MPI_Aint) sizeof(int), 1, MPI_INT, MPI_SUM, w->win));
    }
    CHECK_OK(MPI_Win_flush_all(w->win));
    int back[EACH], to = (rank + 1) % size;
    for (int i = 0; i < EACH; i++)
        CHECK_OK(MPI_Get(&back[i], 1, MPI_INT, to, (rank * EACH + i) * (MPI_Aint) sizeof(int), 1, MPI_INT, w->win));
    CHECK_OK(MPI_Win_flush(to, w->win));
    for (int i = 0; i < EACH; i++) CHECK_EQ(back[i], values[i]);
    CHECK_OK(MPI_Win_unlock_all(w->win));
    MPI_Barrier(MPI_COMM_WORLD);
    for (int from = 0; from < size; from++)
        for (int i = 0; i < EACH; i++) CHECK_EQ(own[from * EACH + i], from * 1000 + i);
    CHECK_EQ(own[EACH * size], size * EACH / 20);
    MPI_Barrier(MPI_COMM_WORLD);
}

static void gaps(struct window *w)
{
    enum { BLOCKS = 400, LEN = 5 * BLOCKS };
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    unsigned char *out = calloc(1, 2 * LEN), *in = calloc(1, 2 * LEN), *own = w->base;
    MPI_Datatype spread;
    MPI_Type_vector(BLOCKS, 5, 10, MPI_BYTE, &spread);
    MPI_Type_commit(&spread);
    for (int kind = 0; kind < 4; kind++) {
        int here = kind & 1, there = kind & 2;
        memset(own, 0, 2 * LEN);
        fill(out, rank, kind, 2 * LEN);
        CHECK_OK(MPI_Win_fence(0, w->win));
        CHECK_OK(MPI_Put(out, here ? 1 : LEN, here ? spread : MPI_BYTE, to, 0, there ? 1 : LEN, there ? spread : MPI_BYTE, w->win));
        CHECK_OK(MPI_Win_fence(0, w->win));
        for (int at = 0; at < LEN; at++) {
            int source = here ? at / 5 * 10 + at % 5 : at, target = there ? at / 5 * 10 + at % 5 : at;
            if (own[target] != byte_of(from, kind, (size_t) source)) {
                CHECK_EQ(at, -1);
                break;
            }
        }
        CHECK_OK(MPI_Get(in, here ? 1 : LEN, here ? spread : MPI_BYTE, to, 0, there ? 1 : LEN, there ? spread : MPI_BYTE, w->win));
        CHECK_OK(MPI_Win_fence(MPI_MODE_NOSUCCEED, w->win));
        for (int at = 0; at < LEN; at++) {
            int source = here ? at / 5 * 10 + at % 5 : at;
            if (in[source] != byte_of(rank, kind, (size_t) source)) {
                CHECK_EQ(at, -1);
                break;
            }
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Type_free(&spread);
    free(out);
    free(in);
}

/* The adapter's accesses need no call of the target, which waits here until all are flushed. */
static void unattended(struct window *w)
{
    int64_t value = 1000 + rank, back = 0;
    CHECK_OK(MPI_Win_lock_all(0, w->win));
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank > 0) {
        CHECK_OK(MPI_Put(&value, 8, MPI_BYTE, 0, 8 * rank, 8, MPI_BYTE, w->win));
        CHECK_OK(MPI_Win_flush(0, w->win));
        CHECK_OK(MPI_Get(&back, 8, MPI_BYTE, 0, 8 * rank, 8, MPI_BYTE, w->win));
        CHECK_OK(MPI_Win_flush_all(w->win));
        CHECK_EQ(back, value);
    }
    meet();
    CHECK_OK(MPI_Win_unlock_all(w->win));
    MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
    int provided;
    check_begin(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session session;
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_handle handle = started(session, "rdma_bytes_written", NULL);
    const char *rdma = getenv("CHECK_RDMA");
    meeting_open();
    unsigned char *outs[2] = {malloc(MOST), NULL}, *ins[2] = {malloc(MOST), NULL};
    CHECK_OK(MPI_Alloc_mem(MOST, MPI_INFO_NULL, &outs[1]));
    CHECK_OK(MPI_Alloc_mem(MOST, MPI_INFO_NULL, &ins[1]));
    for (int round = 0; round < ROUNDS; round++)
        for (int kind = 0; kind < KINDS; kind++) {
            struct window w = make_window(kind, MOST + 8, 1, MPI_COMM_WORLD);
            for (int epoch = 0; epoch < EPOCHS; epoch++)
                for (int i = 0; i < LENGTHS; i++) {
                    check_where("%s, %s, %d bytes", memory_names[kind], epochs[epoch], lengths[i]);
                    int which = (i + epoch) % 2;
                    exchange(&w, round + i, epoch, lengths[i], outs[which], ins[which]);
                }
            check_where("%s, many", memory_names[kind]);
            many(&w);
            check_where("%s, gaps", memory_names[kind]);
            gaps(&w);
            check_where("%s, unattended", memory_names[kind]);
            if (rdma && *rdma == '1') unattended(&w);
            free_window(&w);
        }
    check_where("counted bytes");
    number bytes = value(session, handle);
    if (rdma) CHECK(*rdma == '0' ? bytes == 0 : bytes > 10u << 20);
    for (int which = 0; which < 2; which++) {
        if (which) MPI_Free_mem(outs[which]), MPI_Free_mem(ins[which]);
        else free(outs[which]), free(ins[which]);
    }
    MPI_T_pvar_handle_free(session, &handle);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    return check_end();
}
