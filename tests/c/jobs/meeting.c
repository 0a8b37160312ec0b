/* Two jobs of different mpiruns, or none, that connect. The first argument is the role:
 *
 *   server N          opens a port, prints its name, accepts N clients one after another
 *   client PORT       connects to the port, and again after a disconnect
 *   publisher NAME    publishes a port under a name, accepts one client
 *   seeker NAME       looks up the name and connects
 *   searcher NAME FILE: looks up the name many times, connects when FILE exists
 *   host              accepts one client, then another one together with it
 *   guest PORT        connects, then accepts with the host together
 *   joiner            listens on a TCP socket, prints its number, joins the connecting process
 *   joined NUMBER     joins by such a socket
 *   stayer            accepts a client, prints "rank RANK PID", waits for a message without end
 *   goer PORT HOW     connects, then its last rank ends: kill, mpi (MPI_Abort), code, or stays
 *   leaver PORT       connects, disconnects, dies of SIGKILL; with "stayer again" the server waits
 *                     for a second client
 *   early             its other ranks end at once, rank 0 accepts a client and ends
 *   late PORT FILE    connects, and ends some time after FILE exists
 *   wrong PORT        expects MPI_ERR_PORT with the name of the port in its text
 *
 * Prints "ROLE fine" at rank 0. */
#include "../check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

enum { LONG = 300000 };

static void get_port(char *port)
{
    memset(port, 0, MPI_MAX_PORT_NAME);
    if (rank == 0) MPI_Open_port(MPI_INFO_NULL, port);
}

static void print_port(const char *port)
{
    if (rank == 0) {
        printf("%s\n", port);
        fflush(stdout);
    }
}

static void talk(MPI_Comm inter, int high)
{
    int remote, *words = malloc(LONG * sizeof *words), *more = malloc(LONG * sizeof *more);
    MPI_Comm both, copy, half;
    MPI_Comm_remote_size(inter, &remote);
    MPI_Request request;
    for (int other = 0; other < remote; other++) {
        for (int length = 1; length <= LONG; length *= LONG / 300) {
            for (int at = 0; at < length; at++) words[at] = rank * 1000 + other + at;
            MPI_Isend(words, length, MPI_INT, other, length % 1000, inter, &request);
            MPI_Recv(more, length, MPI_INT, other, length % 1000, inter, MPI_STATUS_IGNORE);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
            int bad = 0;
            for (int at = 0; at < length; at++) bad += more[at] != other * 1000 + rank + at;
            CHECK_EQ(bad, 0);
        }
    }
    for (int turn = 0; turn < 200; turn++) {
        int got = -1;
        MPI_Sendrecv(&turn, 1, MPI_INT, rank % remote, 5, &got, 0, MPI_INT, MPI_PROC_NULL, 5, inter, MPI_STATUS_IGNORE);
        int senders = 0, mine = 0;
        MPI_Comm_size(inter, &senders);
        for (int from = 0; from < remote; from++) mine += from % senders == rank;
        for (int n = 0; n < mine; n++) {
            MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 5, inter, MPI_STATUS_IGNORE);
        }
    }
    MPI_Barrier(inter);
    MPI_Intercomm_merge(inter, high, &both);
    MPI_Comm_dup(both, &copy);
    int all, number, sum = 0;
    MPI_Comm_size(copy, &all);
    MPI_Comm_rank(copy, &number);
    for (int turn = 0; turn < 50; turn++) {
        MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, copy);
        CHECK_EQ(sum, all * (all - 1) / 2);
        MPI_Barrier(both);
    }
    MPI_Bcast(number == all - 1 ? memset(words, 7, LONG) : words, LONG, MPI_CHAR, all - 1, both);
    CHECK_EQ(((char *) words)[LONG - 1], 7);
    MPI_Comm_split(both, number % 2, -number, &half);
    MPI_Comm_size(half, &sum);
    CHECK_EQ(sum, (all + 1 - number % 2) / 2);
    MPI_Barrier(half);

    MPI_Group group;
    MPI_Comm made, parts;
    MPI_Comm_group(both, &group);
    MPI_Comm_create_from_group(group, "all of us", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &made);
    MPI_Allreduce(&number, &sum, 1, MPI_INT, MPI_SUM, made);
    CHECK_EQ(sum, all * (all - 1) / 2);
    MPI_Comm_disconnect(&made);
    MPI_Group_free(&group);
    if (all > 1) {
        MPI_Intercomm_create(half, 0, both, number % 2 ? all - 1 - (all - 1) % 2 : all - 1 - all % 2, 3, &parts);
        MPI_Barrier(parts);
        MPI_Comm_disconnect(&parts);
    }

    /* One-sided, where memory of the other job may be mapped. */
    MPI_Win win;
    int *memory;
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, both, &memory, &win);
    *memory = -1;
    MPI_Win_fence(0, win);
    MPI_Put(&number, 1, MPI_INT, (number + 1) % all, 0, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    CHECK_EQ(*memory, (number + all - 1) % all);
    MPI_Win_free(&win);
    MPI_Comm_disconnect(&half);
    MPI_Comm_disconnect(&copy);
    MPI_Comm_disconnect(&both);
    free(words);
    free(more);
}

static void fine(const char *role)
{
    if (rank == 0 && !check_failures) {
        printf("%s fine\n", role);
        fflush(stdout);
    }
}

static void serve(int clients)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm inter;
    get_port(port);
    print_port(port);
    for (int n = 0; n < clients; n++) {
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
        talk(inter, 0);
        MPI_Comm_disconnect(&inter);
    }
    if (rank == 0) MPI_Close_port(port);
}

static void connect_to(const char *port, int times)
{
    MPI_Comm inter;
    for (int n = 0; n < times; n++) {
        MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
        talk(inter, 1);
        MPI_Comm_disconnect(&inter);
    }
}

static void publish(const char *name)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm inter;
    get_port(port);
    if (rank == 0) MPI_Publish_name(name, MPI_INFO_NULL, port);
    print_port("published");
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    talk(inter, 0);
    MPI_Comm_disconnect(&inter);
    if (rank == 0) MPI_Unpublish_name(name, MPI_INFO_NULL, port);
}

static void seek(const char *name)
{
    char port[MPI_MAX_PORT_NAME], text[MPI_MAX_ERROR_STRING];
    int class, length;
    if (rank == 0) {
        MPI_Lookup_name(name, MPI_INFO_NULL, port);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        int code = MPI_Publish_name(name, MPI_INFO_NULL, port);
        MPI_Error_class(code, &class);
        CHECK_EQ(class, MPI_ERR_SERVICE);
        code = MPI_Lookup_name("nobody has published this", MPI_INFO_NULL, text);
        MPI_Error_class(code, &class);
        MPI_Error_string(code, text, &length);
        CHECK_EQ(class, MPI_ERR_NAME);
    }
    connect_to(port, 1);
}

static void search_often(const char *name, const char *file)
{
    char port[MPI_MAX_PORT_NAME];
    for (int n = 0; n < 300; n++) MPI_Lookup_name(name, MPI_INFO_NULL, port);
    print_port("sought");
    while (access(file, F_OK) != 0) usleep(5000);
    connect_to(port, 1);
}

static void host(const char *first)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm inter, both, third;
    if (!first) get_port(port);
    if (!first) print_port(port);
    if (first) {
        MPI_Comm_connect(first, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    } else {
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    }
    MPI_Intercomm_merge(inter, first != NULL, &both);
    if (!first) print_port("met");
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, both, &third);
    int mine = rank;
    MPI_Comm_rank(both, &rank);
    talk(third, 0);
    rank = mine;
    MPI_Comm_disconnect(&third);
    MPI_Comm_disconnect(&both);
    MPI_Comm_disconnect(&inter);
}

static void join(int number)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (number) {
        address.sin_port = htons(number);
        CHECK_EQ(connect(fd, (struct sockaddr *) &address, sizeof address), 0);
    } else {
        int listener = fd;
        CHECK_EQ(bind(listener, (struct sockaddr *) &address, sizeof address), 0);
        CHECK_EQ(listen(listener, 1), 0);
        getsockname(listener, (struct sockaddr *) &address, &length);
        printf("%d\n", ntohs(address.sin_port));
        fflush(stdout);
        fd = accept(listener, NULL, NULL);
        close(listener);
    }
    MPI_Comm inter;
    MPI_Comm_join(fd, &inter);
    CHECK(inter != MPI_COMM_NULL);
    int keep = rank;
    rank = 0;
    talk(inter, number != 0);
    rank = keep;
    MPI_Comm_disconnect(&inter);
    close(fd);
}

static void stay(MPI_Comm inter)
{
    int word;
    printf("rank %d %d\n", rank, (int) getpid());
    fflush(stdout);
    MPI_Recv(&word, 1, MPI_INT, 0, 99, inter, MPI_STATUS_IGNORE);
}

static void stay_there(const char *again)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm inter;
    get_port(port);
    print_port(port);
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    if (!strcmp(again, "again")) {
        talk(inter, 0);
        MPI_Comm_disconnect(&inter);
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
        talk(inter, 0);
        MPI_Comm_disconnect(&inter);
    } else {
        MPI_Barrier(inter);
        stay(inter);
    }
}

static void go(const char *port, const char *how)
{
    MPI_Comm inter;
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    MPI_Barrier(inter);
    if (rank == size - 1) {
        if (!strcmp(how, "kill")) raise(SIGKILL);
        if (!strcmp(how, "mpi")) MPI_Abort(MPI_COMM_WORLD, 7);
        if (!strcmp(how, "code")) _exit(3);
    }
    stay(inter);
}

static void expect_wrong(const char *port)
{
    char text[MPI_MAX_ERROR_STRING];
    int class, length;
    MPI_Comm inter;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int code = MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &inter);
    MPI_Error_class(code, &class);
    MPI_Error_string(code, text, &length);
    CHECK_EQ(class, MPI_ERR_PORT);
    if (rank == 0) {
        CHECK(strstr(text, port) != NULL);
        printf("%s\n", text);
    }
}

static void accept_late(void)
{
    char port[MPI_MAX_PORT_NAME];
    MPI_Comm inter;
    if (rank != 0) return;
    /* The others have ended, as far as this process can know. */
    sleep(1);
    get_port(port);
    print_port(port);
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
    MPI_Recv(NULL, 0, MPI_INT, 0, 1, inter, MPI_STATUS_IGNORE);
}

static void stay_longer(const char *port, const char *file)
{
    MPI_Comm inter;
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
    MPI_Send(NULL, 0, MPI_INT, 0, 1, inter);
    print_port("connected");
    while (access(file, F_OK) != 0) usleep(5000);
    /* Time for its mpirun to report a failure. */
    usleep(300000);
}

int main(int argc, char **argv)
{
    const char *role = argv[1], *word = argc > 2 ? argv[2] : "", *how = argc > 3 ? argv[3] : "";
    alarm(60);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(role, "server")) serve(atoi(word));
    if (!strcmp(role, "client")) connect_to(word, 2);
    if (!strcmp(role, "publisher")) publish(word);
    if (!strcmp(role, "seeker")) seek(word);
    if (!strcmp(role, "searcher")) search_often(word, how);
    if (!strcmp(role, "host")) host(NULL);
    if (!strcmp(role, "guest")) host(word);
    if (!strcmp(role, "third")) connect_to(word, 1);
    if (!strcmp(role, "joiner")) join(0);
    if (!strcmp(role, "joined")) join(atoi(word));
    if (!strcmp(role, "stayer")) stay_there(word);
    if (!strcmp(role, "goer")) go(word, how);
    if (!strcmp(role, "early")) accept_late();
    if (!strcmp(role, "late")) stay_longer(word, how);
    if (!strcmp(role, "wrong")) expect_wrong(word);
    if (!strcmp(role, "leaver")) {
        connect_to(word, 1);
        if (rank == 0) raise(SIGKILL);
    }
    fine(role);
    MPI_Finalize();
    return check_failures != 0;
}
