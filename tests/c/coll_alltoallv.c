// ranks: 1 2 4 7
// transports: all
// every day: shm-single-copy
/* MPI_Alltoallv: each pair has its own count, in both directions; gaps, in place, all forms. */
#include "check.h"

/* The ints from rank a to rank b; in place the count must be the same in both directions. */
static int count_of(int a, int b, int most, int both)
{
    if (both && a > b) return count_of(b, a, most, both);
    unsigned n = drawn((unsigned) a, (unsigned) b, (unsigned) most);
    return n % 3 == 0 ? 0 : (int) (n % (unsigned) (most + 1));
}

static int value_of(int from, int to, int i) { return from * 1000003 + to * 10007 + i; }

static void alltoallv(int form, const int *send, const int *counts, const int *displs, int *receive, const int *rcounts,
                      const int *rdispls)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Count c[64], rc[64];
    MPI_Aint d[64], rd[64];
    MPI_Comm world = MPI_COMM_WORLD;
    MPI_Datatype type = send == MPI_IN_PLACE ? MPI_DATATYPE_NULL : MPI_INT;
    for (int r = 0; r < size; r++) {
        c[r] = counts ? counts[r] : 0;
        d[r] = displs ? displs[r] : 0;
        rc[r] = rcounts[r];
        rd[r] = rdispls[r];
    }
    switch (form) {
    case 0:
        CHECK_OK(MPI_Alltoallv(send, counts, displs, type, receive, rcounts, rdispls, MPI_INT, world));
        return;
    case 1:
        CHECK_OK(MPI_Ialltoallv(send, counts, displs, type, receive, rcounts, rdispls, MPI_INT, world, &request));
        break;
    case 2:
        CHECK_OK(MPI_Alltoallv_c(send, counts ? c : NULL, displs ? d : NULL, type, receive, rc, rd, MPI_INT, world));
        return;
    default:
        CHECK_OK(MPI_Ialltoallv_c(send, counts ? c : NULL, displs ? d : NULL, type, receive, rc, rd, MPI_INT, world, &request));
    }
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void exchange(int form, int most, int in_place)
{
    check_where("form %d, up to %d ints, in place %d", form, most, in_place);
    int counts[64], displs[64], rcounts[64], rdispls[64], stride = most + 1;
    int *send = allocate((size_t) (stride * size) * sizeof(int)), *receive = allocate((size_t) (stride * size) * sizeof(int));
    for (int i = 0; i < stride * size; i++) send[i] = receive[i] = -1;
    for (int r = 0; r < size; r++) {
        counts[r] = count_of(rank, r, most, in_place);
        rcounts[r] = count_of(r, rank, most, in_place);
        displs[r] = (size - 1 - r) * stride;
        rdispls[r] = (r + 1) % size * stride;
        for (int i = 0; i < counts[r]; i++) {
            if (in_place) receive[rdispls[r] + i] = value_of(rank, r, i);
            send[displs[r] + i] = value_of(rank, r, i);
        }
    }
    if (in_place)
        alltoallv(form, MPI_IN_PLACE, NULL, NULL, receive, rcounts, rdispls);
    else
        alltoallv(form, send, counts, displs, receive, rcounts, rdispls);
    for (int r = 0; r < size; r++)
        for (int i = 0; i < stride; i++)
            if (!CHECK_EQ(receive[rdispls[r] + i], i < rcounts[r] ? value_of(r, rank, i) : -1)) i = stride;
    free(send);
    free(receive);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    int most[] = {0, 1, 5, 300, 30000};
    for (int form = 0; form < 4; form++)
        for (int in_place = 0; in_place < 2; in_place++)
            for (int m = 0; m < 5; m++) exchange(form, most[m], in_place);
    return check_end();
}
