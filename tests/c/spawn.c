// ranks: 1 2 3 5
// transports: all
// every day: tcp-encrypted lamd ofi
// Spawns itself: messages and collectives between parents and children, a root that is not 0,
// arguments with blanks, error codes, attributes, a missing program, the state after a disconnect,
// and open descriptors of the launcher.
#include "must.h"
#include "moved.h"
#include <dirent.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static int child(MPI_Comm parent, int argc, char **argv) {
    int n, flag, inter, *value;
    char name[MPI_MAX_OBJECT_NAME];
    MPI_Comm again, merged;
    CHECK(argc == 5 && !strcmp(argv[1], "child") && !strcmp(argv[2], "two words") && !strcmp(argv[3], ""));
    int parents = atoi(argv[4]);
    MPI_Comm_test_inter(parent, &inter);
    CHECK(inter);
    MPI_Comm_remote_size(parent, &n);
    CHECK(n == parents);
    MPI_Comm_get_name(parent, name, &n);
    CHECK(!strcmp(name, "MPI_COMM_PARENT"));
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &value, &flag);
    CHECK(flag && *value == 0);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &flag);
    CHECK(flag && *value >= size);
    int sum = 0, mine = rank + 1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == size * (size + 1) / 2);
    static int data[100000];
    for (int p = 0; p < parents; p++) {
        MPI_Status status;
        MPI_Recv(data, 1, MPI_INT, p, 1, parent, &status);
        CHECK(data[0] == p * 100 + rank && status.MPI_SOURCE == p);
        MPI_Recv(data, 100000, MPI_INT, p, 2, parent, MPI_STATUS_IGNORE);
        CHECK(data[99999] == p);
        data[0] = rank;
        MPI_Send(data, 100000, MPI_INT, p, 3, parent);
    }
    int root_says = 0;
    MPI_Bcast(&root_says, 1, MPI_INT, 0, parent);
    CHECK(root_says == 4711);
    MPI_Intercomm_merge(parent, 1, &merged);
    int all, me;
    MPI_Comm_size(merged, &all);
    MPI_Comm_rank(merged, &me);
    CHECK(all == parents + size && me == parents + rank);
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, merged);
    CHECK(sum == all * (all - 1) / 2);
    MPI_Comm_disconnect(&merged);
    MPI_Comm_disconnect(&parent);
    MPI_Comm_get_parent(&again);
    CHECK(again == MPI_COMM_NULL);
    MPI_Finalize();
    return 0;
}

static void parents_of(char *program, MPI_Comm comm, int root, int children) {
    char count[16];
    int group, codes[8], me, n;
    MPI_Comm inter, merged;
    memset(codes, 77, sizeof codes);
    MPI_Comm_size(comm, &group);
    MPI_Comm_rank(comm, &me);
    snprintf(count, sizeof count, "%d", group);
    char *argv[] = {"child", "two words", "", count, NULL};
    int is_root = me == root;
    MPI_Comm_spawn(is_root ? program : NULL, is_root ? argv : NULL, is_root ? children : -1, MPI_INFO_NULL, root, comm,
                   &inter, codes);
    for (int i = 0; i < children; i++) CHECK(codes[i] == MPI_SUCCESS);
    CHECK(codes[children] != MPI_SUCCESS);
    MPI_Comm_remote_size(inter, &n);
    CHECK(n == children);
    static int data[100000];
    MPI_Request requests[8];
    for (int c = 0; c < children; c++) {
        data[0] = me * 100 + c;
        MPI_Send(data, 1, MPI_INT, c, 1, inter);
        data[99999] = me;
        MPI_Send(data, 100000, MPI_INT, c, 2, inter);
    }
    for (int c = 0; c < children; c++) {
        MPI_Recv(data, 100000, MPI_INT, c, 3, inter, MPI_STATUS_IGNORE);
        CHECK(data[0] == c);
    }
    int says = 4711;
    MPI_Bcast(&says, 1, MPI_INT, me == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
    MPI_Intercomm_merge(inter, 0, &merged);
    int sum, all;
    MPI_Comm_rank(merged, &me);
    MPI_Comm_size(merged, &all);
    MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, merged);
    CHECK(sum == all * (all - 1) / 2);
    MPI_Comm_disconnect(&merged);
    MPI_Comm_disconnect(&inter);
    CHECK(inter == MPI_COMM_NULL);
}

static void failures(char *program) {
    MPI_Comm inter = MPI_COMM_WORLD;
    int codes[2] = {0, 0}, class, length;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int error = MPI_Comm_spawn("/nonexistent/program", MPI_ARGV_NULL, 2, MPI_INFO_NULL, size - 1, MPI_COMM_WORLD, &inter,
                               codes);
    MPI_Error_class(error, &class);
    CHECK(class == MPI_ERR_SPAWN && codes[0] == MPI_ERR_SPAWN && codes[1] == MPI_ERR_SPAWN);
    MPI_Error_string(error, text, &length);
    CHECK(rank != size - 1 || strstr(text, "/nonexistent/program"));
    error = MPI_Comm_spawn(program, MPI_ARGV_NULL, -3, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
    MPI_Error_class(error, &class);
    CHECK(class == MPI_ERR_ARG);
    error = MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, MPI_INFO_NULL, size, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
    MPI_Error_class(error, &class);
    CHECK(class == MPI_ERR_ROOT);
    MPI_Info info;
    MPI_Info_create(&info);
    MPI_Info_set(info, "host", "nowhere.invalid");
    error = MPI_Comm_spawn(program, MPI_ARGV_NULL, 1, info, 0, MPI_COMM_WORLD, &inter, MPI_ERRCODES_IGNORE);
    MPI_Error_class(error, &class);
    CHECK(class == MPI_ERR_SPAWN);
    MPI_Info_free(&info);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

// The number of descriptors of the launcher; 0 if the kernel does not permit to read it.
static int kept_by_launcher(void) {
    char path[64];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int) getppid());
    DIR *descriptors = opendir(path);
    if (descriptors == NULL) return 0;
    while (readdir(descriptors) != NULL) count++;
    closedir(descriptors);
    return count;
}

int main(int argc, char **argv) {
    MPI_Comm parent;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) return child(parent, argc, argv);
    // The launcher has descriptors for each rank: all ranks must have been started before they are
    // counted.
    MPI_Barrier(MPI_COMM_WORLD);
    moved_begin();
    int before = kept_by_launcher();
    parents_of(argv[0], MPI_COMM_WORLD, size - 1, 2);
    parents_of(argv[0], MPI_COMM_SELF, 0, 1);
    failures(argv[0]);
    parents_of(argv[0], MPI_COMM_WORLD, 0, 5);
    // The launcher closes the descriptors of ended processes as soon as it has noticed their ends.
    for (int looks = 0; kept_by_launcher() > before + 4; looks++) {
        CHECK(looks < 30000);
        usleep(1000);
    }
    moved_end();
    MPI_Finalize();
    if (rank == 0) printf("ok\n");
    return 0;
}
