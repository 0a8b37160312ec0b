// ranks: 1 2 4
// transports: all
/* In the w forms of collectives the datatype of an empty block may be MPI_DATATYPE_NULL, and is
 * not read. Each rank sends only to the next one. An error about a datatype names the array of
 * datatypes. */
#include "check.h"

enum { FORMS = 6, MOST = 64 };

/* One number to the next rank, or to none. Of `n` blocks, block `to` is sent and block `from` is
 * received. */
struct exchange {
    MPI_Comm comm;
    int n, to, from, is_grid;
};

static int call(struct exchange x, int form, const int *out, int *in, MPI_Datatype sent, MPI_Datatype got)
{
    int counts[MOST] = {0}, rcounts[MOST] = {0}, displs[MOST] = {0}, code;
    MPI_Count many[MOST] = {0}, rmany[MOST] = {0};
    MPI_Aint places[MOST] = {0};
    MPI_Datatype types[MOST], rtypes[MOST];
    MPI_Request request = MPI_REQUEST_NULL;
    for (int k = 0; k < x.n; k++) types[k] = rtypes[k] = MPI_DATATYPE_NULL;
    counts[x.to] = rcounts[x.from] = 1;
    many[x.to] = rmany[x.from] = 1;
    types[x.to] = sent;
    rtypes[x.from] = got;
#define INT_ARGS(d) out, counts, d, types, in, rcounts, d, rtypes, x.comm
#define COUNT_ARGS out, many, places, types, in, rmany, places, rtypes, x.comm
    switch (form + FORMS * x.is_grid) {
    case 0: return MPI_Alltoallw(INT_ARGS(displs));
    case 1: code = MPI_Ialltoallw(INT_ARGS(displs), &request); break;
    case 2: code = MPI_Alltoallw_init(INT_ARGS(displs), MPI_INFO_NULL, &request); break;
    case 3: return MPI_Alltoallw_c(COUNT_ARGS);
    case 4: code = MPI_Ialltoallw_c(COUNT_ARGS, &request); break;
    case 5: code = MPI_Alltoallw_init_c(COUNT_ARGS, MPI_INFO_NULL, &request); break;
    case 6: return MPI_Neighbor_alltoallw(INT_ARGS(places));
    case 7: code = MPI_Ineighbor_alltoallw(INT_ARGS(places), &request); break;
    case 8: code = MPI_Neighbor_alltoallw_init(INT_ARGS(places), MPI_INFO_NULL, &request); break;
    case 9: return MPI_Neighbor_alltoallw_c(COUNT_ARGS);
    case 10: code = MPI_Ineighbor_alltoallw_c(COUNT_ARGS, &request); break;
    default: code = MPI_Neighbor_alltoallw_init_c(COUNT_ARGS, MPI_INFO_NULL, &request); break;
    }
    if (code != MPI_SUCCESS) return code;
    int persistent = form % 3 == 2;
    if (persistent) CHECK_OK(MPI_Start(&request));
    code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (persistent) CHECK_OK(MPI_Request_free(&request));
    return code;
}

static void all_forms(struct exchange x)
{
    for (int form = 0; form < FORMS; form++) {
        int out = 10 + rank, in = -1, length;
        char text[MPI_MAX_ERROR_STRING];
        check_where("%s, form %d", x.is_grid ? "neighbours" : "all", form);
        CHECK_OK(call(x, form, &out, &in, MPI_INT, MPI_INT));
        CHECK_EQ(in, 10 + (rank + size - 1) % size);
        /* All ranks make the error, so none waits. */
        CHECK_CLASS(call(x, form, &out, &in, MPI_INT, MPI_DATATYPE_NULL), MPI_ERR_TYPE);
        CHECK_OK(MPI_Error_string(MPI_ERR_TYPE, text, &length));
        CHECK(strstr(text, "recvtypes[") != NULL);
        CHECK_CLASS(call(x, form, &out, &in, MPI_DATATYPE_NULL, MPI_INT), MPI_ERR_TYPE);
        CHECK_OK(MPI_Error_string(MPI_ERR_TYPE, text, &length));
        CHECK(strstr(text, "sendtypes[") != NULL);
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    struct exchange all = {MPI_COMM_WORLD, size, (rank + 1) % size, (rank + size - 1) % size, 0};
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    all_forms(all);
    struct exchange ring = {MPI_COMM_NULL, 2, 1, 0, 1};
    int periodic = 1;
    CHECK_OK(MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring.comm));
    MPI_Comm_set_errhandler(ring.comm, MPI_ERRORS_RETURN);
    all_forms(ring);
    /* The v forms have one datatype. */
    int count[MOST] = {0}, nothing[MOST] = {0}, length;
    char text[MPI_MAX_ERROR_STRING];
    CHECK_CLASS(MPI_Alltoallv(nothing, count, nothing, MPI_INT, nothing, count, nothing, MPI_DATATYPE_NULL, MPI_COMM_WORLD),
                MPI_ERR_TYPE);
    CHECK_OK(MPI_Error_string(MPI_ERR_TYPE, text, &length));
    CHECK(strstr(text, "recvtype:") != NULL);
    CHECK_OK(MPI_Comm_free(&ring.comm));
    return check_end();
}
