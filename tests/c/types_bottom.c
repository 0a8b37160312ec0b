// ranks: 1 2 4
// transports: one
/* MPI_BOTTOM with types of absolute addresses, in messages and collectives; several variables as
 * one message. */
#include "check.h"

static int numbers[4];
static double weight;

static MPI_Datatype absolute(int *numbers_at, double *weight_at, char *text_at)
{
    MPI_Datatype type, members[3] = {MPI_INT, MPI_DOUBLE, MPI_CHAR};
    int lengths[3] = {4, 1, 6};
    MPI_Aint places[3];
    CHECK_OK(MPI_Get_address(numbers_at, &places[0]));
    CHECK_OK(MPI_Get_address(weight_at, &places[1]));
    CHECK_OK(MPI_Get_address(text_at, &places[2]));
    CHECK_OK(MPI_Type_create_struct(3, lengths, places, members, &type));
    CHECK_OK(MPI_Type_commit(&type));
    return type;
}

static void set(int who, char *text)
{
    for (int i = 0; i < 4; i++) numbers[i] = who < 0 ? -1 : 10 * who + i;
    weight = who < 0 ? -1 : who / 8.0;
    memcpy(text, who < 0 ? "......" : "abcdef", 6);
    if (who >= 0) text[0] = (char) ('A' + who);
}

static void are(int who, const char *text)
{
    for (int i = 0; i < 4; i++) CHECK_EQ(numbers[i], 10 * who + i);
    CHECK(weight == who / 8.0 && text[0] == 'A' + who && memcmp(text + 1, "bcdef", 5) == 0);
}

/* Blocks of other lengths that begin 0, 1, 2, ... bytes from MPI_BOTTOM: the second one at the
 * address of MPI_IN_PLACE. */
static void displaced(void)
{
    check_where("displacements from MPI_BOTTOM");
    char all[64], mine[64], got = 0;
    int counts[64], displacements[64];
    MPI_Datatype type;
    MPI_Aint place;
    CHECK_OK(MPI_Get_address(all, &place));
    CHECK_OK(MPI_Type_create_hindexed_block(1, 1, &place, MPI_CHAR, &type));
    CHECK_OK(MPI_Type_commit(&type));
    for (int i = 0; i < size; i++) {
        counts[i] = 1;
        displacements[i] = i;
    }
    memset(mine, 'a' + rank, sizeof mine);
    for (int call = 0; call < 3; call++) {
        memset(all, '.', sizeof all);
        if (call == 0)
            CHECK_OK(MPI_Allgatherv(mine, 1, MPI_CHAR, MPI_BOTTOM, counts, displacements, type, MPI_COMM_WORLD));
        if (call == 1)
            CHECK_OK(MPI_Gatherv(mine, 1, MPI_CHAR, MPI_BOTTOM, counts, displacements, type, 0, MPI_COMM_WORLD));
        if (call == 2)
            CHECK_OK(MPI_Alltoallv(mine, counts, displacements, MPI_CHAR, MPI_BOTTOM, counts, displacements, type,
                                   MPI_COMM_WORLD));
        for (int i = 0; i < size; i++)
            if (call != 1 || rank == 0) CHECK_EQ(all[i], 'a' + i);
    }
    for (int i = 0; i < size; i++) all[i] = (char) ('a' + i);
    CHECK_OK(MPI_Scatterv(MPI_BOTTOM, counts, displacements, type, &got, 1, MPI_CHAR, 0, MPI_COMM_WORLD));
    CHECK_EQ(got, 'a' + rank);
    CHECK_OK(MPI_Type_free(&type));
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    char *text = allocate(6);
    MPI_Datatype type = absolute(numbers, &weight, text);
    MPI_Request request;
    MPI_Status status;
    int elements;

    for (int way = 0; way < 3; way++) {
        check_where("messages, way %d", way);
        int other_numbers[4];
        double other_weight;
        char other_text[6];
        MPI_Datatype other = absolute(other_numbers, &other_weight, other_text);
        set(rank, text);
        int to = (rank + 1) % size, from = (rank + size - 1) % size;
        CHECK_OK(MPI_Irecv(MPI_BOTTOM, 1, other, from, way, MPI_COMM_WORLD, &request));
        if (way == 0) CHECK_OK(MPI_Send(MPI_BOTTOM, 1, type, to, way, MPI_COMM_WORLD));
        if (way == 1) CHECK_OK(MPI_Ssend(MPI_BOTTOM, 1, type, to, way, MPI_COMM_WORLD));
        if (way == 2) {
            char packed[100];
            int position = 0;
            CHECK_OK(MPI_Pack(MPI_BOTTOM, 1, type, packed, sizeof packed, &position, MPI_COMM_WORLD));
            CHECK_EQ(position, 4 * 4 + 8 + 6);
            CHECK_OK(MPI_Send(packed, position, MPI_PACKED, to, way, MPI_COMM_WORLD));
        }
        CHECK_OK(MPI_Wait(&request, &status));
        CHECK_OK(MPI_Get_elements(&status, other, &elements));
        CHECK_EQ(elements, 11);
        CHECK_EQ(other_numbers[3], 10 * from + 3);
        CHECK(other_weight == from / 8.0 && other_text[0] == 'A' + from && other_text[5] == 'f');
        CHECK_OK(MPI_Type_free(&other));
    }

    for (int root = 0; root < size; root++) {
        check_where("broadcast from %d", root);
        set(rank == root ? root : -1, text);
        CHECK_OK(MPI_Bcast(MPI_BOTTOM, 1, type, root, MPI_COMM_WORLD));
        are(root, text);
    }
    displaced();

    enum { BLOCKS = 200 };
    int *blocks[BLOCKS], lengths[BLOCKS];
    MPI_Aint places[BLOCKS];
    MPI_Datatype many;
    check_where("many blocks");
    for (int i = 0; i < BLOCKS; i++) {
        lengths[i] = i % 5;
        blocks[i] = allocate((size_t) (lengths[i] + 1) * sizeof(int));
        for (int k = 0; k <= lengths[i]; k++) blocks[i][k] = rank == 0 ? 1000 * i + k : -1;
        CHECK_OK(MPI_Get_address(blocks[i], &places[i]));
    }
    CHECK_OK(MPI_Type_create_hindexed(BLOCKS, lengths, places, MPI_INT, &many));
    CHECK_OK(MPI_Type_commit(&many));
    CHECK_OK(MPI_Bcast(MPI_BOTTOM, 1, many, 0, MPI_COMM_WORLD));
    for (int i = 0; i < BLOCKS; i++) {
        for (int k = 0; k < lengths[i]; k++)
            if (!CHECK_EQ(blocks[i][k], 1000 * i + k)) break;
        CHECK_EQ(blocks[i][lengths[i]], rank == 0 ? 1000 * i + lengths[i] : -1);
        free(blocks[i]);
    }
    CHECK_OK(MPI_Type_free(&many));

    return_errors();
    CHECK_OK(MPI_Send(MPI_BOTTOM, 0, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD));
    CHECK_CLASS(MPI_Send(MPI_BOTTOM, 1, MPI_INT, 0, 0, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    CHECK_OK(MPI_Type_free(&type));
    free(text);
    return check_end();
}
