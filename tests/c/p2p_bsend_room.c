// ranks: 2 4
// transports: near
/* The room of buffered messages is free again after their receives, although no call has checked
 * that since. */
#include "check.h"

enum { MESSAGES = 32, BYTES = 300000, ROUNDS = 20 };

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    int room = MESSAGES * (BYTES + MPI_BSEND_OVERHEAD), to = rank ^ 1, bytes;
    char *data = allocate(BYTES), *into = allocate(BYTES);
    void *buffer = allocate((size_t) room);
    CHECK_OK(MPI_Buffer_attach(buffer, room));
    MPI_Request persistent;
    CHECK_OK(MPI_Bsend_init(data, BYTES, MPI_BYTE, to, 1, MPI_COMM_WORLD, &persistent));
    for (int round = 0; round < ROUNDS; round++) {
        check_where("round %d", round);
        if (rank % 2 == 0) {
            pattern_fill(data, BYTES, (unsigned) round);
            for (int i = 0; i < MESSAGES; i++) {
                if (i > 0 || round % 2 == 0) {
                    CHECK_OK(MPI_Bsend(data, BYTES, MPI_BYTE, to, 1, MPI_COMM_WORLD));
                } else {
                    CHECK_OK(MPI_Start(&persistent));
                    CHECK_OK(MPI_Wait(&persistent, MPI_STATUS_IGNORE));
                }
            }
        } else {
            for (int i = 0; i < MESSAGES; i++)
                CHECK_OK(MPI_Recv(into, BYTES, MPI_BYTE, to, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
        }
        MPI_Barrier(MPI_COMM_WORLD);
        if (rank % 2 == 1) CHECK_EQ(pattern_differs(into, BYTES, (unsigned) round), -1);
    }
    CHECK_OK(MPI_Request_free(&persistent));
    CHECK_OK(MPI_Buffer_detach(&buffer, &bytes));
    CHECK_EQ(bytes, room);
    free(buffer);
    free(data);
    free(into);
    return check_end();
}
