// ranks: 2 3 4 7
// transports: all
/* Collectives of intercommunicators that move data: groups of all sizes, every root, blocking
 * and not, v and w forms. Arguments of ranks that take no part are ignored. */
#include "inter.h"

enum { N = 3 };

static int value_of(int from, int to, int i) { return from * 10000 + to * 100 + i; }

static int count_of(int from, int to) { return (from + 2 * to) % 4; }

static void finish(MPI_Request *request) { CHECK_OK(MPI_Wait(request, MPI_STATUS_IGNORE)); }

#define NOWHERE ((void *) 8)
#define NO_TYPE ((MPI_Datatype) 12345)

static void bcast(int in_lower, int root, int length)
{
    check_where("bcast, cut %d, root %d of %d, %d ints", cut, root, in_lower, length);
    int argument = root_argument(in_lower, root), *data = allocate((size_t) length * sizeof(int));
    int from = world_rank(in_lower, root);
    for (int later = 0; later < 2; later++) {
        MPI_Request request = MPI_REQUEST_NULL;
        for (int i = 0; i < length; i++) data[i] = argument == MPI_ROOT ? value_of(from, later, i) : -1;
        void *buffer = argument == MPI_PROC_NULL ? NOWHERE : data;
        MPI_Datatype type = argument == MPI_PROC_NULL ? NO_TYPE : MPI_INT;
        if (later) CHECK_OK(MPI_Ibcast(buffer, length, type, argument, inter, &request));
        else CHECK_OK(MPI_Bcast(buffer, length, type, argument, inter));
        finish(&request);
        for (int i = 0; i < length; i++)
            if (!CHECK_EQ(data[i], argument == MPI_PROC_NULL ? -1 : value_of(from, later, i))) break;
    }
    free(data);
}

static void gather_and_scatter(int in_lower, int root)
{
    int argument = root_argument(in_lower, root), is_root = argument == MPI_ROOT, idle = argument == MPI_PROC_NULL;
    int who = world_rank(in_lower, root), one[N], many[64 * N], counts[64], displs[64];
    for (int later = 0; later < 2; later++) {
        MPI_Request request = MPI_REQUEST_NULL;
        check_where("gather, cut %d, root %d of %d, later %d", cut, root, in_lower, later);
        for (int i = 0; i < N; i++) one[i] = value_of(rank, who, i);
        memset(many, 0xff, sizeof many);
        void *send = is_root || idle ? NOWHERE : (void *) one, *receive = is_root ? (void *) many : NOWHERE;
        MPI_Datatype stype = is_root || idle ? NO_TYPE : MPI_INT, rtype = is_root ? MPI_INT : NO_TYPE;
        if (later) CHECK_OK(MPI_Igather(send, N, stype, receive, N, rtype, argument, inter, &request));
        else CHECK_OK(MPI_Gather(send, N, stype, receive, N, rtype, argument, inter));
        finish(&request);
        for (int r = 0; is_root && r < theirs; r++)
            for (int i = 0; i < N; i++) CHECK_EQ(many[r * N + i], value_of(there(r), rank, i));

        check_where("scatter, cut %d, root %d of %d, later %d", cut, root, in_lower, later);
        for (int r = 0; r < theirs; r++)
            for (int i = 0; i < N; i++) many[r * N + i] = value_of(rank, there(r), i);
        memset(one, 0xff, sizeof one);
        send = is_root ? (void *) many : NOWHERE;
        receive = is_root || idle ? NOWHERE : (void *) one;
        if (later) CHECK_OK(MPI_Iscatter(send, N, rtype, receive, N, stype, argument, inter, &request));
        else CHECK_OK(MPI_Scatter(send, N, rtype, receive, N, stype, argument, inter));
        finish(&request);
        for (int i = 0; i < N; i++) CHECK_EQ(one[i], is_root || idle ? -1 : value_of(who, rank, i));

        check_where("gatherv, cut %d, root %d of %d, later %d", cut, root, in_lower, later);
        for (int r = 0; r < theirs; r++) {
            counts[r] = count_of(there(r), rank);
            displs[r] = (theirs - 1 - r) * (N + 1);
        }
        int own = count_of(rank, who), some[N];
        int wide[64 * (N + 1)];
        memset(wide, 0xff, sizeof wide);
        for (int i = 0; i < N; i++) some[i] = value_of(rank, who, i);
        send = is_root || idle ? NOWHERE : (void *) some;
        receive = is_root ? (void *) wide : NOWHERE;
        int *c = is_root ? counts : NOWHERE, *d = is_root ? displs : NOWHERE;
        if (later) CHECK_OK(MPI_Igatherv(send, own, stype, receive, c, d, rtype, argument, inter, &request));
        else CHECK_OK(MPI_Gatherv(send, own, stype, receive, c, d, rtype, argument, inter));
        finish(&request);
        for (int r = 0; is_root && r < theirs; r++)
            for (int i = 0; i < N + 1; i++)
                CHECK_EQ(wide[displs[r] + i], i < counts[r] ? value_of(there(r), rank, i) : -1);

        check_where("scatterv, cut %d, root %d of %d, later %d", cut, root, in_lower, later);
        for (int r = 0; r < theirs; r++)
            for (int i = 0; i < N; i++) wide[displs[r] + i] = value_of(rank, there(r), i);
        memset(some, 0xff, sizeof some);
        own = count_of(rank, who);
        send = is_root ? (void *) wide : NOWHERE;
        receive = is_root || idle ? NOWHERE : (void *) some;
        if (later) CHECK_OK(MPI_Iscatterv(send, c, d, rtype, receive, own, stype, argument, inter, &request));
        else CHECK_OK(MPI_Scatterv(send, c, d, rtype, receive, own, stype, argument, inter));
        finish(&request);
        for (int i = 0; i < N; i++) CHECK_EQ(some[i], !is_root && !idle && i < own ? value_of(who, rank, i) : -1);
    }
}

static void all_to_all(int later)
{
    int send[64 * N], receive[64 * (N + 1)], counts[64], displs[64], rcounts[64], rdispls[64], bytes[64], rbytes[64];
    MPI_Datatype types[64];
    MPI_Request request = MPI_REQUEST_NULL;
    check_where("allgather, cut %d, later %d", cut, later);
    int given = lower ? 2 : 0, taken = lower ? 0 : 2;
    for (int i = 0; i < N; i++) send[i] = value_of(rank, 0, i);
    memset(receive, 0xff, sizeof receive);
    if (later) CHECK_OK(MPI_Iallgather(send, given, MPI_INT, receive, taken, MPI_INT, inter, &request));
    else CHECK_OK(MPI_Allgather(send, given, MPI_INT, receive, taken, MPI_INT, inter));
    finish(&request);
    for (int r = 0; r < theirs; r++)
        for (int i = 0; i < taken; i++) CHECK_EQ(receive[r * taken + i], value_of(there(r), 0, i));
    CHECK_EQ(receive[theirs * taken], -1);

    check_where("allgatherv, cut %d, later %d", cut, later);
    for (int r = 0; r < theirs; r++) {
        rcounts[r] = count_of(there(r), 1);
        rdispls[r] = (theirs - 1 - r) * (N + 1);
    }
    memset(receive, 0xff, sizeof receive);
    int own = count_of(rank, 1);
    if (later) CHECK_OK(MPI_Iallgatherv(send, own, MPI_INT, receive, rcounts, rdispls, MPI_INT, inter, &request));
    else CHECK_OK(MPI_Allgatherv(send, own, MPI_INT, receive, rcounts, rdispls, MPI_INT, inter));
    finish(&request);
    for (int r = 0; r < theirs; r++)
        for (int i = 0; i < N + 1; i++) CHECK_EQ(receive[rdispls[r] + i], i < rcounts[r] ? value_of(there(r), 0, i) : -1);

    check_where("alltoall, cut %d, later %d", cut, later);
    for (int r = 0; r < theirs; r++) {
        counts[r] = count_of(rank, there(r));
        rcounts[r] = count_of(there(r), rank);
        displs[r] = r * N;
        bytes[r] = displs[r] * (int) sizeof(int);
        rbytes[r] = rdispls[r] * (int) sizeof(int);
        types[r] = MPI_INT;
        for (int i = 0; i < N; i++) send[r * N + i] = value_of(rank, there(r), i);
    }
    if (later) CHECK_OK(MPI_Ialltoall(send, N, MPI_INT, receive, N, MPI_INT, inter, &request));
    else CHECK_OK(MPI_Alltoall(send, N, MPI_INT, receive, N, MPI_INT, inter));
    finish(&request);
    for (int r = 0; r < theirs; r++)
        for (int i = 0; i < N; i++) CHECK_EQ(receive[r * N + i], value_of(there(r), rank, i));

    for (int w = 0; w < 2; w++) {
        check_where("alltoall%c, cut %d, later %d", w ? 'w' : 'v', cut, later);
        memset(receive, 0xff, sizeof receive);
        if (w && later)
            CHECK_OK(MPI_Ialltoallw(send, counts, bytes, types, receive, rcounts, rbytes, types, inter, &request));
        else if (w)
            CHECK_OK(MPI_Alltoallw(send, counts, bytes, types, receive, rcounts, rbytes, types, inter));
        else if (later)
            CHECK_OK(MPI_Ialltoallv(send, counts, displs, MPI_INT, receive, rcounts, rdispls, MPI_INT, inter, &request));
        else
            CHECK_OK(MPI_Alltoallv(send, counts, displs, MPI_INT, receive, rcounts, rdispls, MPI_INT, inter));
        finish(&request);
        for (int r = 0; r < theirs; r++)
            for (int i = 0; i < N + 1; i++)
                CHECK_EQ(receive[rdispls[r] + i], i < rcounts[r] ? value_of(there(r), rank, i) : -1);
    }
}

static void barriers(void)
{
    MPI_Request request;
    check_where("barrier, cut %d", cut);
    CHECK_OK(MPI_Barrier(inter));
    CHECK_OK(MPI_Ibarrier(inter, &request));
    finish(&request);
}

static void errors(void)
{
    int x[64] = {0}, request_root = theirs;
    check_where("errors, cut %d", cut);
    CHECK_CLASS(MPI_Bcast(x, 1, MPI_INT, request_root, inter), MPI_ERR_ROOT);
    CHECK_CLASS(MPI_Bcast(x, 1, MPI_INT, -9, inter), MPI_ERR_ROOT);
    CHECK_CLASS(MPI_Scan(x, x + 1, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Exscan(x, x + 1, 1, MPI_INT, MPI_SUM, inter), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Allgather(MPI_IN_PLACE, 1, MPI_INT, x, 1, MPI_INT, inter), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Neighbor_allgather(x, 1, MPI_INT, x, 1, MPI_INT, inter), MPI_ERR_TOPOLOGY);
    MPI_Comm grid;
    int dim = 1, period = 0;
    CHECK_CLASS(MPI_Cart_create(inter, 1, &dim, &period, 0, &grid), MPI_ERR_COMM);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    for (int at = 1; at < size; at++) {
        make_groups(at);
        barriers();
        for (int in_lower = 0; in_lower < 2; in_lower++)
            for (int root = 0; root < (in_lower ? cut : size - cut); root++) {
                bcast(in_lower, root, 1);
                bcast(in_lower, root, 30000);
                gather_and_scatter(in_lower, root);
            }
        all_to_all(0);
        all_to_all(1);
        errors();
        barriers();
        free_groups();
    }
    return check_end();
}
