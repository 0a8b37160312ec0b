// ranks: 1 2
// transports: one
/* Many blocks without a regular pattern, of one length and of several: packed, sent in different
 * pieces, and received by the same type and into one piece. */
#include "check.h"

#define MOST 3000

static int lengths[MOST], places[MOST];
static int out[1 << 16], in[1 << 16], packed[1 << 16], expected[1 << 16];

static int draw(int blocks, int longest)
{
    unsigned random = (unsigned) (blocks * 31 + longest);
    int at = 3, elements = 0;
    for (int i = 0; i < blocks; i++) {
        random = random * 1103515245u + 12345u;
        int regular = i % 100 > 70;
        lengths[i] = longest == 1 || regular ? 1 : 1 + (int) (random >> 16) % longest;
        places[i] = at;
        at += lengths[i] + (regular ? 2 : 1 + (int) (random >> 20) % 5);
        elements += lengths[i];
    }
    /* Packed order is that of the list, not that of memory. */
    if (blocks > 2) {
        int place = places[0], length = lengths[0];
        places[0] = places[blocks / 2], lengths[0] = lengths[blocks / 2];
        places[blocks / 2] = place, lengths[blocks / 2] = length;
    }
    return elements;
}

static void moved(int blocks, int longest, int count)
{
    int elements = draw(blocks, longest), position = 0, to = (rank + 1) % size, from = (rank + size - 1) % size;
    MPI_Datatype type, whole;
    check_where("%d blocks of up to %d, %d times", blocks, longest, count);
    if (longest == 1) CHECK_OK(MPI_Type_create_indexed_block(blocks, 1, places, MPI_INT, &whole));
    else CHECK_OK(MPI_Type_indexed(blocks, lengths, places, MPI_INT, &whole));
    int extent = 3;
    for (int i = 0; i < blocks; i++) if (places[i] + lengths[i] > extent) extent = places[i] + lengths[i];
    CHECK_OK(MPI_Type_create_resized(whole, 0, (extent + 1) * (MPI_Aint) sizeof(int), &type));
    CHECK_OK(MPI_Type_commit(&type));
    CHECK_OK(MPI_Type_free(&whole));
    int n = 0;
    for (int i = 0; i < 1 << 16; i++) out[i] = i * 7 + 1;
    for (int e = 0; e < count; e++)
        for (int i = 0; i < blocks; i++)
            for (int k = 0; k < lengths[i]; k++) expected[n++] = e * (extent + 1) + places[i] + k;
    CHECK_EQ(n, elements * count);
    CHECK_OK(MPI_Pack(out, count, type, packed, sizeof packed, &position, MPI_COMM_WORLD));
    CHECK_EQ(position, n * (int) sizeof(int));
    for (int i = 0; i < n; i++) CHECK_EQ(packed[i], out[expected[i]]);
    memset(in, 0, sizeof in);
    position = 0;
    CHECK_OK(MPI_Unpack(packed, n * (int) sizeof(int), &position, in, count, type, MPI_COMM_WORLD));
    int touched = 0;
    for (int i = 0; i < 1 << 16; i++) touched += in[i] != 0;
    CHECK_EQ(touched, n);
    for (int i = 0; i < n; i++) CHECK_EQ(in[expected[i]], out[expected[i]]);

    memset(in, 0, sizeof in);
    MPI_Request request;
    CHECK_OK(MPI_Irecv(in, count, type, from, 1, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Send(out, count, type, to, 1, MPI_COMM_WORLD));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < n; i++) CHECK_EQ(in[expected[i]], out[expected[i]]);
    memset(packed, 0, sizeof packed);
    CHECK_OK(MPI_Irecv(packed, n, MPI_INT, from, 2, MPI_COMM_WORLD, &request));
    CHECK_OK(MPI_Send(out, count, type, to, 2, MPI_COMM_WORLD));
    CHECK_OK(MPI_Type_free(&type));
    CHECK_OK(MPI_Wait(&request, MPI_STATUS_IGNORE));
    for (int i = 0; i < n; i++) CHECK_EQ(packed[i], out[expected[i]]);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    static const int numbers[] = {1, 2, 7, 8, 9, 63, 64, 65, 200, MOST};
    for (int i = 0; i < 10; i++)
        for (int longest = 1; longest <= 13; longest += 6)
            for (int count = 1; count <= 3 && numbers[i] * count * (longest + 5) < 1 << 16; count++)
                moved(numbers[i], longest, count);
    return check_end();
}
