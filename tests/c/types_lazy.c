// ranks: 1
// transports: one
/* Making, committing and freeing a type takes one piece of memory, and one more for many
 * arguments or several types; everything else is made by the first use only. */
#define _GNU_SOURCE
#include "check.h"

#include <dlfcn.h>

static unsigned long pieces;

void *malloc(size_t bytes)
{
    static void *(*next)(size_t);
    if (next == NULL) *(void **) &next = dlsym(RTLD_NEXT, "malloc");
    pieces++;
    return next(bytes);
}

static int lengths[8] = {1, 2, 3, 1, 2, 3, 1, 2}, places[8] = {0, 3, 7, 12, 20, 33, 50, 80};
static MPI_Aint bytes[4] = {0, 16, 40, 64};
static MPI_Datatype members[4], column;

static void make(int which, MPI_Datatype *type)
{
    static const int sizes[3] = {9, 8, 7}, parts[3] = {3, 2, 4}, starts[3] = {1, 1, 1};
    switch (which) {
    case 0: CHECK_OK(MPI_Type_contiguous(9, MPI_DOUBLE, type)); return;
    case 1: CHECK_OK(MPI_Type_vector(100, 3, 7, MPI_DOUBLE, type)); return;
    case 2: CHECK_OK(MPI_Type_create_hvector(100, 3, 56, MPI_DOUBLE, type)); return;
    case 3: CHECK_OK(MPI_Type_create_resized(MPI_INT, -4, 40, type)); return;
    case 4: CHECK_OK(MPI_Type_dup(column, type)); return;
    case 5: CHECK_OK(MPI_Type_vector(10, 2, 3, column, type)); return;
    case 6: CHECK_OK(MPI_Type_create_subarray(3, sizes, parts, starts, MPI_ORDER_C, MPI_INT, type)); return;
    case 7: CHECK_OK(MPI_Type_create_indexed_block(8, 2, places, MPI_INT, type)); return;
    case 8: CHECK_OK(MPI_Type_indexed(8, lengths, places, MPI_INT, type)); return;
    default: CHECK_OK(MPI_Type_create_struct(4, lengths, bytes, members, type)); return;
    }
}

static void made_and_freed(void)
{
    for (int which = 0; which < 10; which++) {
        unsigned long before = 0, most = which < 8 ? 1 : 2;
        check_where("type %d", which);
        for (int turn = 0; turn < 100; turn++) {
            MPI_Datatype type;
            MPI_Aint lb, extent, true_lb, true_extent;
            int type_size;
            if (turn == 1) before = pieces;
            make(which, &type);
            CHECK_OK(MPI_Type_commit(&type));
            CHECK_OK(MPI_Type_size(type, &type_size));
            CHECK_OK(MPI_Type_get_extent(type, &lb, &extent));
            CHECK_OK(MPI_Type_get_true_extent(type, &true_lb, &true_extent));
            CHECK(type_size > 0 && extent >= type_size && true_extent > 0);
            CHECK_OK(MPI_Type_free(&type));
        }
        CHECK(pieces - before <= 99 * most);
    }
}

static void used(void)
{
    for (int which = 0; which < 10; which++) {
        static char memory[1 << 20], packed[1 << 20];
        MPI_Datatype type;
        check_where("use of type %d", which);
        make(which, &type);
        CHECK_OK(MPI_Type_commit(&type));
        unsigned long before = pieces;
        for (int turn = 0; turn < 3; turn++) {
            int position = 0;
            CHECK_OK(MPI_Pack(memory + 1000, 2, type, packed, sizeof packed, &position, MPI_COMM_SELF));
            CHECK(position > 0);
            /* A dup has the layout of the old type, which may exist. */
            if (turn == 0) CHECK(pieces > before || which == 4);
            else CHECK(pieces == before);
            before = pieces;
        }
        CHECK_OK(MPI_Type_free(&type));
    }
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    for (int i = 0; i < 4; i++) members[i] = i % 2 ? MPI_INT : MPI_DOUBLE;
    CHECK_OK(MPI_Type_vector(10, 1, 3, MPI_INT, &column));
    made_and_freed();
    used();
    CHECK_OK(MPI_Type_free(&column));
    return check_end();
}
