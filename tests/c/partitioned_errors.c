// ranks: 1 2 4
// transports: all
/* Errors of partitioned messages, which change nothing; MPI_PROC_NULL; messages that are too
 * long or shorter than their receive; other communicators. */
#include "inter.h"

static int data[64], result[64];

static void too_many(int code, MPI_Count count)
{
    char text[MPI_MAX_ERROR_STRING], number[32];
    int length;
    CHECK_CLASS(code, MPI_ERR_COUNT);
    if (code == MPI_SUCCESS) return;
    CHECK_OK(MPI_Error_string(code, text, &length));
    snprintf(number, sizeof number, " %lld elements", (long long) count);
    CHECK(strstr(text, number));
}

static void at_init(void)
{
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Datatype open;
    const MPI_Comm world = MPI_COMM_WORLD;
    const MPI_Info none = MPI_INFO_NULL;
    check_where("at init");
    CHECK_CLASS(MPI_Psend_init(data, -1, 1, MPI_INT, 0, 0, world, none, &request), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Psend_init(data, 2, -1, MPI_INT, 0, 0, world, none, &request), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Psend_init_c(data, 2000000000, INT64_MAX / 2, MPI_INT, 0, 0, world, none, &request), MPI_ERR_COUNT);
    too_many(MPI_Psend_init(data, 2000000000, INT64_MAX / 2, MPI_BYTE, 0, 0, world, none, &request), INT64_MAX / 2);
    too_many(MPI_Precv_init(data, 3, INT64_MAX / 3 - 1, MPI_INT, 0, 0, world, none, &request), INT64_MAX / 3 - 1);
    too_many(MPI_Psend_init(data, 1, INT64_MAX / 2, MPI_INT, 0, 0, world, none, &request), INT64_MAX / 2);
    CHECK_CLASS(MPI_Precv_init(data, 1, -((MPI_Count) 1 << 32), MPI_INT, 0, 0, world, none, &request), MPI_ERR_COUNT);
    CHECK_CLASS(MPI_Psend_init(NULL, 2, 1, MPI_INT, 0, 0, world, none, &request), MPI_ERR_BUFFER);
    CHECK_CLASS(MPI_Psend_init(data, 2, 1, MPI_INT, size, 0, world, none, &request), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Psend_init(data, 2, 1, MPI_INT, 0, -3, world, none, &request), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Psend_init(data, 2, 1, MPI_INT, 0, 0, world, none, NULL), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Psend_init(data, 2, 1, MPI_DATATYPE_NULL, 0, 0, world, none, &request), MPI_ERR_TYPE);
    CHECK_CLASS(MPI_Precv_init(data, 2, 1, MPI_INT, MPI_ANY_SOURCE, 0, world, none, &request), MPI_ERR_RANK);
    CHECK_CLASS(MPI_Precv_init(data, 2, 1, MPI_INT, 0, MPI_ANY_TAG, world, none, &request), MPI_ERR_TAG);
    CHECK_CLASS(MPI_Precv_init(data, -2, 1, MPI_INT, 0, 0, world, none, &request), MPI_ERR_ARG);
    CHECK_OK(MPI_Type_contiguous(2, MPI_INT, &open));
    CHECK_CLASS(MPI_Precv_init(data, 2, 1, open, 0, 0, world, none, &request), MPI_ERR_TYPE);
    CHECK_OK(MPI_Type_free(&open));
    CHECK(request == MPI_REQUEST_NULL);
}

static void of_requests(void)
{
    MPI_Request send, receive, copy, ordinary, null = MPI_REQUEST_NULL;
    int flag = -1, list[3] = {0, 1, 0}, word = 0;
    MPI_Status status;
    check_where("of requests");
    CHECK_OK(MPI_Psend_init(data, 4, 2, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    CHECK_OK(MPI_Precv_init(result, 2, 4, MPI_INT, rank, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
    CHECK_OK(MPI_Send_init(&word, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, &ordinary));
    copy = send;

    CHECK_CLASS(MPI_Pready(0, send), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Pready_range(0, 3, send), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Pready_list(1, list, send), MPI_ERR_REQUEST);
    CHECK_OK(MPI_Parrived(receive, 1, &flag));
    CHECK_EQ(flag, 1);
    flag = 0;
    CHECK_OK(MPI_Parrived(null, 0, &flag));
    CHECK_EQ(flag, 1);
    CHECK_CLASS(MPI_Parrived(null, 0, NULL), MPI_ERR_ARG);
    CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));

    for (int i = 0; i < 8; i++) data[i] = i + 1, result[i] = 0;
    CHECK_OK(MPI_Start(&receive));
    CHECK_OK(MPI_Start(&send));
    CHECK_CLASS(MPI_Start(&send), MPI_ERR_REQUEST);

    CHECK_CLASS(MPI_Pready(0, receive), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Parrived(send, 0, &flag), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Pready(0, ordinary), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Parrived(ordinary, 0, &flag), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Pready(0, null), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Cancel(&send), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Cancel(&receive), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Request_free(&send), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Request_free(&receive), MPI_ERR_REQUEST);

    /* Missing partitions, or ready already. */
    CHECK_CLASS(MPI_Pready(4, send), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Pready(-1, send), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Pready_range(2, 4, send), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Pready_range(2, 2000000000, send), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Pready_range(3, 2, send), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Pready_list(3, list, send), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Pready_list(1, NULL, send), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Pready_list(-1, list, send), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Parrived(receive, 2, &flag), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Parrived(receive, -1, &flag), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Parrived(receive, 0, NULL), MPI_ERR_ARG);
    CHECK_OK(MPI_Pready(1, send));
    CHECK_CLASS(MPI_Pready(1, send), MPI_ERR_ARG);
    CHECK_CLASS(MPI_Pready_range(0, 3, send), MPI_ERR_ARG);
    list[2] = 3;
    CHECK_CLASS(MPI_Pready_list(3, list, send), MPI_ERR_ARG);
    CHECK_OK(MPI_Parrived(receive, 1, &flag));
    CHECK_EQ(flag, 0);

    CHECK_OK(MPI_Pready_list(0, NULL, send));
    list[1] = 2;
    CHECK_OK(MPI_Pready_list(3, list, send));
    CHECK_OK(MPI_Wait(&receive, &status));
    CHECK_STATUS(&status, rank, 0, 8 * (int) sizeof(int));
    for (int i = 0; i < 8; i++) CHECK_EQ(result[i], i + 1);
    CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Request_free(&send));
    CHECK_OK(MPI_Request_free(&receive));
    CHECK_OK(MPI_Request_free(&ordinary));
    CHECK_CLASS(MPI_Pready(0, copy), MPI_ERR_REQUEST);
    CHECK_CLASS(MPI_Parrived(copy, 0, &flag), MPI_ERR_REQUEST);
}

static void of_nobody(void)
{
    MPI_Request send, receive;
    MPI_Status status;
    int flag = -1;
    check_where("MPI_PROC_NULL");
    CHECK_OK(MPI_Psend_init(data, 3, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
    CHECK_OK(MPI_Precv_init(result, 3, 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
    result[0] = -5;
    for (int round = 0; round < 2; round++) {
        CHECK_OK(MPI_Start(&send));
        CHECK_OK(MPI_Start(&receive));
        CHECK_OK(MPI_Parrived(receive, 2, &flag));
        CHECK_EQ(flag, 1);
        CHECK_OK(MPI_Wait(&receive, &status));
        CHECK_STATUS(&status, MPI_PROC_NULL, MPI_ANY_TAG, 0);
        CHECK_OK(MPI_Pready_range(0, 2, send));
        CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
    }
    CHECK_EQ(result[0], -5);
    CHECK_OK(MPI_Request_free(&send));
    CHECK_OK(MPI_Request_free(&receive));
}

/* A message that is shorter than its receive is received, a longer one is truncated with an
 * error. */
static void of_other_lengths(int each)
{
    int *out = allocate((size_t) (8 * each) * sizeof(int)), *in = allocate((size_t) (8 * each) * sizeof(int));
    for (int parts = 4; parts <= 6; parts += 2) {
        MPI_Request send, receive;
        MPI_Status status;
        check_where("%d partitions of %d for a place of 5", parts, each);
        for (int i = 0; i < 8 * each; i++) out[i] = i, in[i] = -1;
        CHECK_OK(MPI_Psend_init(out, parts, each, MPI_INT, (rank + 1) % size, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &send));
        CHECK_OK(MPI_Precv_init(in, 5, each, MPI_INT, (rank + size - 1) % size, 1, MPI_COMM_WORLD, MPI_INFO_NULL, &receive));
        for (int round = 0; round < 2; round++) {
            CHECK_OK(MPI_Start(&send));
            CHECK_OK(MPI_Start(&receive));
            for (int p = parts - 1; p >= 0; p--) CHECK_OK(MPI_Pready(p, send));
            CHECK_CLASS(MPI_Wait(&receive, &status), parts > 5 ? MPI_ERR_TRUNCATE : MPI_SUCCESS);
            if (parts < 5) CHECK_STATUS(&status, (rank + size - 1) % size, 1, parts * each * (int) sizeof(int));
            CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
            for (int i = 0; i < 8 * each; i++)
                if (!CHECK_EQ(in[i], i < each * (parts < 5 ? parts : 5) ? i : -1)) break;
        }
        CHECK_OK(MPI_Request_free(&send));
        CHECK_OK(MPI_Request_free(&receive));
    }
    free(out);
    free(in);
}

static void between_groups(int at)
{
    make_groups(at);
    check_where("%d and %d ranks", cut, size - cut);
    if (mine < theirs) {
        MPI_Request send, receive;
        MPI_Status status;
        CHECK_OK(MPI_Psend_init(data, 4, 2, MPI_INT, mine, 9, inter, MPI_INFO_NULL, &send));
        CHECK_OK(MPI_Precv_init(result, 2, 4, MPI_INT, mine, 9, inter, MPI_INFO_NULL, &receive));
        for (int i = 0; i < 8; i++) data[i] = rank * 10 + i, result[i] = -1;
        CHECK_OK(MPI_Startall(2, (MPI_Request[2]){send, receive}));
        CHECK_OK(MPI_Pready_range(1, 3, send));
        CHECK_OK(MPI_Pready(0, send));
        CHECK_OK(MPI_Wait(&receive, &status));
        CHECK_STATUS(&status, mine, 9, 8 * (int) sizeof(int));
        for (int i = 0; i < 8; i++) CHECK_EQ(result[i], there(mine) * 10 + i);
        CHECK_OK(MPI_Wait(&send, MPI_STATUS_IGNORE));
        CHECK_OK(MPI_Request_free(&send));
        CHECK_OK(MPI_Request_free(&receive));
    }
    free_groups();
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    return_errors();
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    at_init();
    of_requests();
    of_nobody();
    of_other_lengths(3);
    of_other_lengths(30000);
    for (int at = 1; at < size; at++) between_groups(at);
    return check_end();
}
