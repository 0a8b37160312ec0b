// ranks: 1 2 4 7
// transports: all
// every day: nodes
/* One signature by different datatypes: one vector or struct at the root is n numbers at the
 * leaves, in the v and w forms and in broadcasts of all lengths, with each algorithm. */
#include "check.h"

#include <stddef.h>

static int value_of(int r, int i) { return r * 1000003 + i; }

/* The root has every third int of one long vector, the leaves have ints. */
static void bcast(int n, int root)
{
    check_where("bcast of %d, root %d", n, root);
    MPI_Datatype vector;
    CHECK_OK(MPI_Type_vector(n, 1, 3, MPI_INT, &vector));
    CHECK_OK(MPI_Type_commit(&vector));
    size_t room = rank == root ? (size_t) n * 3 : (size_t) n;
    int *data = allocate(room * sizeof(int)), step = rank == root ? 3 : 1;
    for (size_t i = 0; i < room; i++) data[i] = -1;
    if (rank == root)
        for (int i = 0; i < n; i++) data[3 * i] = value_of(root, i);
    CHECK_OK(rank == root ? MPI_Bcast(data, 1, vector, root, MPI_COMM_WORLD) : MPI_Bcast(data, n, MPI_INT, root, MPI_COMM_WORLD));
    for (int i = 0; i < n; i++)
        if (!CHECK_EQ(data[i * step], value_of(root, i))) break;
    free(data);
    CHECK_OK(MPI_Type_free(&vector));
}

struct mixed {
    int number;
    double fraction;
    char text[5];
};

static MPI_Datatype mixed_type(void)
{
    int lengths[3] = {1, 1, 5};
    MPI_Aint places[3] = {offsetof(struct mixed, number), offsetof(struct mixed, fraction), offsetof(struct mixed, text)};
    MPI_Datatype parts[3] = {MPI_INT, MPI_DOUBLE, MPI_CHAR}, plain, type;
    CHECK_OK(MPI_Type_create_struct(3, lengths, places, parts, &plain));
    CHECK_OK(MPI_Type_create_resized(plain, 0, sizeof(struct mixed), &type));
    CHECK_OK(MPI_Type_commit(&type));
    CHECK_OK(MPI_Type_free(&plain));
    return type;
}

static struct mixed mixed_of(int r, int i)
{
    struct mixed m;
    memset(&m, 0, sizeof m);
    m.number = value_of(r, i);
    m.fraction = r + i * 0.25;
    snprintf(m.text, sizeof m.text, "%d", (r * 7 + i) % 1000);
    return m;
}

static int same(struct mixed a, struct mixed b)
{
    return a.number == b.number && a.fraction == b.fraction && memcmp(a.text, b.text, sizeof a.text) == 0;
}

/* The leaves send single structs; the root receives blocks of pairs of them, or vice versa. */
static void structs(int root)
{
    check_where("structs, root %d", root);
    MPI_Datatype one = mixed_type(), two;
    CHECK_OK(MPI_Type_contiguous(2, one, &two));
    CHECK_OK(MPI_Type_commit(&two));
    int counts[64], displs[64], pairs[64], total = 0;
    for (int r = 0; r < size; r++) {
        pairs[r] = r % 3;
        counts[r] = 2 * pairs[r];
        displs[r] = total;
        total += pairs[r];
    }
    struct mixed mine[4], back[4], *all = allocate((size_t) (2 * total) * sizeof *all);
    memset(back, 0, sizeof back);
    for (int i = 0; i < 4; i++) mine[i] = mixed_of(rank, i);
    CHECK_OK(MPI_Gatherv(mine, counts[rank], one, all, pairs, displs, two, root, MPI_COMM_WORLD));
    if (rank == root)
        for (int r = 0; r < size; r++)
            for (int i = 0; i < counts[r]; i++) CHECK(same(all[2 * displs[r] + i], mixed_of(r, i)));
    CHECK_OK(MPI_Scatterv(all, pairs, displs, two, back, counts[rank], one, root, MPI_COMM_WORLD));
    for (int i = 0; i < counts[rank]; i++) CHECK(same(back[i], mine[i]));
    /* And all to all, in halves of a struct's numbers. */
    CHECK_OK(MPI_Allgatherv(mine, counts[rank], one, all, pairs, displs, two, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        for (int i = 0; i < counts[r]; i++) CHECK(same(all[2 * displs[r] + i], mixed_of(r, i)));
    free(all);
    CHECK_OK(MPI_Type_free(&one));
    CHECK_OK(MPI_Type_free(&two));
}

/* Even ranks send one vector to each and receive ints, odd ranks vice versa. */
static void alltoallw(int n)
{
    check_where("alltoallw of %d", n);
    MPI_Datatype vector, types[64], rtypes[64];
    CHECK_OK(MPI_Type_vector(n, 1, 2, MPI_INT, &vector));
    CHECK_OK(MPI_Type_commit(&vector));
    int counts[64], rcounts[64], displs[64], rdispls[64], even = rank % 2 == 0;
    int *send = allocate((size_t) (2 * n * size) * sizeof(int)), *got = allocate((size_t) (2 * n * size) * sizeof(int));
    for (int i = 0; i < 2 * n * size; i++) got[i] = send[i] = -1;
    for (int r = 0; r < size; r++) {
        types[r] = even ? vector : MPI_INT;
        counts[r] = even ? 1 : n;
        rtypes[r] = even ? MPI_INT : vector;
        rcounts[r] = even ? n : 1;
        displs[r] = rdispls[r] = 2 * n * r * (int) sizeof(int);
        for (int i = 0; i < n; i++) send[2 * n * r + i * (even ? 2 : 1)] = value_of(rank, r * 1000 + i);
    }
    CHECK_OK(MPI_Alltoallw(send, counts, displs, types, got, rcounts, rdispls, rtypes, MPI_COMM_WORLD));
    for (int r = 0; r < size; r++)
        for (int i = 0; i < n; i++)
            if (!CHECK_EQ(got[2 * n * r + i * (even ? 1 : 2)], value_of(r, rank * 1000 + i))) break;
    free(send);
    free(got);
    CHECK_OK(MPI_Type_free(&vector));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    for (int root = 0; root < size; root++) {
        for (int n = 1; n <= 200000; n = n * 5 + 1) bcast(n, root);
        structs(root);
    }
    for (int n = 1; n <= 1000; n *= 10) alltoallw(n);
    return check_end();
}
