// ranks: 1 2 4 7
// transports: all
// not over: ofi, because each split there takes about 94 bytes, for an unknown reason
/* Groups and communicators of every kind, made and freed many times: memory stays constant, and
 * nothing runs out. */
#include "comms.h"

/* KiB of this process without shared memory. */
static long resident_kb(void)
{
    char line[256];
    long kb = -1;
    FILE *status = fopen("/proc/self/status", "r");
    if (!CHECK(status != NULL)) return 0;
    while (fgets(line, sizeof line, status))
        if (sscanf(line, "RssAnon: %ld", &kb) == 1) break;
    fclose(status);
    CHECK(kb > 0);
    return kb;
}

static MPI_Group world;
static MPI_Comm half, inter;

static void groups(void)
{
    int first = 0, range[1][3] = {{size - 1, 0, -1}};
    MPI_Group all, one, turned, rest, both;
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &all));
    CHECK_OK(MPI_Group_incl(all, 1, &first, &one));
    CHECK_OK(MPI_Group_range_incl(all, 1, range, &turned));
    CHECK_OK(MPI_Group_difference(turned, one, &rest));
    CHECK_OK(MPI_Group_union(one, rest, &both));
    MPI_Group made[] = {all, one, turned, rest, both};
    for (int i = 0; i < 5; i++) CHECK_OK(MPI_Group_free(&made[i]));
}

static void end(MPI_Comm *comm)
{
    if (*comm != MPI_COMM_NULL) CHECK_OK(MPI_Comm_free(comm));
}

static void duplicate(void)
{
    MPI_Comm comm;
    CHECK_OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    end(&comm);
}

static void begin_duplicate(void)
{
    MPI_Comm comm;
    MPI_Request request;
    CHECK_OK(MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    end(&comm);
}

static void split(void)
{
    MPI_Comm comm;
    CHECK_OK(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comm));
    CHECK_OK(MPI_Comm_disconnect(&comm));
}

static void split_type(void)
{
    MPI_Comm comm;
    CHECK_OK(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &comm));
    end(&comm);
}

static void create(void)
{
    MPI_Comm comm;
    CHECK_OK(MPI_Comm_create(MPI_COMM_WORLD, world, &comm));
    end(&comm);
}

static void create_group(void)
{
    MPI_Comm comm;
    CHECK_OK(MPI_Comm_create_group(MPI_COMM_WORLD, world, 1, &comm));
    end(&comm);
}

static void inter_create(void)
{
    MPI_Comm comm;
    CHECK_OK(MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 1, &comm));
    end(&comm);
}

static void inter_dup(void)
{
    MPI_Comm comm;
    CHECK_OK(MPI_Comm_dup(inter, &comm));
    end(&comm);
}

static void inter_split(void)
{
    MPI_Comm comm;
    CHECK_OK(MPI_Comm_split(inter, rank / 2, 0, &comm));
    end(&comm);
}

static void merge(void)
{
    MPI_Comm comm;
    CHECK_OK(MPI_Intercomm_merge(inter, rank % 2, &comm));
    end(&comm);
}

static void failures(void)
{
    MPI_Comm comm;
    MPI_Group group;
    CHECK_CLASS(MPI_Comm_dup(MPI_COMM_WORLD, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Comm_split(MPI_COMM_WORLD, -5, 0, &comm), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Comm_create(MPI_COMM_WORLD, MPI_GROUP_NULL, &comm), MPI_ERR_GROUP);
    CHECK_CLASS(MPI_Comm_create_group(MPI_COMM_WORLD, world, -1, &comm), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Intercomm_create(MPI_COMM_SELF, 0, MPI_COMM_SELF, 0, 1, &comm), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Group_incl(world, 1, &size, &group), MPI_ERR_RANK);
}

/* Memory may grow while tables and pools fill, and then no more: a leak grows in every
 * measurement. */
static void flat(const char *what, void (*round)(void), int rounds)
{
    enum { MEASUREMENTS = 3 };
    check_where("%s", what);
    for (int i = 0; i < rounds / 2; i++) round();
    long grown = 0;
    int all_flat = 0;
    for (int m = 0; m < MEASUREMENTS && !all_flat; m++) {
        CHECK_OK(MPI_Barrier(MPI_COMM_WORLD));
        long before = resident_kb();
        for (int i = 0; i < rounds; i++) {
            round();
            if (i % 100 == 0) CHECK_OK(MPI_Barrier(MPI_COMM_WORLD)); /* no rank is far ahead of a slow one */
        }
        grown = resident_kb() - before;
        int flat = grown <= 400;
        CHECK_OK(MPI_Allreduce(&flat, &all_flat, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD));
    }
    check_report(all_flat, __FILE__, __LINE__, "%d rounds took %ld kB more", rounds, grown);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_all_errors();
    CHECK_OK(MPI_Comm_group(MPI_COMM_WORLD, &world));
    int many = scaled(10000), fewer = scaled(size > 2 ? 2000 : 5000);
    flat("groups", groups, many);
    flat("dup", duplicate, fewer);
    flat("idup", begin_duplicate, fewer);
    flat("split", split, fewer);
    flat("split_type", split_type, fewer);
    flat("create", create, fewer);
    flat("create_group", create_group, fewer);
    flat("failures", failures, fewer / 4);
    if (size > 1) {
        inter = even_odd(&half, 1);
        flat("intercomm_create", inter_create, fewer);
        flat("dup of an intercommunicator", inter_dup, fewer);
        flat("split of an intercommunicator", inter_split, fewer);
        flat("merge", merge, fewer);
        CHECK_OK(MPI_Comm_free(&inter));
        CHECK_OK(MPI_Comm_free(&half));
    }
    use(MPI_COMM_WORLD);
    CHECK_OK(MPI_Group_free(&world));
    return check_end();
}
