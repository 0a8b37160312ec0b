// ranks: 1 2 3 4 7
// transports: all
// every day: tcp-encrypted nodes lamd ofi
/* Collectives whose ranks describe the same data by different types. */
#include "check.h"

static int value(int whose, int i) { return whose * 100003 + i; }

static MPI_Datatype strided(int blocks, int length, int stride)
{
    MPI_Datatype type;
    CHECK_OK(MPI_Type_vector(blocks, length, stride, MPI_INT, &type));
    CHECK_OK(MPI_Type_commit(&type));
    return type;
}

static void bcast(int blocks, int length)
{
    int stride = length + 2, n = blocks * length, span = blocks * stride;
    int *buffer = allocate((2 * (size_t) n + span + 1) * sizeof *buffer);
    MPI_Datatype vector = strided(blocks, length, stride), single = strided(n, 1, 2);
    for (int root = 0; root < size; root++)
        for (int how = 0; how < 6; how++) {
            /* Kinds: 0 the vector, 1 plain ints, 2 single blocks. In the second half odd and
             * even ranks differ. */
            int kind = how % 3 == 1;
            if (rank != root) kind = how % 3 == 0 ? 1 : how % 3 == 1 ? 0 : 2;
            if (rank != root && how >= 3 && rank % 2) kind = (kind + 1) % 3;
            int blocking = how % 2 == 0;
            check_where("Bcast of %d blocks of %d from %d, case %d, kind %d", blocks, length, root, how, kind);
            for (int i = 0; i < 2 * n + span; i++) buffer[i] = -1;
            for (int i = 0; i < n && rank == root; i++)
                buffer[kind == 1 ? i : i / length * stride + i % length] = value(root, i);
            int count = kind == 1 ? n : 1;
            MPI_Datatype type = kind == 1 ? MPI_INT : kind == 0 ? vector : single;
            if (blocking) {
                CHECK_OK(MPI_Bcast(buffer, count, type, root, MPI_COMM_WORLD));
            } else {
                MPI_Request request;
                CHECK_OK(MPI_Ibcast(buffer, count, type, root, MPI_COMM_WORLD, &request));
                CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            }
            for (int i = 0; i < n; i++) {
                int at = kind == 1 ? i : kind == 0 ? i / length * stride + i % length : 2 * i;
                if (!CHECK_EQ(buffer[at], value(root, i))) break;
                buffer[at] = -1;
            }
            for (int i = 0; i < 2 * n + span; i++)
                if (!CHECK_EQ(buffer[i], -1)) break; /* nothing else was written */
        }
    CHECK_OK(MPI_Type_free(&vector));
    CHECK_OK(MPI_Type_free(&single));
    free(buffer);
}

/* Plain ints become the columns of a matrix at the root: the receive type is resized, so that
 * rank r fills column r. */
static void gather_columns(int n)
{
    int *mine = allocate(n * sizeof *mine), *matrix = allocate((size_t) n * (size + 1) * sizeof *matrix);
    MPI_Datatype plain, column;
    for (int i = 0; i < n; i++) mine[i] = value(rank, i);
    CHECK_OK(MPI_Type_vector(n, 1, size + 1, MPI_INT, &plain));
    CHECK_OK(MPI_Type_create_resized(plain, 0, sizeof(int), &column));
    CHECK_OK(MPI_Type_commit(&column));
    CHECK_OK(MPI_Type_free(&plain));
    for (int root = -1; root < size; root++)
        for (int how = 0; how < 2; how++) {
            check_where("%s of %d ints into columns, root %d", root < 0 ? "Allgather" : "Gather", n, root);
            MPI_Request request;
            for (int i = 0; i < n * (size + 1); i++) matrix[i] = -1;
            if (root < 0 && how == 0) CHECK_OK(MPI_Allgather(mine, n, MPI_INT, matrix, 1, column, MPI_COMM_WORLD));
            else if (root < 0) CHECK_OK(MPI_Iallgather(mine, n, MPI_INT, matrix, 1, column, MPI_COMM_WORLD, &request));
            else if (how == 0) CHECK_OK(MPI_Gather(mine, n, MPI_INT, matrix, 1, column, root, MPI_COMM_WORLD));
            else CHECK_OK(MPI_Igather(mine, n, MPI_INT, matrix, 1, column, root, MPI_COMM_WORLD, &request));
            if (how == 1) CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
            for (int i = 0; i < n * (size + 1); i++) {
                int at = i % (size + 1), filled = (root < 0 || root == rank) && at < size;
                if (!CHECK_EQ(matrix[i], filled ? value(at, i / (size + 1)) : -1)) break;
            }
        }
    CHECK_OK(MPI_Type_free(&column));
    free(mine);
    free(matrix);
}

/* Each rank sends with its own type (even: strided, odd: plain); the root receives plain; in
 * place at the root. */
static void gather_strided_senders(int n)
{
    int *mine = allocate(3 * (size_t) n * sizeof *mine), *all = allocate((size_t) n * size * sizeof *all);
    MPI_Datatype third = strided(n, 1, 3);
    for (int i = 0; i < 3 * n; i++) mine[i] = -7;
    for (int i = 0; i < n; i++) mine[rank % 2 ? i : 3 * i] = value(rank, i);
    for (int root = 0; root < size; root++)
        for (int in_place = 0; in_place < 2; in_place++) {
            check_where("Gather of %d ints from strided senders to %d%s", n, root, in_place ? ", in place" : "");
            for (int i = 0; i < n * size; i++) all[i] = i / n == rank && in_place ? value(rank, i % n) : -1;
            const void *from = in_place && rank == root ? MPI_IN_PLACE : (void *) mine;
            CHECK_OK(MPI_Gather(from, rank % 2 ? n : 1, rank % 2 ? MPI_INT : third, all, n, MPI_INT, root, MPI_COMM_WORLD));
            for (int i = 0; i < n * size && rank == root; i++)
                if (!CHECK_EQ(all[i], value(i / n, i % n))) break;
        }
    check_where("Allgather of %d ints from strided senders", n);
    CHECK_OK(MPI_Allgather(mine, rank % 2 ? n : 1, rank % 2 ? MPI_INT : third, all, n, MPI_INT, MPI_COMM_WORLD));
    for (int i = 0; i < n * size; i++)
        if (!CHECK_EQ(all[i], value(i / n, i % n))) break;
    CHECK_OK(MPI_Type_free(&third));
    free(mine);
    free(all);
}

static void structs(int n)
{
    struct item { double weight; char kind; };
    struct item *items = allocate(n * sizeof *items), *all = allocate((size_t) n * size * sizeof *all);
    int lengths[2] = {1, 1};
    MPI_Aint places[2] = {0, 8};
    MPI_Datatype types[2] = {MPI_DOUBLE, MPI_CHAR}, plain, type;
    CHECK_OK(MPI_Type_create_struct(2, lengths, places, types, &plain));
    CHECK_OK(MPI_Type_create_resized(plain, 0, sizeof(struct item), &type));
    CHECK_OK(MPI_Type_free(&plain));
    CHECK_OK(MPI_Type_commit(&type));
    for (int root = 0; root < size; root++) {
        check_where("%d structs, root %d", n, root);
        memset(items, 0x55, n * sizeof *items);
        memset(all, 0x66, (size_t) n * size * sizeof *all);
        for (int i = 0; i < n && rank == root; i++) {
            items[i].weight = root + i / 4.0;
            items[i].kind = (char) ('a' + i % 26);
        }
        CHECK_OK(MPI_Bcast(items, n, type, root, MPI_COMM_WORLD));
        for (int i = 0; i < n; i++) {
            if (!CHECK(items[i].weight == root + i / 4.0 && items[i].kind == 'a' + i % 26)) break;
            if (!CHECK_EQ(bytes_differ(&items[i], 9, sizeof *items, 0x55), -1)) break;
            items[i].weight += 1000 * rank;
        }
        CHECK_OK(MPI_Gather(items, n, type, all, n, type, root, MPI_COMM_WORLD));
        for (int i = 0; i < n * size && rank == root; i++) {
            if (!CHECK(all[i].weight == root + i % n / 4.0 + 1000 * (i / n) && all[i].kind == 'a' + i % n % 26)) break;
            if (!CHECK_EQ(bytes_differ(&all[i], 9, sizeof *all, 0x66), -1)) break;
        }
    }
    CHECK_OK(MPI_Type_free(&type));
    free(items);
    free(all);
}

static void nothing(void)
{
    MPI_Datatype empty;
    int word = 5;
    check_where("nothing");
    CHECK_OK(MPI_Type_contiguous(0, MPI_INT, &empty));
    CHECK_OK(MPI_Type_commit(&empty));
    CHECK_OK(MPI_Bcast(rank % 2 ? NULL : &word, rank % 2 ? 0 : 3, rank % 2 ? MPI_INT : empty, 0, MPI_COMM_WORLD));
    CHECK_EQ(word, 5);
    CHECK_OK(MPI_Gather(NULL, 0, MPI_INT, NULL, 0, MPI_INT, size - 1, MPI_COMM_WORLD));
    CHECK_OK(MPI_Allgather(NULL, 0, MPI_INT, &word, 0, MPI_INT, MPI_COMM_WORLD));
    CHECK_OK(MPI_Type_free(&empty));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    static const int shapes[][2] = {{1, 1}, {5, 1}, {14, 1}, {33, 3}, {500, 8}, {4096, 1}, {10000, 3}};
    for (unsigned k = 0; k < sizeof shapes / sizeof shapes[0]; k++) bcast(shapes[k][0], shapes[k][1]);
    for (int n = 1; n < 20000; n = n * 9 + 2) {
        gather_columns(n);
        gather_strided_senders(n);
    }
    structs(1);
    structs(50);
    structs(5000);
    nothing();
    return check_end();
}
