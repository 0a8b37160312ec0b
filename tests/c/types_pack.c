// ranks: 1 2
// transports: all
/* Packing by the program: several values behind each other, sent as MPI_PACKED, unpacked piece
 * by piece; refusals. */
#include "check.h"

static void message(int large)
{
    struct { double x[4]; char text[8]; int n; } out, in;
    MPI_Datatype column;
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    check_where("a packed message, large %d", large);
    for (int i = 0; i < 4; i++) out.x[i] = rank + i / 8.0;
    snprintf(out.text, sizeof out.text, "rank%d", rank);
    out.n = 42 + rank;
    memset(&in, 0x77, sizeof in);
    CHECK_OK(MPI_Type_vector(2, 1, 2, MPI_DOUBLE, &column));
    CHECK_OK(MPI_Type_commit(&column));
    char buffer[200], arrived[200];
    memset(buffer, 0x11, sizeof buffer);
    int room = 0, part, position = 0, got;
    MPI_Count large_part, at = 0, size_c = sizeof buffer;
    CHECK_OK(MPI_Pack_size(1, column, MPI_COMM_WORLD, &part));
    room += part;
    CHECK_OK(MPI_Pack_size(8, MPI_CHAR, MPI_COMM_WORLD, &part));
    room += part;
    CHECK_OK(MPI_Pack_size_c(1, MPI_INT, MPI_COMM_WORLD, &large_part));
    room += (int) large_part;
    CHECK(room >= 28);
    if (large) {
        CHECK_OK(MPI_Pack_c(out.x, 1, column, buffer, size_c, &at, MPI_COMM_WORLD));
        CHECK_OK(MPI_Pack_c(out.text, 8, MPI_CHAR, buffer, size_c, &at, MPI_COMM_WORLD));
        CHECK_OK(MPI_Pack_c(&out.n, 1, MPI_INT, buffer, size_c, &at, MPI_COMM_WORLD));
        position = (int) at;
    } else {
        CHECK_OK(MPI_Pack(out.x, 1, column, buffer, room, &position, MPI_COMM_WORLD));
        CHECK_OK(MPI_Pack(out.text, 8, MPI_CHAR, buffer, room, &position, MPI_COMM_WORLD));
        CHECK_OK(MPI_Pack(&out.n, 1, MPI_INT, buffer, room, &position, MPI_COMM_WORLD));
    }
    CHECK(position > 0 && position <= room);
    CHECK_EQ(bytes_differ(buffer, position, sizeof buffer, 0x11), -1);
    MPI_Status status;
    CHECK_OK(MPI_Sendrecv(buffer, position, MPI_PACKED, to, 5, arrived, sizeof arrived, MPI_PACKED, from, 5, MPI_COMM_WORLD,
                          &status));
    CHECK_OK(MPI_Get_count(&status, MPI_PACKED, &got));
    CHECK_EQ(got, position);
    position = 0;
    at = 0;
    if (large) {
        CHECK_OK(MPI_Unpack_c(arrived, got, &at, in.x, 1, column, MPI_COMM_WORLD));
        CHECK_OK(MPI_Unpack_c(arrived, got, &at, in.text, 8, MPI_CHAR, MPI_COMM_WORLD));
        CHECK_OK(MPI_Unpack_c(arrived, got, &at, &in.n, 1, MPI_INT, MPI_COMM_WORLD));
        position = (int) at;
    } else {
        CHECK_OK(MPI_Unpack(arrived, got, &position, in.x, 1, column, MPI_COMM_WORLD));
        CHECK_OK(MPI_Unpack(arrived, got, &position, in.text, 8, MPI_CHAR, MPI_COMM_WORLD));
        CHECK_OK(MPI_Unpack(arrived, got, &position, &in.n, 1, MPI_INT, MPI_COMM_WORLD));
    }
    CHECK_EQ(position, got);
    CHECK(in.x[0] == from && in.x[2] == from + 0.25 && in.n == 42 + from);
    CHECK_EQ(bytes_differ(&in.x[1], 0, sizeof(double), 0x77), -1);
    CHECK_EQ(bytes_differ(&in.x[3], 0, sizeof(double), 0x77), -1);
    char want[24] = "";
    snprintf(want, sizeof want, "rank%d", from);
    CHECK(strcmp(in.text, want) == 0);
    CHECK_OK(MPI_Type_free(&column));
}

static void matches(void)
{
    int numbers[3] = {rank, 7, 9}, got[3] = {0}, position = 0;
    char buffer[64];
    check_where("packed here, plain there");
    CHECK_OK(MPI_Pack(numbers, 3, MPI_INT, buffer, sizeof buffer, &position, MPI_COMM_WORLD));
    CHECK_OK(MPI_Sendrecv(buffer, position, MPI_PACKED, (rank + 1) % size, 1, got, 3, MPI_INT, (rank + size - 1) % size, 1,
                          MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK(got[0] == (rank + size - 1) % size && got[1] == 7 && got[2] == 9);
    position = 0;
    got[2] = 0;
    CHECK_OK(MPI_Sendrecv(numbers, 3, MPI_INT, (rank + 1) % size, 1, buffer, 64, MPI_PACKED, (rank + size - 1) % size, 1,
                          MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Unpack(buffer, 64, &position, got, 3, MPI_INT, MPI_COMM_WORLD));
    CHECK_EQ(got[2], 9);
    MPI_Datatype absolute;
    MPI_Aint address;
    int one = 1;
    CHECK_OK(MPI_Get_address(&numbers[1], &address));
    CHECK_OK(MPI_Type_create_hindexed(1, &one, &address, MPI_INT, &absolute));
    CHECK_OK(MPI_Type_commit(&absolute));
    position = 0;
    CHECK_OK(MPI_Pack(MPI_BOTTOM, 1, absolute, buffer, sizeof buffer, &position, MPI_COMM_SELF));
    numbers[1] = position = 0;
    CHECK_OK(MPI_Unpack(buffer, sizeof buffer, &position, MPI_BOTTOM, 1, absolute, MPI_COMM_SELF));
    CHECK_EQ(numbers[1], 7);
    CHECK_OK(MPI_Type_free(&absolute));
}

static void refused(void)
{
    int numbers[4] = {1, 2, 3, 4}, position = 0, n;
    char buffer[16];
    MPI_Count count;
    MPI_Datatype loose, large;
    check_where("what is refused");
#define PACK(buf, count, type, out, size, comm) MPI_Pack(buf, count, type, out, size, &position, comm)
    CHECK_CLASS(PACK(numbers, 5, MPI_INT, buffer, 16, MPI_COMM_WORLD), MPI_ERR_TRUNCATE);
    CHECK_EQ(position, 0);
    position = 1;
    CHECK_CLASS(PACK(numbers, 4, MPI_INT, buffer, 16, MPI_COMM_WORLD), MPI_ERR_TRUNCATE);
    position = -1;
    CHECK_CLASS(PACK(numbers, 1, MPI_INT, buffer, 16, MPI_COMM_WORLD), MPI_ERR_ARG);
    position = 17;
    CHECK_CLASS(PACK(numbers, 0, MPI_INT, buffer, 16, MPI_COMM_WORLD), MPI_ERR_ARG);
    position = 0;
    CHECK_CLASS(PACK(numbers, 1, MPI_INT, buffer, -1, MPI_COMM_WORLD), MPI_ERR_ARG);
    CHECK_CLASS(PACK(numbers, -1, MPI_INT, buffer, 16, MPI_COMM_WORLD), MPI_ERR_COUNT);
    CHECK_CLASS(PACK(NULL, 1, MPI_INT, buffer, 16, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    CHECK_CLASS(PACK(numbers, 1, MPI_INT, NULL, 16, MPI_COMM_WORLD), MPI_ERR_BUFFER);
    CHECK_CLASS(PACK(numbers, 1, MPI_DATATYPE_NULL, buffer, 16, MPI_COMM_WORLD), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Pack(numbers, 1, MPI_INT, buffer, 16, NULL, MPI_COMM_WORLD), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Unpack(buffer, 16, &position, numbers, 5, MPI_INT, MPI_COMM_WORLD), MPI_ERR_TRUNCATE);
    CHECK_CLASS(MPI_Unpack(buffer, -4, &position, numbers, 1, MPI_INT, MPI_COMM_WORLD), MPI_ERR_ARG);
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &loose));
    CHECK_CLASS(PACK(numbers, 1, loose, buffer, 16, MPI_COMM_WORLD), MPI_ERR_TYPE);
    CHECK_OK(MPI_Type_free(&loose));
    CHECK_EQ(numbers[3], 4);
    check_where("sizes");
    CHECK_OK(MPI_Type_contiguous(1000000, MPI_DOUBLE, &large));
    CHECK_OK(MPI_Pack_size(1000, large, MPI_COMM_WORLD, &n));
    CHECK_EQ(n, MPI_UNDEFINED);
    CHECK_OK(MPI_Pack_size_c(1000, large, MPI_COMM_WORLD, &count));
    CHECK_EQ(count, 8000000000LL);
    CHECK_CLASS(MPI_Pack_size(-1, MPI_INT, MPI_COMM_WORLD, &n), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Pack_size_c(INT64_MAX, large, MPI_COMM_WORLD, &count), MPI_ERR_VALUE_TOO_LARGE);
    CHECK_OK(MPI_Type_free(&large));
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK_CLASS(PACK(numbers, 1, MPI_INT, buffer, 16, MPI_COMM_NULL), MPI_ERR_COMM);
    CHECK_CLASS(MPI_Pack_size(1, MPI_INT, MPI_COMM_NULL, &n), MPI_ERR_COMM);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_errors();
    message(0);
    message(1);
    matches();
    refused();
    return check_end();
}
