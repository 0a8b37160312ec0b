// ranks: 1 2 3
// transports: all
// Spawns several programs at once: their numbers and arguments, working directory, environment, a
// soft number, an initial error handler, grandchildren; and intercommunicators of processes of
// three jobs.
#include "must.h"
#include "moved.h"
#include <string.h>
#include <unistd.h>

static int rank, size;

/* Two children of different jobs exchange messages by an intercommunicator that their parent has
 * helped to make. */
static void siblings(MPI_Comm parent, int which) {
    MPI_Comm with_parent, with_other;
    int said = which, heard = -1;
    MPI_Intercomm_merge(parent, 1, &with_parent); /* parent, then this process */
    MPI_Comm all;
    if (which == 0) {
        MPI_Comm inter;
        MPI_Intercomm_create(with_parent, 0, MPI_COMM_NULL, 0, 5, &inter);
        MPI_Intercomm_merge(inter, 0, &all);
        MPI_Comm_free(&inter);
    } else {
        MPI_Comm inter;
        MPI_Intercomm_create(MPI_COMM_SELF, 0, with_parent, 0, 5, &inter);
        MPI_Intercomm_merge(inter, 1, &all);
        MPI_Comm_free(&inter);
    }
    int n, me;
    MPI_Comm_size(all, &n);
    MPI_Comm_rank(all, &me);
    CHECK(n == 3 && me == which + 1);
    MPI_Comm_split(all, me == 0 ? MPI_UNDEFINED : 1, 0, &with_other);
    MPI_Sendrecv(&said, 1, MPI_INT, 1 - which, 0, &heard, 1, MPI_INT, 1 - which, 0, with_other, MPI_STATUS_IGNORE);
    CHECK(heard == 1 - which);
    MPI_Comm_disconnect(&with_other);
    MPI_Comm_disconnect(&all);
    MPI_Comm_disconnect(&with_parent);
}

static int child(MPI_Comm parent, int argc, char **argv) {
    int flag, *appnum;
    char cwd[4096];
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &appnum, &flag);
    CHECK(flag && argc >= 2);
    if (!strcmp(argv[1], "sibling")) {
        siblings(parent, atoi(argv[2]));
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    if (!strcmp(argv[1], "first")) {
        CHECK(*appnum == 0 && rank < 2 && argc == 3 && !strcmp(argv[2], "a b"));
        CHECK(getcwd(cwd, sizeof cwd) && !strcmp(cwd, "/"));
        CHECK(getenv("SPAWNED_VARIABLE") && !strcmp(getenv("SPAWNED_VARIABLE"), "x=y z"));
        MPI_Errhandler handler;
        MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
        CHECK(handler == MPI_ERRORS_RETURN);
    } else {
        CHECK(!strcmp(argv[1], "second") && *appnum == 1 && rank == 2 && argc == 2);
        CHECK(getenv("SPAWNED_VARIABLE") == NULL);
    }
    CHECK(size == 3);
    int sum, mine = rank;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == 3);
    MPI_Reduce(&mine, NULL, 1, MPI_INT, MPI_SUM, 0, parent);
    MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}

static void sibling_parent(char *program) {
    MPI_Comm first, second, with_first, with_second, inter, all, none;
    char *argv[] = {"sibling", "0", NULL};
    MPI_Comm_spawn(program, argv, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &first, MPI_ERRCODES_IGNORE);
    argv[1] = "1";
    MPI_Comm_spawn(program, argv, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &second, MPI_ERRCODES_IGNORE);
    MPI_Intercomm_merge(first, 0, &with_first);
    MPI_Intercomm_merge(second, 0, &with_second);
    MPI_Intercomm_create(with_first, 0, with_second, 1, 5, &inter);
    MPI_Intercomm_merge(inter, 0, &all);
    MPI_Comm_free(&inter);
    MPI_Comm_split(all, MPI_UNDEFINED, 0, &none);
    CHECK(none == MPI_COMM_NULL);
    MPI_Comm_disconnect(&all);
    MPI_Comm_disconnect(&with_first);
    MPI_Comm_disconnect(&with_second);
    MPI_Comm_disconnect(&first);
    MPI_Comm_disconnect(&second);
}

int main(int argc, char **argv) {
    MPI_Comm parent, inter;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) return child(parent, argc, argv);

    moved_begin();
    char *commands[] = {argv[0], argv[0]}, *first[] = {"first", "a b", NULL}, *second[] = {"second", NULL};
    char **arguments[] = {first, second};
    int most[] = {4, 1}, codes[5], sum = 0;
    MPI_Info infos[2] = {MPI_INFO_NULL, MPI_INFO_NULL};
    MPI_Info_create(&infos[0]);
    MPI_Info_set(infos[0], "wdir", "/");
    MPI_Info_set(infos[0], "env", "SPAWNED_VARIABLE=x=y z");
    MPI_Info_set(infos[0], "soft", "0:10:2,3,2");
    MPI_Info_set(infos[0], "soft", "1:2");
    MPI_Info_set(infos[0], "host", "localhost");
    MPI_Info_set(infos[0], "mpi_initial_errhandler", "mpi_errors_return");
    MPI_Comm_spawn_multiple(2, commands, arguments, most, infos, size - 1, MPI_COMM_WORLD, &inter, codes);
    CHECK(codes[0] == MPI_SUCCESS && codes[1] == MPI_SUCCESS && codes[4] == MPI_SUCCESS);
    CHECK(codes[2] == MPI_ERR_SPAWN && codes[3] == MPI_ERR_SPAWN);
    MPI_Reduce(NULL, &sum, 1, MPI_INT, MPI_SUM, rank == 0 ? MPI_ROOT : MPI_PROC_NULL, inter);
    CHECK(rank != 0 || sum == 3);
    MPI_Comm_disconnect(&inter);
    MPI_Info_free(&infos[0]);
    if (rank == 0) sibling_parent(argv[0]);
    moved_end();
    MPI_Finalize();
    if (rank == 0) printf("ok\n");
    return 0;
}
