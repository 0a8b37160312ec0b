// ranks: 1 2 4
// transports: all
/* Few data at places beyond an int: displacements, extents, offsets in windows and files. */
#include "files.h"

#include <stdint.h>
#include <sys/mman.h>

enum { FEW = 1000, SPREAD = 3 };
/* Not a multiple of a power of two at which something might wrap, and a multiple of 4. */
static const MPI_Count FAR = (5LL << 30) + 4 * 1237;

static int to, from;

/* Address space for `parts` pieces FAR bytes apart; memory only where it is used. */
static char *reach(int parts)
{
    size_t bytes = (size_t) parts * FAR + (1 << 20);
    char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) {
        perror("reach");
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    return start;
}

static void release(char *start, int parts) { munmap(start, (size_t) parts * FAR + (1 << 20)); }

static int *part(char *start, int number) { return (int *) (start + number * FAR); }

static void write_part(char *start, int number, int first)
{
    for (int i = 0; i < FEW; i++) part(start, number)[i] = first + i;
}

static int is_part(char *start, int number, int first)
{
    for (int i = 0; i < FEW; i++)
        if (part(start, number)[i] != first + i) return 0;
    return 1;
}

static void messages(void)
{
    MPI_Datatype far, halves, one;
    char *out = reach(SPREAD), *in = reach(SPREAD);
    MPI_Status status;
    MPI_Count extent, lb, lengths[SPREAD] = {FEW, FEW, FEW}, places[SPREAD] = {0, FAR, 2 * FAR}, count = -1;
    check_where("messages");
    for (int p = 0; p < SPREAD; p++) write_part(out, p, 1000 * p + rank);
    CHECK_OK(MPI_Type_contiguous(FEW, MPI_INT, &one));
    CHECK_OK(MPI_Type_create_resized_c(one, 0, FAR, &far));
    CHECK_OK(MPI_Type_commit(&far));
    CHECK_OK(MPI_Type_create_hindexed_c(SPREAD, lengths, places, MPI_INT, &halves));
    CHECK_OK(MPI_Type_commit(&halves));
    MPI_Type_get_extent_c(far, &lb, &extent);
    CHECK_EQ(extent, FAR);
    CHECK_OK(MPI_Sendrecv(out, SPREAD, far, to, 1, in, 1, halves, from, 1, MPI_COMM_WORLD, &status));
    for (int p = 0; p < SPREAD; p++) CHECK(is_part(in, p, 1000 * p + from));
    CHECK_OK(MPI_Get_count_c(&status, halves, &count));
    CHECK_EQ(count, 1);
    CHECK_OK(MPI_Get_elements_c(&status, far, &count));
    CHECK_EQ(count, SPREAD * FEW);
    for (int p = 0; p < SPREAD; p++) write_part(in, p, -1);
    MPI_Request requests[2];
    CHECK_OK(MPI_Irecv(in, SPREAD, far, from, 2, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Isend(out, 1, halves, to, 2, MPI_COMM_WORLD, &requests[1]));
    CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    for (int p = 0; p < SPREAD; p++) CHECK(is_part(in, p, 1000 * p + from));
    for (int p = 0; p < SPREAD; p++) write_part(in, p, rank == 0 ? 7 * p : -1);
    CHECK_OK(MPI_Bcast(in, rank == 0 ? 1 : SPREAD, rank == 0 ? halves : far, 0, MPI_COMM_WORLD));
    for (int p = 0; p < SPREAD; p++) CHECK(is_part(in, p, 7 * p));
    char *all = reach(size);
    CHECK_OK(MPI_Allgather(out, FEW, MPI_INT, all, 1, far, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++) CHECK(is_part(all, r, r));
    release(all, size);
    MPI_Type_free(&one);
    MPI_Type_free(&far);
    MPI_Type_free(&halves);
    release(out, SPREAD);
    release(in, SPREAD);
}

static void collectives(void)
{
    char *out = reach(size), *in = reach(size);
    MPI_Count *counts = allocate(size * sizeof *counts);
    MPI_Aint *displs = allocate(size * sizeof *displs), *bytes = allocate(size * sizeof *bytes);
    MPI_Datatype *types = allocate(size * sizeof *types);
    MPI_Request request;
    for (int r = 0; r < size; r++) {
        counts[r] = FEW;
        displs[r] = r * FAR / (MPI_Aint) sizeof(int);
        bytes[r] = r * FAR;
        types[r] = MPI_INT;
        write_part(out, r, 100 * rank + 10000 * r);
    }
#define WIPE() for (int r = 0; r < size; r++) write_part(in, r, -1)
#define GOT(first) for (int r = 0; r < size; r++) CHECK(is_part(in, r, first))
    for (int root = 0; root < size; root++) {
        check_where("gatherv to %d", root);
        WIPE();
        CHECK_OK(MPI_Gatherv_c(out, FEW, MPI_INT, in, counts, displs, MPI_INT, root, MPI_COMM_WORLD));
        if (rank == root) GOT(100 * r);
        check_where("scatterv from %d", root);
        WIPE();
        CHECK_OK(MPI_Iscatterv_c(out, counts, displs, MPI_INT, in, FEW, MPI_INT, root, MPI_COMM_WORLD, &request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        CHECK(is_part(in, 0, 100 * root + 10000 * rank));
    }
    check_where("allgatherv");
    WIPE();
    CHECK_OK(MPI_Allgatherv_c(out, FEW, MPI_INT, in, counts, displs, MPI_INT, MPI_COMM_WORLD));
    GOT(100 * r);
    check_where("alltoallv");
    WIPE();
    CHECK_OK(MPI_Alltoallv_c(out, counts, displs, MPI_INT, in, counts, displs, MPI_INT, MPI_COMM_WORLD));
    GOT(100 * r + 10000 * rank);
    check_where("alltoallw, persistent");
    WIPE();
    CHECK_OK(MPI_Alltoallw_init_c(out, counts, bytes, types, in, counts, bytes, types, MPI_COMM_WORLD, MPI_INFO_NULL, &request));
    for (int round = 0; round < 2; round++) {
        CHECK_OK(MPI_Start(&request));
        CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    }
    CHECK_OK(MPI_Request_free(&request));
    GOT(100 * r + 10000 * rank);
    check_where("neighbours");
    MPI_Comm ring;
    int periodic = 1;
    WIPE();
    write_part(in, 0, -1);
    char *two_out = reach(2), *two_in = reach(2);
    write_part(two_out, 0, 50 + rank);
    write_part(two_out, 1, 9000 + rank);
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring));
    MPI_Count two_counts[2] = {FEW, FEW};
    MPI_Aint two_places[2] = {0, FAR};
    MPI_Datatype two_types[2] = {MPI_INT, MPI_INT};
    CHECK_OK(MPI_Ineighbor_alltoallw_c(two_out, two_counts, two_places, two_types, two_in, two_counts, two_places, two_types, ring, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    /* The data of the rank below are those for its upper neighbour, and vice versa. */
    CHECK(is_part(two_in, 0, 9000 + from));
    CHECK(is_part(two_in, 1, 50 + to));
    MPI_Comm_free(&ring);
    release(two_out, 2);
    release(two_in, 2);
    release(out, size);
    release(in, size);
    free(counts);
    free(displs);
    free(bytes);
    free(types);
}

static void window(int unit)
{
    char *memory = reach(2);
    MPI_Win win;
    int out[FEW], in[FEW], one = 5, old = -1, none = 0;
    check_where("window, unit %d", unit);
    CHECK_OK(MPI_Win_create_c(memory, FAR + (1 << 20), unit, MPI_INFO_NULL, MPI_COMM_WORLD, &win));
    MPI_Aint far = FAR / unit;
    for (int i = 0; i < FEW; i++) out[i] = rank + i;
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_OK(MPI_Put(out, FEW, MPI_INT, to, far, FEW, MPI_INT, win));
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK(is_part(memory, 1, from));
    CHECK_OK(MPI_Accumulate(out, FEW, MPI_INT, to, far, FEW, MPI_INT, MPI_REPLACE, win));
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK(is_part(memory, 1, from));
    CHECK_OK(MPI_Get(in, FEW, MPI_INT, to, far, FEW, MPI_INT, win));
    CHECK_OK(MPI_Win_fence(0, win));
    for (int i = 0; i < FEW; i++) CHECK_EQ(in[i], rank + i);
    CHECK_OK(MPI_Win_lock_all(0, win));
    CHECK_OK(MPI_Fetch_and_op(&one, &old, MPI_INT, to, far, MPI_SUM, win));
    CHECK_OK(MPI_Win_flush(to, win));
    CHECK_EQ(old, rank);
    CHECK_OK(MPI_Compare_and_swap(&none, &old, &old, MPI_INT, to, far + 4 * FEW / unit, win));
    CHECK_OK(MPI_Win_unlock_all(win));
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_EQ(part(memory, 1)[0], from + 5);
    MPI_Datatype ends;
    MPI_Count lengths[2] = {FEW, FEW}, places[2] = {0, FAR};
    CHECK_OK(MPI_Type_create_hindexed_c(2, lengths, places, MPI_INT, &ends));
    CHECK_OK(MPI_Type_commit(&ends));
    char *wide = reach(2);
    write_part(wide, 0, 3 * rank);
    write_part(wide, 1, 3 * rank + 1);
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK_OK(MPI_Put(wide, 1, ends, to, 0, 1, ends, win));
    CHECK_OK(MPI_Win_fence(0, win));
    CHECK(is_part(memory, 0, 3 * from));
    CHECK(is_part(memory, 1, 3 * from + 1));
    /* Beyond the end is refused, and so is an offset that would wrap. */
    if (unit == 1) {
        MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
        CHECK_CLASS(MPI_Put(out, 1, MPI_INT, to, FAR + (1 << 20), 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
        CHECK_CLASS(MPI_Put(out, 1, MPI_INT, to, INT64_MAX - 2, 1, MPI_INT, win), MPI_ERR_RMA_RANGE);
        CHECK_OK(MPI_Win_fence(0, win));
    }
    MPI_Type_free(&ends);
    CHECK_OK(MPI_Win_free(&win));
    release(wide, 2);
    release(memory, 2);
}

static void files(void)
{
    MPI_Status status;
    MPI_Offset place = -1, bytes = -1;
    int out[FEW], in[FEW];
    check_where("files");
    for (int i = 0; i < FEW; i++) out[i] = 17 * rank + i;
    MPI_File fh = file_open(MPI_MODE_RDWR | MPI_MODE_CREATE);
    CHECK_OK(MPI_File_write_at(fh, (rank + 1) * FAR, out, FEW, MPI_INT, &status));
    CHECK_OK(MPI_File_sync(fh));
    MPI_Barrier(MPI_COMM_WORLD);
    CHECK_OK(MPI_File_sync(fh));
    CHECK_OK(MPI_File_get_size(fh, &bytes));
    CHECK_EQ(bytes, size * FAR + 4 * FEW);
    CHECK_OK(MPI_File_read_at_all(fh, (to + 1) * FAR, in, FEW, MPI_INT, &status));
    CHECK_EQ(in[FEW - 1], 17 * to + FEW - 1);
    MPI_Datatype tile, block;
    CHECK_OK(MPI_Type_contiguous(FEW / 2, MPI_INT, &block));
    CHECK_OK(MPI_Type_create_resized_c(block, 0, FAR, &tile));
    CHECK_OK(MPI_Type_commit(&tile));
    CHECK_OK(MPI_File_set_view(fh, (MPI_Offset) rank * 2 * FEW, MPI_INT, tile, "native", MPI_INFO_NULL));
    CHECK_OK(MPI_File_write_all(fh, out, FEW, MPI_INT, &status));
    CHECK_OK(MPI_File_get_position(fh, &place));
    CHECK_EQ(place, FEW);
    CHECK_OK(MPI_File_get_byte_offset(fh, FEW, &bytes));
    CHECK_EQ(bytes, 2 * FAR + (MPI_Offset) rank * 2 * FEW);
    memset(in, 0, sizeof in);
    CHECK_OK(MPI_File_read_at_all(fh, 0, in, FEW, MPI_INT, &status));
    CHECK(memcmp(in, out, sizeof in) == 0);
    CHECK_OK(MPI_File_set_view(fh, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL));
    memset(in, 0, sizeof in);
    CHECK_OK(MPI_File_read_at(fh, FAR + (MPI_Offset) rank * 2 * FEW, in, FEW / 2, MPI_INT, &status));
    CHECK(memcmp(in, out + FEW / 2, sizeof in / 2) == 0);
    CHECK_OK(MPI_File_seek_shared(fh, 3 * FAR, MPI_SEEK_SET));
    CHECK_OK(MPI_File_write_ordered(fh, out, FEW, MPI_INT, &status));
    CHECK_OK(MPI_File_get_position_shared(fh, &place));
    CHECK_EQ(place, 3 * FAR + (MPI_Offset) size * 4 * FEW);
    CHECK_OK(MPI_File_read_at(fh, 3 * FAR + (MPI_Offset) rank * 4 * FEW, in, FEW, MPI_INT, &status));
    CHECK(memcmp(in, out, sizeof in) == 0);
    MPI_Type_free(&tile);
    MPI_Type_free(&block);
    CHECK_OK(MPI_File_close(&fh));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    to = (rank + 1) % size, from = (rank + size - 1) % size;
    messages();
    collectives();
    window(1);
    window(4);
    file_begin();
    files();
    return check_end();
}
