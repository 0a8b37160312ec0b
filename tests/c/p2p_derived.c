// ranks: 1 2 4 7
// transports: all
// every day: shm-denied shm-single-copy usysv sysv tcp-encrypted nodes lamd ofi
/* Derived types in messages: different layouts on both sides with one signature; gaps stay
 * unchanged. */
#include "check.h"

#include <stddef.h>

static int to, from;

static void exchange(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type,
                     MPI_Status *status)
{
    static int round;
    MPI_Request request;
    if (round++ % 2) {
        CHECK_OK(MPI_Sendrecv(out, out_count, out_type, to, 1, in, in_count, in_type, from, 1, MPI_COMM_WORLD, status));
        return;
    }
    CHECK_OK(MPI_Isend(out, out_count, out_type, to, 1, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Recv(in, in_count, in_type, from, 1, MPI_COMM_WORLD, status));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static int int_at(int whose, int i) { return whose * 1000003 + i; }

static MPI_Datatype committed(MPI_Datatype type)
{
    CHECK_OK(MPI_Type_commit(&type));
    return type;
}

static void vectors(int blocks, int length, int stride)
{
    check_where("vector of %d blocks of %d, stride %d", blocks, length, stride);
    int n = blocks * length, span = (blocks - 1) * stride + length;
    int *spread = allocate(span * sizeof *spread), *plain = allocate(n * sizeof *plain);
    int *in = allocate((2 * n + span) * sizeof *in), count = -1;
    MPI_Datatype vector, pairs;
    MPI_Status status;
    for (int i = 0; i < span; i++) spread[i] = int_at(rank, i);
    for (int i = 0; i < n; i++) plain[i] = int_at(rank, i);
    CHECK_OK(MPI_Type_vector(blocks, length, stride, MPI_INT, &vector));
    CHECK_OK(MPI_Type_create_hvector(n, 1, 2 * sizeof(int), MPI_INT, &pairs));
    vector = committed(vector);
    pairs = committed(pairs);
    MPI_Aint lb = -1, extent = -1;
    int bytes = -1;
    CHECK_OK(MPI_Type_get_extent(vector, &lb, &extent));
    CHECK_OK(MPI_Type_size(vector, &bytes));
    CHECK_EQ(lb, 0);
    CHECK_EQ(extent, span * sizeof(int));
    CHECK_EQ(bytes, n * sizeof(int));

    memset(in, 0x55, n * sizeof *in);
    exchange(spread, 1, vector, in, n, MPI_INT, &status);
    CHECK_STATUS(&status, from, 1, n * (int) sizeof(int));
    CHECK_OK(MPI_Get_count(&status, vector, &count));
    CHECK_EQ(count, 1);
    for (int i = 0; i < n; i++)
        if (!CHECK_EQ(in[i], int_at(from, i / length * stride + i % length))) break;

    memset(in, 0x55, span * sizeof *in);
    exchange(plain, n, MPI_INT, in, 1, vector, &status);
    for (int i = 0; i < span; i++)
        if (!CHECK_EQ(in[i], i % stride < length ? int_at(from, i / stride * length + i % stride) : 0x55555555)) break;

    memset(in, 0x55, 2 * n * sizeof *in);
    exchange(spread, 1, vector, in, 1, pairs, &status);
    for (int i = 0; i < 2 * n - 1; i++)
        if (!CHECK_EQ(in[i], i % 2 ? 0x55555555 : int_at(from, i / 2 / length * stride + i / 2 % length))) break;

    CHECK_OK(MPI_Type_free(&vector));
    CHECK(vector == MPI_DATATYPE_NULL);
    CHECK_OK(MPI_Type_free(&pairs));
    free(spread);
    free(plain);
    free(in);
}

struct particle { double mass; char kind; int id[3]; short charge; };

static MPI_Datatype particle_type(int resized)
{
    int lengths[4] = {1, 1, 3, 1};
    MPI_Aint places[4] = {offsetof(struct particle, mass), offsetof(struct particle, kind), offsetof(struct particle, id),
                          offsetof(struct particle, charge)};
    MPI_Datatype types[4] = {MPI_DOUBLE, MPI_CHAR, MPI_INT, MPI_SHORT}, plain, result;
    CHECK_OK(MPI_Type_create_struct(4, lengths, places, types, &plain));
    if (!resized) return committed(plain);
    CHECK_OK(MPI_Type_create_resized(plain, 0, sizeof(struct particle), &result));
    CHECK_OK(MPI_Type_free(&plain)); /* the resized type has its own reference */
    return committed(result);
}

static void structs(int n)
{
    check_where("%d structs", n);
    struct particle *out = allocate(n * sizeof *out), *in = allocate(n * sizeof *in);
    memset(out, 0xaa, n * sizeof *out);
    memset(in, 0x55, n * sizeof *in);
    for (int i = 0; i < n; i++) {
        out[i].mass = rank + i / 16.0;
        out[i].kind = (char) ('a' + i % 26);
        for (int k = 0; k < 3; k++) out[i].id[k] = int_at(rank, 3 * i + k);
        out[i].charge = (short) (i - rank);
    }
    MPI_Status status;
    MPI_Datatype type = particle_type(1);
    int count = -1, bytes = -1;
    CHECK_OK(MPI_Type_size(type, &bytes));
    CHECK_EQ(bytes, sizeof(double) + 1 + 3 * sizeof(int) + sizeof(short));
    exchange(out, n, type, in, n, type, &status);
    CHECK_OK(MPI_Get_count(&status, type, &count));
    CHECK_EQ(count, n);
    for (int i = 0; i < n; i++) {
        int good = in[i].mass == from + i / 16.0 && in[i].kind == 'a' + i % 26 && in[i].id[0] == int_at(from, 3 * i) &&
                   in[i].id[2] == int_at(from, 3 * i + 2) && in[i].charge == (short) (i - from);
        if (!CHECK(good)) break;
        const size_t after_kind = offsetof(struct particle, kind) + 1, after_all = offsetof(struct particle, charge) + 2;
        if (!CHECK_EQ(bytes_differ(&in[i], after_kind, offsetof(struct particle, id), 0x55), -1)) break;
        if (!CHECK_EQ(bytes_differ(&in[i], after_all, sizeof in[i], 0x55), -1)) break;
    }
    CHECK_OK(MPI_Type_free(&type));
    free(out);
    free(in);
}

/* Padding at the end: {double, char} has extent 16, and the true extent ends at the char. */
static void extents(void)
{
    check_where("extents");
    int lengths[2] = {1, 1};
    MPI_Aint places[2] = {0, 8}, lb, extent;
    MPI_Datatype types[2] = {MPI_DOUBLE, MPI_CHAR}, type, negative, twice;
    CHECK_OK(MPI_Type_create_struct(2, lengths, places, types, &type));
    CHECK_OK(MPI_Type_get_extent(type, &lb, &extent));
    CHECK_EQ(lb, 0);
    CHECK_EQ(extent, 16);
    CHECK_OK(MPI_Type_get_true_extent(type, &lb, &extent));
    CHECK_EQ(lb, 0);
    CHECK_EQ(extent, 9);
    CHECK_OK(MPI_Type_free(&type));

    /* A lower bound below zero, and a resized type of a resized type. */
    MPI_Aint back[2] = {-8, 4};
    MPI_Datatype ints[2] = {MPI_INT, MPI_INT};
    CHECK_OK(MPI_Type_create_struct(2, lengths, back, ints, &negative));
    CHECK_OK(MPI_Type_get_extent(negative, &lb, &extent));
    CHECK_EQ(lb, -8);
    CHECK_EQ(extent, 16);
    CHECK_OK(MPI_Type_create_resized(negative, -16, 40, &type));
    CHECK_OK(MPI_Type_create_resized(type, -4, 12, &twice));
    CHECK_OK(MPI_Type_get_extent(twice, &lb, &extent));
    CHECK_EQ(lb, -4);
    CHECK_EQ(extent, 12);
    CHECK_OK(MPI_Type_get_true_extent(twice, &lb, &extent));
    CHECK_EQ(lb, -8);
    CHECK_EQ(extent, 16);
    twice = committed(twice);
    int out[20], in[8], want[8], n = 0;
    MPI_Status status;
    for (int i = 0; i < 20; i++) out[i] = int_at(rank, i);
    for (int i = 0; i < 4; i++) {
        want[n++] = int_at(from, 4 + 3 * i - 2);
        want[n++] = int_at(from, 4 + 3 * i + 1);
    }
    exchange(out + 4, 4, twice, in, 8, MPI_INT, &status);
    for (int i = 0; i < 8; i++) CHECK_EQ(in[i], want[i]);
    CHECK_OK(MPI_Type_free(&twice));
    CHECK_OK(MPI_Type_free(&type));
    CHECK_OK(MPI_Type_free(&negative));

    MPI_Datatype backwards;
    CHECK_OK(MPI_Type_vector(8, 1, -1, MPI_INT, &backwards));
    CHECK_OK(MPI_Type_get_extent(backwards, &lb, &extent));
    CHECK_EQ(lb, -28);
    CHECK_EQ(extent, 32);
    backwards = committed(backwards);
    exchange(out + 7, 1, backwards, in, 8, MPI_INT, &status);
    for (int i = 0; i < 8; i++) CHECK_EQ(in[i], int_at(from, 7 - i));
    CHECK_OK(MPI_Type_free(&backwards));
}

static void transpose(int n)
{
    check_where("transpose of %d by %d", n, n);
    int *out = allocate((size_t) n * n * sizeof *out), *in = allocate((size_t) n * n * sizeof *in);
    MPI_Datatype column, spaced, columns;
    MPI_Status status;
    for (int i = 0; i < n * n; i++) out[i] = int_at(rank, i);
    CHECK_OK(MPI_Type_vector(n, 1, n, MPI_INT, &column));
    CHECK_OK(MPI_Type_create_resized(column, 0, sizeof(int), &spaced));
    CHECK_OK(MPI_Type_contiguous(n, spaced, &columns));
    columns = committed(columns);
    CHECK_OK(MPI_Type_free(&column));
    CHECK_OK(MPI_Type_free(&spaced));
    memset(in, 0, (size_t) n * n * sizeof *in);
    exchange(out, 1, columns, in, n * n, MPI_INT, &status);
    for (int i = 0; i < n * n; i++)
        if (!CHECK_EQ(in[i], int_at(from, i % n * n + i / n))) break;
    memset(in, 0, (size_t) n * n * sizeof *in);
    exchange(out, n * n, MPI_INT, in, 1, columns, &status);
    for (int i = 0; i < n * n; i++)
        if (!CHECK_EQ(in[i], int_at(from, i % n * n + i / n))) break;
    CHECK_OK(MPI_Type_free(&columns));
    free(out);
    free(in);
}

static void nested(void)
{
    enum { COUNT = 30 };
    check_where("nested");
    struct outer { short tag; struct particle pair[2]; float weight[4]; };
    MPI_Datatype inner = particle_type(1), two_weights, outer, spaced, all;
    CHECK_OK(MPI_Type_vector(2, 1, 3, MPI_FLOAT, &two_weights)); /* weight[0] and weight[3] */
    int lengths[3] = {1, 2, 1};
    MPI_Aint places[3] = {offsetof(struct outer, tag), offsetof(struct outer, pair), offsetof(struct outer, weight)};
    MPI_Datatype types[3] = {MPI_SHORT, inner, two_weights};
    CHECK_OK(MPI_Type_create_struct(3, lengths, places, types, &outer));
    CHECK_OK(MPI_Type_create_resized(outer, 0, sizeof(struct outer), &spaced));
    CHECK_OK(MPI_Type_vector(COUNT / 2, 1, 2, spaced, &all)); /* every other one */
    all = committed(all);
    CHECK_OK(MPI_Type_free(&inner));
    CHECK_OK(MPI_Type_free(&two_weights));
    CHECK_OK(MPI_Type_free(&outer));
    static struct outer out[COUNT], in[COUNT];
    memset(out, 0, sizeof out);
    memset(in, 0x55, sizeof in);
    for (int i = 0; i < COUNT; i++) {
        out[i].tag = (short) i;
        for (int k = 0; k < 2; k++) out[i].pair[k] = (struct particle){rank + i + k, 'x', {i, k, rank}, (short) (i * k)};
        for (int k = 0; k < 4; k++) out[i].weight[k] = (float) (i + k + rank);
    }
    MPI_Status status;
    exchange(out, 1, all, in, 1, all, &status);
    for (int i = 0; i < COUNT; i++) {
        if (i % 2) {
            CHECK_EQ(bytes_differ(&in[i], 0, sizeof in[i], 0x55), -1);
            continue;
        }
        CHECK_EQ(in[i].tag, i);
        CHECK(in[i].pair[1].mass == from + i + 1 && in[i].pair[1].id[0] == i && in[i].pair[1].id[1] == 1 &&
              in[i].pair[1].id[2] == from && in[i].pair[0].kind == 'x' && in[i].pair[1].charge == (short) i);
        CHECK(in[i].weight[0] == (float) (i + from) && in[i].weight[3] == (float) (i + 3 + from));
        CHECK_EQ(bytes_differ(&in[i].weight[1], 0, 2 * sizeof(float), 0x55), -1);
    }
    CHECK_OK(MPI_Type_free(&all));
    CHECK_OK(MPI_Type_free(&spaced));
}

static void counts(void)
{
    check_where("Get_count");
    MPI_Datatype three, nothing;
    MPI_Status status;
    int values[9] = {0}, in[12], count = -1;
    CHECK_OK(MPI_Type_contiguous(3, MPI_INT, &three));
    three = committed(three);
    for (int n = 0; n <= 9; n++) {
        exchange(values, n, MPI_INT, in, 4, three, &status);
        CHECK_OK(MPI_Get_count(&status, three, &count));
        CHECK_EQ(count, n % 3 ? MPI_UNDEFINED : n / 3);
        CHECK_OK(MPI_Get_count(&status, MPI_INT, &count));
        CHECK_EQ(count, n);
        CHECK_OK(MPI_Get_count(&status, MPI_DOUBLE, &count));
        CHECK_EQ(count, n % 2 ? MPI_UNDEFINED : n / 2);
    }
    CHECK_OK(MPI_Type_contiguous(0, MPI_INT, &nothing));
    nothing = committed(nothing);
    int bytes = -1;
    CHECK_OK(MPI_Type_size(nothing, &bytes));
    CHECK_EQ(bytes, 0);
    exchange(values, 5, nothing, in, 7, nothing, &status);
    CHECK_STATUS(&status, from, 1, 0);
    CHECK_OK(MPI_Get_count(&status, nothing, &count));
    CHECK_EQ(count, 0);
    CHECK_OK(MPI_Type_free(&nothing));
    CHECK_OK(MPI_Type_free(&three));
}

static void freed_under_way(int n)
{
    check_where("type freed under way, %d", n);
    int *out = allocate(2 * (size_t) n * sizeof *out), *in = allocate(2 * (size_t) n * sizeof *in);
    MPI_Request requests[2];
    MPI_Datatype every_other;
    for (int i = 0; i < 2 * n; i++) {
        out[i] = int_at(rank, i);
        in[i] = -1;
    }
    CHECK_OK(MPI_Type_vector(n, 1, 2, MPI_INT, &every_other));
    every_other = committed(every_other);
    CHECK_OK(MPI_Irecv(in, 1, every_other, from, 1, MPI_COMM_WORLD, &requests[0]));
    CHECK_OK(MPI_Isend(out, 1, every_other, to, 1, MPI_COMM_WORLD, &requests[1]));
    CHECK_OK(MPI_Type_free(&every_other));
    CHECK_OK(MPI_Waitall(2, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < 2 * n; i++)
        if (!CHECK_EQ(in[i], i % 2 ? -1 : int_at(from, i))) break;
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    to = (rank + 1) % size;
    from = (rank + size - 1) % size;
    static const int shapes[][3] = {{1, 1, 1}, {3, 2, 5}, {7, 1, 2}, {14, 1, 2}, {15, 1, 3}, {64, 4, 9}, {1000, 1, 2},
                                    {4096, 1, 2}, {4097, 1, 2}, {300, 50, 51}, {20000, 1, 4}, {5, 9000, 9001}, {50000, 2, 3}};
    for (unsigned i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        for (int repeat = 0; repeat < 2; repeat++) vectors(shapes[i][0], shapes[i][1], shapes[i][2]);
    structs(1);
    structs(2);
    structs(3);
    structs(1000);
    structs(9000);
    extents();
    transpose(3);
    transpose(40);
    transpose(200);
    nested();
    counts();
    freed_under_way(10);
    freed_under_way(100000);
    return check_end();
}
