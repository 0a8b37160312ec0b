// ranks: 1 2 4
// transports: all
/* Four threads a rank, each with its own file, all in collective access at the same time; each
 * thread makes progress for the files of the others. */
#include "files.h"

#include <pthread.h>

enum { THREADS = 4, N = 500, TURNS = 10 };

static MPI_File files[THREADS];

static void *work(void *argument)
{
    int t = (int) (intptr_t) argument;
    int out[N], in[N];
    for (int turn = 0; turn < TURNS; turn++) {
        MPI_Request request;
        MPI_Status status;
        for (int i = 0; i < N; i++) out[i] = ((turn * THREADS + t) * 16 + rank) * N + i;
        CHECK_OK(MPI_File_write_at_all(files[t], 0, out, N, MPI_INT, &status));
        memset(in, 0, sizeof in);
        CHECK_OK(MPI_File_iread_at_all(files[t], 0, in, N, MPI_INT, &request));
        CHECK_OK(MPI_Wait(&request, &status));
        CHECK_COUNT(status, MPI_INT, N);
        CHECK(memcmp(in, out, sizeof in) == 0);
        CHECK_OK(MPI_File_write_shared(files[t], out, 0, MPI_INT, &status));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided = -1;
    MPI_Datatype filetype;
    pthread_t threads[THREADS];
    check_watch();
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    check_ranks();
    CHECK_EQ(provided, MPI_THREAD_MULTIPLE);
    file_begin();
    MPI_Type_create_resized(MPI_INT, 0, 4 * size, &filetype);
    MPI_Type_commit(&filetype);
    for (int t = 0; t < THREADS; t++) {
        char name[300];
        snprintf(name, sizeof name, "%s.%d", file_name, t);
        CHECK_OK(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &files[t]));
        CHECK_OK(MPI_File_set_view(files[t], 4 * rank, MPI_INT, filetype, "native", MPI_INFO_NULL));
    }
    for (int t = 0; t < THREADS; t++) pthread_create(&threads[t], NULL, work, (void *) (intptr_t) t);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    for (int t = 0; t < THREADS; t++) CHECK_OK(MPI_File_close(&files[t]));
    MPI_Type_free(&filetype);
    return check_end();
}
