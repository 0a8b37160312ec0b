// ranks: 1 2 4 7
// transports: all
/* Neighbourhood collectives of graphs with several edges between the same ranks, and from a rank
 * to itself: the first message of a rank to another belongs to the first edge that the other has
 * from it, and so on. */
#include "check.h"

/* volatile: MPI_UNWEIGHTED is no address, and a compiler that sees it as an array complains. */
static int *volatile unweighted = MPI_UNWEIGHTED;

static int many(int a, int b) { return (int) (drawn((unsigned) a, (unsigned) b, 11) % 4); }

static int count_of(int a, int b, int k) { return (int) (drawn((unsigned) a, (unsigned) b, (unsigned) k) % 300); }
static int value_of(int a, int b, int k, int i) { return a * 1000000 + b * 10000 + k * 1000 + i; }

enum { MOST = 300 };

struct side {
    int degree;
    int ranks[64], number[64], counts[64], displs[64];
};

/* The edges of a side as the communicator returns them; edges of one pair are numbered in this
 * order. */
static void describe(struct side *side, const int *ranks, int degree, int incoming)
{
    side->degree = degree;
    for (int e = 0; e < degree; e++) {
        int r = ranks[e], k = 0;
        for (int before = 0; before < e; before++) k += ranks[before] == r;
        side->ranks[e] = r;
        side->number[e] = k;
        side->counts[e] = incoming ? count_of(r, rank, k) : count_of(rank, r, k);
        side->displs[e] = (degree - 1 - e) * (MOST + 1);
    }
}

static void exchange(MPI_Comm graph)
{
    int in = -1, out = -1, weighted = -1, sources[64], destinations[64];
    struct side from, to;
    CHECK_OK(MPI_Dist_graph_neighbors_count(graph, &in, &out, &weighted));
    CHECK_OK(MPI_Dist_graph_neighbors(graph, in, sources, unweighted, out, destinations, unweighted));
    describe(&from, sources, in, 1);
    describe(&to, destinations, out, 0);
    int *send = allocate((size_t) (out * (MOST + 1)) * sizeof(int)), *got = allocate((size_t) (in * (MOST + 1)) * sizeof(int));
    for (int e = 0; e < out; e++)
        for (int i = 0; i <= MOST; i++) send[to.displs[e] + i] = value_of(rank, to.ranks[e], to.number[e], i);
    for (int form = 0; form < 2; form++) {
        check_where("alltoallv, form %d", form);
        for (int i = 0; i < in * (MOST + 1); i++) got[i] = -1;
        if (form == 0) {
            CHECK_OK(MPI_Neighbor_alltoallv(send, to.counts, to.displs, MPI_INT, got, from.counts, from.displs, MPI_INT, graph));
        } else {
            MPI_Request request;
            CHECK_OK(MPI_Ineighbor_alltoallv(send, to.counts, to.displs, MPI_INT, got, from.counts, from.displs, MPI_INT,
                                             graph, &request));
            CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        for (int e = 0; e < in; e++)
            for (int i = 0; i <= MOST; i++) {
                int want = i < from.counts[e] ? value_of(from.ranks[e], rank, from.number[e], i) : -1;
                if (!CHECK_EQ(got[from.displs[e] + i], want)) break;
            }
    }
    check_where("alltoall");
    for (int e = 0; e < out; e++) send[e] = value_of(rank, to.ranks[e], to.number[e], 0);
    CHECK_OK(MPI_Neighbor_alltoall(send, 1, MPI_INT, got, 1, MPI_INT, graph));
    for (int e = 0; e < in; e++) CHECK_EQ(got[e], value_of(from.ranks[e], rank, from.number[e], 0));
    check_where("allgather");
    CHECK_OK(MPI_Neighbor_allgather(&rank, 1, MPI_INT, got, 1, MPI_INT, graph));
    for (int e = 0; e < in; e++) CHECK_EQ(got[e], from.ranks[e]);
    free(send);
    free(got);
}

static void adjacent(void)
{
    MPI_Comm graph;
    int in = 0, out = 0, sources[64], destinations[64];
    for (int k = 0; k < 4; k++)
        for (int r = 0; r < size; r++) {
            if (k < many((r + k) % size, rank)) sources[in++] = (r + k) % size;
            if (k < many(rank, r)) destinations[out++] = r;
        }
    CHECK_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in, sources, unweighted, out, destinations, unweighted,
                                            MPI_INFO_NULL, 0, &graph));
    exchange(graph);
    CHECK_OK(MPI_Comm_free(&graph));
}

static void by_others(void)
{
    MPI_Comm graph;
    int n = 0, sources[256], degrees[256], destinations[256];
    for (int a = 0; a < size; a++)
        for (int b = 0; b < size; b++)
            for (int k = 0; k < many(a, b); k++)
                if ((a + 2 * b + 3 * k) % size == rank) {
                    sources[n] = a;
                    degrees[n] = 1;
                    destinations[n++] = b;
                }
    CHECK_OK(MPI_Dist_graph_create(MPI_COMM_WORLD, n, sources, degrees, destinations, unweighted, MPI_INFO_NULL, 0, &graph));
    exchange(graph);
    CHECK_OK(MPI_Comm_free(&graph));
}

static void known_by_all(void)
{
    MPI_Comm graph;
    int index[64], edges[128], mine[2] = {rank * 2, rank * 2 + 1}, got[2] = {-1, -1};
    check_where("graph");
    for (int r = 0; r < size; r++) {
        edges[2 * r] = (r + size - 1) % size;
        edges[2 * r + 1] = (r + 1) % size;
        index[r] = 2 * r + 2;
    }
    CHECK_OK(MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &graph));
    CHECK_OK(MPI_Neighbor_alltoall(mine, 1, MPI_INT, got, 1, MPI_INT, graph));
    /* With one or two ranks both edges lead to one process, and are taken in order. */
    int left = (rank + size - 1) % size, right = (rank + 1) % size;
    CHECK_EQ(got[0], size > 2 ? left * 2 + 1 : left * 2);
    CHECK_EQ(got[1], size > 2 ? right * 2 : right * 2 + 1);
    CHECK_OK(MPI_Comm_free(&graph));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    adjacent();
    by_others();
    known_by_all();
    return check_end();
}
