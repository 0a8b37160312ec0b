// ranks: 1 2 4 7
// transports: one
/* Distributed graphs: edges given by any rank, several between the same two ranks; weights;
 * errors. */
#include "check.h"

/* volatile: MPI_UNWEIGHTED is no address, and a compiler that sees it as an array complains. */
static int *volatile unweighted = MPI_UNWEIGHTED;
static int *volatile no_weights = MPI_WEIGHTS_EMPTY;

static int many(int a, int b) { return (int) (drawn((unsigned) a, (unsigned) b, 8) % 3); }
static int weight(int a, int b, int k) { return a * 100 + b * 10 + k; }

static int compare(const void *x, const void *y) { return *(const int *) x - *(const int *) y; }

/* The neighbours may come in any order, but each with its weight. */
static void check_side(int degree, int *ranks, int *weights, int weighted, int incoming)
{
    int want[400], got[400], n = 0;
    for (int r = 0; r < size; r++)
        for (int k = 0; k < (incoming ? many(r, rank) : many(rank, r)); k++)
            want[n++] = r * 1000 + (weighted ? (incoming ? weight(r, rank, k) : weight(rank, r, k)) : 0);
    if (!CHECK_EQ(degree, n)) return;
    for (int i = 0; i < n; i++) got[i] = ranks[i] * 1000 + (weighted ? weights[i] : 0);
    qsort(want, (size_t) n, sizeof(int), compare);
    qsort(got, (size_t) n, sizeof(int), compare);
    for (int i = 0; i < n; i++) CHECK_EQ(got[i], want[i]);
}

static void check_graph(MPI_Comm graph, int weighted)
{
    int kind = -1, in = -1, out = -1, flag = -1, sources[200], destinations[200], in_weights[200], out_weights[200];
    CHECK_OK(MPI_Topo_test(graph, &kind));
    CHECK_EQ(kind, MPI_DIST_GRAPH);
    CHECK_OK(MPI_Dist_graph_neighbors_count(graph, &in, &out, &flag));
    CHECK_EQ(flag != 0, weighted);
    for (int i = 0; i < 200; i++) in_weights[i] = out_weights[i] = -1;
    CHECK_OK(MPI_Dist_graph_neighbors(graph, in, sources, weighted ? in_weights : unweighted, out, destinations,
                                      weighted ? out_weights : unweighted));
    check_side(in, sources, in_weights, weighted, 1);
    check_side(out, destinations, out_weights, weighted, 0);
    int again[200], more[200];
    CHECK_OK(MPI_Dist_graph_neighbors(graph, in, again, unweighted, out, more, unweighted));
    for (int i = 0; i < in; i++) CHECK_EQ(again[i], sources[i]);
    for (int i = 0; i < out; i++) CHECK_EQ(more[i], destinations[i]);
}

static void adjacent(int weighted)
{
    MPI_Comm graph, copy;
    int in = 0, out = 0, sources[200], destinations[200], in_weights[200], out_weights[200];
    check_where("adjacent, weighted %d", weighted);
    for (int r = size - 1; r >= 0; r--) {
        for (int k = 0; k < many(r, rank); k++, in++) {
            sources[in] = r;
            in_weights[in] = weight(r, rank, k);
        }
        for (int k = 0; k < many(rank, r); k++, out++) {
            destinations[out] = r;
            out_weights[out] = weight(rank, r, k);
        }
    }
    CHECK_OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, in, sources, weighted ? in_weights : unweighted, out,
                                            destinations, weighted ? out_weights : unweighted, MPI_INFO_NULL, 1, &graph));
    check_graph(graph, weighted);
    int order[200], other[200];
    CHECK_OK(MPI_Dist_graph_neighbors(graph, in, order, unweighted, out, other, unweighted));
    for (int i = 0; i < in; i++) CHECK_EQ(order[i], sources[i]);
    for (int i = 0; i < out; i++) CHECK_EQ(other[i], destinations[i]);
    CHECK_OK(MPI_Comm_dup(graph, &copy));
    CHECK_OK(MPI_Comm_free(&graph));
    check_graph(copy, weighted);
    CHECK_OK(MPI_Comm_free(&copy));
}

static void by_others(int shift, int weighted)
{
    MPI_Comm graph;
    int n = 0, edges = 0, sources[64], degrees[64], destinations[800], weights[800];
    check_where("by others, shift %d, weighted %d", shift, weighted);
    for (int a = 0; a < size; a++) {
        if (shift < 0 ? rank != 0 : (a + shift) % size != rank) continue;
        sources[n] = a;
        degrees[n] = 0;
        for (int b = 0; b < size; b++)
            for (int k = 0; k < many(a, b); k++) {
                destinations[edges] = b;
                weights[edges++] = weight(a, b, k);
                degrees[n]++;
            }
        n++;
    }
    int *given = !weighted ? unweighted : edges ? weights : no_weights;
    CHECK_OK(MPI_Dist_graph_create(MPI_COMM_WORLD, n, sources, degrees, destinations, given, MPI_INFO_NULL, 0, &graph));
    check_graph(graph, weighted);
    CHECK_OK(MPI_Comm_free(&graph));
}

static void errors(void)
{
    MPI_Comm graph = MPI_COMM_NULL;
    int there[2] = {0, size}, degree = 2, one = 1, negative[2] = {1, -3}, last = size - 1;
    check_where("errors of all");
    CHECK_CLASS(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 2, there, unweighted, 0, NULL, unweighted,
                                               MPI_INFO_NULL, 0, &graph), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, -1, there, unweighted, 0, NULL, unweighted,
                                               MPI_INFO_NULL, 0, &graph), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, there, &degree, there, unweighted, MPI_INFO_NULL, 0, &graph),
                MPI_ERR_RANK);
    there[1] = 0;
    CHECK_CLASS(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, there, &degree, there, negative, MPI_INFO_NULL, 0, &graph),
                MPI_ERR_ARG);
    CHECK_CLASS(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, there, &degree, there, no_weights, MPI_INFO_NULL, 0, &graph),
                MPI_ERR_ARG);
    check_where("an error of one");
    int source = rank == last ? size : rank;
    CHECK_CLASS(MPI_Dist_graph_create(MPI_COMM_WORLD, 1, &source, &one, &last, unweighted, MPI_INFO_NULL, 0, &graph),
                rank == last ? MPI_ERR_RANK : MPI_ERR_OTHER);
    CHECK_CLASS(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &source, unweighted, 1, &source, unweighted,
                                               MPI_INFO_NULL, 0, &graph),
                rank == last ? MPI_ERR_RANK : MPI_ERR_OTHER);
    CHECK(graph == MPI_COMM_NULL);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_errors();
    for (int weighted = 0; weighted < 2; weighted++) {
        adjacent(weighted);
        for (int shift = -1; shift < 3; shift++) by_others(shift, weighted);
    }
    errors();
    return check_end();
}
