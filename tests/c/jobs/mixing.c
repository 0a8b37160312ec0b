/* Two connected jobs of two mpiruns, which make communicators of groups and spawn together. The
 * first argument is the role:
 *
 *   left           opens a port, prints its name, accepts
 *   right PORT     connects
 *
 * and of the spawned processes:
 *
 *   child          exchanges messages with all its parents, and spawns a grandchild with them
 *   grandchild     exchanges messages with all these
 *   back PORT      connects back to the job that has not spawned it
 *
 * Prints "left fine" and "right fine" at rank 0 of the sides. */
#include "../check.h"

enum { CHILDREN = 2, LONG = 100000 };

static void talk(MPI_Comm comm, int members)
{
    int me, all, sum = -1, *out = malloc(LONG * sizeof *out), *in = malloc(LONG * sizeof *in);
    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &all);
    CHECK_EQ(all, members);
    for (int turn = 0; turn < 20; turn++) {
        MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, comm);
        CHECK_EQ(sum, all * (all - 1) / 2);
    }
    for (int length = 1; length <= LONG; length *= LONG / 10) {
        for (int at = 0; at < length; at++) out[at] = me + at;
        MPI_Sendrecv(out, length, MPI_INT, (me + 1) % all, 4, in, length, MPI_INT, (me + all - 1) % all, 4, comm, MPI_STATUS_IGNORE);
        CHECK_EQ(in[length - 1], (me + all - 1) % all + length - 1);
    }
    free(out);
    free(in);
}

/* As `talk`, on a communicator made of the group of `comm`, and of a session. */
static void talk_as_group(MPI_Comm comm, const char *tag, int members)
{
    MPI_Group group;
    MPI_Comm made;
    MPI_Comm_group(comm, &group);
    CHECK_OK(MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &made));
    talk(made, members);
    CHECK_OK(MPI_Comm_disconnect(&made));
    MPI_Group_free(&group);
}

static void talk_as_groups(MPI_Comm inter, const char *tag)
{
    int near, far, me;
    MPI_Group local, remote;
    MPI_Comm made, both;
    MPI_Comm_size(inter, &near);
    MPI_Comm_remote_size(inter, &far);
    MPI_Comm_rank(inter, &me);
    MPI_Comm_group(inter, &local);
    MPI_Comm_remote_group(inter, &remote);
    CHECK_OK(MPI_Intercomm_create_from_groups(local, near - 1, remote, far - 1, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &made));
    int sum = -1, want = far * (far + 1) / 2, mine = me + 1;
    CHECK_OK(MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, made));
    CHECK_EQ(sum, want);
    CHECK_OK(MPI_Intercomm_merge(made, 0, &both));
    talk(both, near + far);
    CHECK_OK(MPI_Comm_disconnect(&both));
    CHECK_OK(MPI_Comm_disconnect(&made));
    MPI_Group_free(&local);
    MPI_Group_free(&remote);
}

static void spawn(char *program, char *role, char *word, int count, int root, MPI_Comm comm, MPI_Comm *children)
{
    int codes[CHILDREN];
    char *words[] = {role, word, NULL};
    CHECK_OK(MPI_Comm_spawn(program, words, count, MPI_INFO_NULL, root, comm, children, codes));
    for (int n = 0; n < count; n++) CHECK_EQ(codes[n], MPI_SUCCESS);
}

/* Parents with children: `all` are the members of both sides. */
static void talk_with(MPI_Comm inter, int high, int all, MPI_Comm *both)
{
    MPI_Intercomm_merge(inter, high, both);
    talk(*both, all);
    talk_as_group(*both, "with those spawned", all);
    talk_as_groups(inter, "parents and children");
}

/* The `all` members of `family` spawn one more process at this root, exchange messages with it,
 * and disconnect. */
static void have_grandchild(char *program, int root, int all, MPI_Comm family)
{
    MPI_Comm grandchildren, all_three;
    spawn(program, "grandchild", "", 1, root, family, &grandchildren);
    talk_with(grandchildren, 0, all + 1, &all_three);
    MPI_Comm_disconnect(&all_three);
    MPI_Comm_disconnect(&grandchildren);
}

static void mix(char *program, MPI_Comm inter, int high)
{
    int near, far;
    MPI_Comm both, children, family, back;
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm_size(inter, &near);
    MPI_Comm_remote_size(inter, &far);
    int all = near + far;
    talk_as_groups(inter, "left and right");
    MPI_Intercomm_merge(inter, high, &both);
    talk_as_group(both, "both", all);
    for (int root = 0; root < all; root += all - 1) {
        spawn(program, "child", "", CHILDREN, root, both, &children);
        talk_with(children, 0, all + CHILDREN, &family);
        have_grandchild(program, all, all + CHILDREN, family);
        MPI_Comm_disconnect(&family);
        MPI_Comm_disconnect(&children);
    }
    /* The left's children connect to the right by its port, and the right's to the left. */
    for (int turn = 0; turn < 2; turn++) {
        /* First the left opens, whose ranks come first in `both`. */
        int opens = turn == high;
        if (opens && rank == 0) MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Bcast(port, sizeof port, MPI_CHAR, turn == 0 ? 0 : high ? far : near, both);
        if (opens) {
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &back);
            talk_as_groups(back, "back");
            MPI_Comm_disconnect(&back);
            if (rank == 0) MPI_Close_port(port);
        } else {
            spawn(program, "back", port, CHILDREN, 0, MPI_COMM_WORLD, &children);
            MPI_Barrier(children);
            MPI_Comm_disconnect(&children);
        }
    }
    MPI_Comm_disconnect(&both);
}

static void child(char *program, MPI_Comm parent)
{
    int parents;
    MPI_Comm family;
    MPI_Comm_remote_size(parent, &parents);
    talk_with(parent, 1, parents + CHILDREN, &family);
    have_grandchild(program, parents, parents + CHILDREN, family);
    MPI_Comm_disconnect(&family);
    MPI_Comm_disconnect(&parent);
}

static void grandchild(MPI_Comm parent)
{
    int parents;
    MPI_Comm all_three;
    MPI_Comm_remote_size(parent, &parents);
    talk_with(parent, 1, parents + 1, &all_three);
    MPI_Comm_disconnect(&all_three);
    MPI_Comm_disconnect(&parent);
}

static void come_back(const char *port, MPI_Comm parent)
{
    MPI_Comm inter;
    CHECK_OK(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter));
    talk_as_groups(inter, "back");
    MPI_Comm_disconnect(&inter);
    MPI_Barrier(parent);
    MPI_Comm_disconnect(&parent);
}

int main(int argc, char **argv)
{
    const char *role = argv[1];
    MPI_Comm parent, inter;
    char port[MPI_MAX_PORT_NAME] = "";
    alarm(60);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_parent(&parent);
    if (!strcmp(role, "child")) child(argv[0], parent);
    if (!strcmp(role, "grandchild")) grandchild(parent);
    if (!strcmp(role, "back")) come_back(argv[2], parent);
    if (!strcmp(role, "left")) {
        if (rank == 0) {
            MPI_Open_port(MPI_INFO_NULL, port);
            printf("%s\n", port);
            fflush(stdout);
        }
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
        mix(argv[0], inter, 0);
        MPI_Comm_disconnect(&inter);
    }
    if (!strcmp(role, "right")) {
        MPI_Comm_connect(argv[2], MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
        mix(argv[0], inter, 1);
        MPI_Comm_disconnect(&inter);
    }
    if (rank == 0 && parent == MPI_COMM_NULL && !check_failures) {
        printf("%s fine\n", role);
        fflush(stdout);
    }
    MPI_Finalize();
    return check_failures != 0;
}
