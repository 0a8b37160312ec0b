// ranks: 1 2 4 7
// transports: one
/* Graph topologies: creation, queries, double edges, inheritance, errors. */
#include "check.h"

/* A ring in which each node gives its neighbours, and rank 0 itself twice besides. */
static int build(int nodes, int *index, int *edges)
{
    int n = 0;
    for (int i = 0; i < nodes; i++) {
        edges[n++] = (i + nodes - 1) % nodes;
        edges[n++] = (i + 1) % nodes;
        if (i == 0) {
            edges[n++] = 0;
            edges[n++] = 0;
        }
        index[i] = n;
    }
    return n;
}

static void check_graph(MPI_Comm graph, int nodes, const int *index, const int *edges)
{
    int kind = -1, n = -1, e = -1, got_index[64], got_edges[200];
    CHECK_OK(MPI_Topo_test(graph, &kind));
    CHECK_EQ(kind, MPI_GRAPH);
    CHECK_OK(MPI_Graphdims_get(graph, &n, &e));
    CHECK_EQ(n, nodes);
    CHECK_EQ(e, index[nodes - 1]);
    CHECK_OK(MPI_Graph_get(graph, n, e, got_index, got_edges));
    for (int i = 0; i < nodes; i++) CHECK_EQ(got_index[i], index[i]);
    for (int i = 0; i < e; i++) CHECK_EQ(got_edges[i], edges[i]);
    for (int r = 0; r < nodes; r++) {
        int degree = -1, first = r ? index[r - 1] : 0, neighbors[8];
        CHECK_OK(MPI_Graph_neighbors_count(graph, r, &degree));
        if (!CHECK_EQ(degree, index[r] - first)) continue;
        CHECK_OK(MPI_Graph_neighbors(graph, r, degree, neighbors));
        for (int i = 0; i < degree; i++) CHECK_EQ(neighbors[i], edges[first + i]);
    }
    CHECK_CLASS(MPI_Graph_neighbors(graph, 0, 1, got_edges), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Graph_get(graph, nodes, e - 1, got_index, got_edges), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Graph_neighbors_count(graph, nodes, &n), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Cartdim_get(graph, &n), MPI_ERR_TOPOLOGY);
    CHECK_CLASS(MPI_Dist_graph_neighbors_count(graph, &n, &n, &n), MPI_ERR_TOPOLOGY);
}

static void one_graph(int nodes)
{
    MPI_Comm graph = MPI_COMM_NULL, copy;
    int index[64], edges[200], map = -1;
    check_where("%d nodes", nodes);
    build(nodes, index, edges);
    CHECK_OK(MPI_Graph_map(MPI_COMM_WORLD, nodes, index, edges, &map));
    CHECK_EQ(map, rank < nodes ? rank : MPI_UNDEFINED);
    CHECK_OK(MPI_Graph_create(MPI_COMM_WORLD, nodes, index, edges, 1, &graph));
    CHECK_EQ(graph == MPI_COMM_NULL, rank >= nodes);
    if (graph == MPI_COMM_NULL) return;
    check_graph(graph, nodes, index, edges);
    CHECK_OK(MPI_Comm_dup(graph, &copy));
    CHECK_OK(MPI_Comm_free(&graph));
    check_graph(copy, nodes, index, edges);
    CHECK_OK(MPI_Comm_free(&copy));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_errors();
    one_graph(size);
    if (size > 1) one_graph(size - 1);
    MPI_Comm none;
    check_where("no nodes");
    CHECK_OK(MPI_Graph_create(MPI_COMM_WORLD, 0, NULL, NULL, 0, &none));
    CHECK(none == MPI_COMM_NULL);
    int index[64], edges[200], r;
    check_where("errors");
    for (int i = 0; i < 64; i++) index[i] = 0;
    CHECK_CLASS(MPI_Graph_create(MPI_COMM_WORLD, size + 1, index, edges, 0, &none), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Graph_create(MPI_COMM_WORLD, -1, index, edges, 0, &none), MPI_ERR_ARG);
    index[0] = -2;
    CHECK_CLASS(MPI_Graph_create(MPI_COMM_WORLD, 1, index, edges, 0, &none), MPI_ERR_ARG);
    build(size, index, edges);
    edges[0] = size;
    CHECK_CLASS(MPI_Graph_create(MPI_COMM_WORLD, size, index, edges, 0, &none), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Graph_neighbors_count(MPI_COMM_WORLD, 0, &r), MPI_ERR_TOPOLOGY);
    return check_end();
}
