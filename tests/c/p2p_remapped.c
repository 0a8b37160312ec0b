// ranks: 2 4
// transports: all
/* Long messages of memory that is unmapped after each and mapped again at the same address, with
 * other data: a transport that keeps memory registered must notice. Private, shared and
 * read-only memory, many at a time, in both directions, with lengths around the limits of pages
 * and pieces. With CHECK_RDMA set the adapter must have read data from the memory of another
 * process (--mca rpi ib). */
#include "contents.h"
#include "mpit.h"

#include <sys/mman.h>

enum { ROUNDS = 6, MOST = 3 << 20, MANY = 8, PAGE = 4096 };

static const int lengths[] = {16383, 16384, 16385, 65536, 300001, 1 << 20, (1 << 20) + 1, MOST};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

/* Memory at an address; anywhere if that is NULL. */
static unsigned char *mapped(void *where, size_t len, int flags)
{
    int fixed = where ? MAP_FIXED : 0;
    void *found = mmap(where, len, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS | fixed, -1, 0);
    if (found == MAP_FAILED) MPI_Abort(MPI_COMM_WORLD, 2);
    return found;
}

/* One message to a neighbour, and one from the other, in memory that is mapped for it at the
 * same address each time. */
static void remapped(int flags)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    unsigned char *out = mapped(NULL, MOST, flags), *in = mapped(NULL, MOST, flags);
    for (int round = 0; round < ROUNDS * LENGTHS; round++) {
        int len = lengths[round % LENGTHS];
        check_where("flags %d, round %d, %d bytes", flags, round, len);
        munmap(out, MOST);
        munmap(in, MOST);
        mapped(out, MOST, flags);
        mapped(in, MOST, flags);
        fill(out, rank, round, (size_t) len);
        if (round % 2) mprotect(out, MOST, PROT_READ);
        MPI_Sendrecv(out, len, MPI_BYTE, to, round, in, len, MPI_BYTE, from, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        holds(in, from, round, (size_t) len);
    }
    munmap(out, MOST);
    munmap(in, MOST);
}

/* Many messages at a time in shared pages, received in another order; buffers of malloc and
 * MPI_Alloc_mem. */
static void many(void)
{
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    enum { LEN = 50001 };
    for (int round = 0; round < ROUNDS; round++) {
        check_where("many at a time, round %d", round);
        unsigned char *out, *in = malloc((size_t) MANY * LEN);
        MPI_Alloc_mem((MPI_Aint) MANY * LEN, MPI_INFO_NULL, &out);
        MPI_Request requests[2 * MANY];
        for (int i = 0; i < MANY; i++) {
            int tag = MANY - 1 - i;
            MPI_Irecv(in + tag * LEN, LEN, MPI_BYTE, from, tag, MPI_COMM_WORLD, &requests[i]);
        }
        for (int i = 0; i < MANY; i++) {
            fill(out + i * LEN, rank, round * MANY + i, LEN);
            MPI_Isend(out + i * LEN, LEN, MPI_BYTE, to, i, MPI_COMM_WORLD, &requests[MANY + i]);
        }
        MPI_Waitall(2 * MANY, requests, MPI_STATUSES_IGNORE);
        for (int i = 0; i < MANY; i++) holds(in + i * LEN, from, round * MANY + i, LEN);
        MPI_Free_mem(out);
        free(in);
    }
}

/* Gaps on one side, and a receive that is shorter than the message. */
static void gaps(void)
{
    enum { BLOCKS = 3000, BLOCK = 20, LEN = BLOCKS * BLOCK };
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Datatype type;
    MPI_Type_vector(BLOCKS, BLOCK, 2 * BLOCK, MPI_BYTE, &type);
    MPI_Type_commit(&type);
    unsigned char *plain = malloc(LEN), *spread = calloc(BLOCKS, 2 * BLOCK), *back = calloc(1, LEN);
    check_where("gaps");
    fill(plain, rank, 1, LEN);
    MPI_Sendrecv(plain, LEN, MPI_BYTE, to, 1, spread, 1, type, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(spread, 1, type, to, 2, back, LEN, MPI_BYTE, from, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    holds(back, (from + size - 1) % size, 1, LEN);
    check_where("a receive that is too short");
    memset(back, 9, LEN);
    MPI_Request send;
    MPI_Isend(plain, LEN, MPI_BYTE, to, 3, MPI_COMM_WORLD, &send);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    CHECK_CLASS(MPI_Recv(back, LEN - PAGE, MPI_BYTE, from, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE), MPI_ERR_TRUNCATE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Wait(&send, MPI_STATUS_IGNORE);
    for (int at = LEN - PAGE; at < LEN; at++)
        if (back[at] != 9) {
            CHECK_EQ(back[at], 9);
            break;
        }
    MPI_Type_free(&type);
    free(plain);
    free(spread);
    free(back);
}

int main(int argc, char **argv)
{
    int provided;
    check_begin(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_T_pvar_session session;
    MPI_T_pvar_session_create(&session);
    MPI_T_pvar_handle handle = started(session, "rdma_bytes_read", NULL);
    remapped(MAP_PRIVATE);
    remapped(MAP_SHARED);
    many();
    gaps();
    check_where("counted bytes");
    if (getenv("CHECK_RDMA")) CHECK(value(session, handle) > 10u << 20);
    MPI_T_pvar_handle_free(session, &handle);
    MPI_T_pvar_session_free(&session);
    MPI_T_finalize();
    return check_end();
}
