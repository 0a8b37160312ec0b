// ranks: 1 2 3
// transports: all
/* Bounds of structs: the padding of C, negative bounds and extents, resized of resized, explicit
 * bounds of a member. */
#include "check.h"

static void bounds(const char *what, MPI_Datatype type, long size, long lb, long extent, long true_lb, long true_extent)
{
    int bytes;
    MPI_Aint got_lb, got_extent, got_true_lb, got_true_extent;
    check_where("%s", what);
    CHECK_OK(MPI_Type_size(type, &bytes));
    CHECK_OK(MPI_Type_get_extent(type, &got_lb, &got_extent));
    CHECK_OK(MPI_Type_get_true_extent(type, &got_true_lb, &got_true_extent));
    CHECK_EQ(bytes, size);
    CHECK_EQ(got_lb, lb);
    CHECK_EQ(got_extent, extent);
    CHECK_EQ(got_true_lb, true_lb);
    CHECK_EQ(got_true_extent, true_extent);
}

static MPI_Datatype pair(MPI_Datatype first, MPI_Aint at, MPI_Datatype second, MPI_Aint second_at)
{
    MPI_Datatype type, members[2] = {first, second};
    int lengths[2] = {1, 1};
    MPI_Aint places[2] = {at, second_at};
    CHECK_OK(MPI_Type_create_struct(2, lengths, places, members, &type));
    return type;
}

static MPI_Datatype resized(MPI_Datatype old, MPI_Aint lb, MPI_Aint extent)
{
    MPI_Datatype type;
    CHECK_OK(MPI_Type_create_resized(old, lb, extent, &type));
    return type;
}

static void all_bounds(void)
{
    MPI_Datatype a = pair(MPI_DOUBLE, 0, MPI_CHAR, 8), b, c, d;
    bounds("double, char", a, 9, 0, 16, 0, 9);
    CHECK_OK(MPI_Type_contiguous(3, a, &b));
    bounds("three of it", b, 27, 0, 48, 0, 41);
    CHECK_OK(MPI_Type_free(&b));
    b = pair(MPI_CHAR, -3, MPI_DOUBLE, 5);
    bounds("char, double, from below zero", b, 9, -3, 16, -3, 16);
    CHECK_OK(MPI_Type_free(&b));
    b = resized(a, -8, 40);
    bounds("resized", b, 9, -8, 40, 0, 9);
    c = resized(b, 2, 4);
    bounds("resized again", c, 9, 2, 4, 0, 9);
    d = pair(c, 100, MPI_INT, 0);
    bounds("marks of a member win", d, 13, 102, 4, 0, 109);
    CHECK_OK(MPI_Type_free(&d));
    CHECK_OK(MPI_Type_vector(3, 1, -1, b, &d));
    bounds("backwards", d, 27, -88, 120, -80, 89);
    CHECK_OK(MPI_Type_free(&d));
    d = resized(MPI_INT, 0, -4);
    bounds("negative extent", d, 4, 0, -4, 0, 4);
    CHECK_OK(MPI_Type_free(&c));
    CHECK_OK(MPI_Type_contiguous(3, d, &c));
    bounds("three of negative extent", c, 12, -8, 4, -8, 12);
    CHECK_OK(MPI_Type_free(&c));
    CHECK_OK(MPI_Type_dup(b, &c));
    bounds("copy", c, 9, -8, 40, 0, 9);
    CHECK_OK(MPI_Type_free(&c));
    int lengths[2] = {1, 0};
    MPI_Aint places[2] = {4, 400};
    MPI_Datatype members[2] = {MPI_INT, b};
    CHECK_OK(MPI_Type_create_struct(2, lengths, places, members, &c));
    bounds("a member without elements", c, 4, 4, 4, 4, 4);
    CHECK_OK(MPI_Type_free(&c));
    CHECK_OK(MPI_Type_create_struct(0, NULL, NULL, NULL, &c));
    bounds("no members", c, 0, 0, 0, 0, 0);
    CHECK_OK(MPI_Type_free(&c));
    CHECK_OK(MPI_Type_free(&a));
    CHECK_OK(MPI_Type_free(&b));
    CHECK_OK(MPI_Type_free(&d));
}

static void messages(void)
{
    struct item { char kind; double weight; short n; } items[5], got[5];
    int to = (rank + 1) % size, from = (rank + size - 1) % size, numbers[6], reversed[6];
    int lengths[3] = {1, 1, 1};
    MPI_Aint places[3] = {0, 8, 16};
    MPI_Datatype members[3] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT}, back, type;
    back = resized(MPI_INT, 0, -(MPI_Aint) sizeof(int));
    CHECK_OK(MPI_Type_commit(&back));
    check_where("an array in reverse");
    for (int i = 0; i < 6; i++) numbers[i] = 10 * rank + i;
    CHECK_OK(MPI_Sendrecv(&numbers[5], 6, back, to, 0, reversed, 6, MPI_INT, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < 6; i++) CHECK_EQ(reversed[i], 10 * from + 5 - i);
    CHECK_OK(MPI_Sendrecv(numbers, 6, MPI_INT, to, 0, &reversed[5], 6, back, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < 6; i++) CHECK_EQ(reversed[i], 10 * from + 5 - i);
    CHECK_OK(MPI_Type_free(&back));

    check_where("an array of structs");
    CHECK_OK(MPI_Type_create_struct(3, lengths, places, members, &type));
    CHECK_OK(MPI_Type_commit(&type));
    bounds("char, double, short", type, 11, 0, sizeof(struct item), 0, 18);
    memset(items, 0x11, sizeof items);
    memset(got, 0x22, sizeof got);
    for (int i = 0; i < 5; i++) {
        items[i].kind = (char) ('a' + i);
        items[i].weight = rank + i / 4.0;
        items[i].n = (short) (100 * rank + i);
    }
    CHECK_OK(MPI_Sendrecv(items, 5, type, to, 0, got, 5, type, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    for (int i = 0; i < 5; i++) {
        CHECK(got[i].kind == 'a' + i && got[i].weight == from + i / 4.0 && got[i].n == 100 * from + i);
        CHECK_EQ(bytes_differ(&got[i], 1, 8, 0x22), -1);
        CHECK_EQ(bytes_differ(&got[i], 18, 24, 0x22), -1);
    }
    CHECK_OK(MPI_Type_free(&type));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    all_bounds();
    messages();
    return check_end();
}
