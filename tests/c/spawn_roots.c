// ranks: 2 3
// transports: all
// Only the root's description of the children counts: other ranks pass numbers and addresses that
// must not be read. All ranks get the error codes, and no more of them than the root has requested.
#include "must.h"
#include <limits.h>
#include <string.h>

#define UNTOUCHED 12345

static void codes_are(const int *codes, int count, int value) {
    for (int i = 0; i < 8; i++) CHECK(codes[i] == (i < count ? value : UNTOUCHED));
}

static void fill(int *codes) {
    for (int i = 0; i < 8; i++) codes[i] = UNTOUCHED;
}

int main(int argc, char **argv) {
    int rank, size, codes[8], n;
    MPI_Comm parent, inter;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    void *wild = (void *) 8;
    int root = size - 1, is_root = rank == root;

    fill(codes);
    MPI_Comm_spawn(is_root ? argv[0] : wild, is_root ? MPI_ARGV_NULL : wild, is_root ? 2 : INT_MAX,
                   MPI_INFO_NULL, root, MPI_COMM_WORLD, &inter, codes);
    codes_are(codes, 2, MPI_SUCCESS);
    MPI_Comm_remote_size(inter, &n);
    CHECK(n == 2);
    MPI_Comm_disconnect(&inter);

    fill(codes);
    char *commands[2] = {argv[0], argv[0]};
    int numbers[2] = {1, 2};
    MPI_Info infos[2] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Comm_spawn_multiple(is_root ? 2 : INT_MAX, is_root ? commands : wild, MPI_ARGVS_NULL,
                            is_root ? numbers : wild, is_root ? infos : wild, root, MPI_COMM_WORLD,
                            &inter, codes);
    codes_are(codes, 3, MPI_SUCCESS);
    MPI_Comm_remote_size(inter, &n);
    CHECK(n == 3);
    MPI_Comm_disconnect(&inter);

    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    fill(codes);
    char *missing = "/no/such/program";
    int code = MPI_Comm_spawn(is_root ? missing : wild, is_root ? MPI_ARGV_NULL : wild,
                              is_root ? 2 : INT_MAX, MPI_INFO_NULL, root, MPI_COMM_WORLD, &inter, codes);
    int class_of;
    MPI_Error_class(code, &class_of);
    CHECK(class_of == MPI_ERR_SPAWN);
    codes_are(codes, 2, MPI_ERR_SPAWN);

    /* A call that is refused stores no codes. */
    fill(codes);
    code = MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, size, MPI_COMM_WORLD, &inter, codes);
    CHECK(code != MPI_SUCCESS);
    codes_are(codes, 0, 0);

    MPI_Finalize();
    if (rank == 0) puts("ok");
    return 0;
}
