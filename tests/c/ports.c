// ranks: 2 3 5
// transports: all
// every day: tcp-encrypted lamd ofi
// Rank 0 serves at a port, the others connect: all together, one after another, without an accept;
// names are published, looked up and unpublished; errors name the cause.
#include "must.h"
#include "moved.h"
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int rank, size;

static void exchange(MPI_Comm inter, int first) {
    int n, mine = rank, sum = -1;
    MPI_Comm merged;
    MPI_Comm_remote_size(inter, &n);
    MPI_Intercomm_merge(inter, !first, &merged);
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, merged);
    int all;
    MPI_Comm_size(merged, &all);
    CHECK(all == size ? sum == size * (size - 1) / 2 : sum >= 0);
    MPI_Comm_free(&merged);
    MPI_Comm_disconnect(&inter);
}

static int class_of(int error) {
    int class;
    MPI_Error_class(error, &class);
    return class;
}

static void errors(void) {
    char port[MPI_MAX_PORT_NAME], text[MPI_MAX_ERROR_STRING];
    int length;
    MPI_Comm inter;
    MPI_Info info;
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    CHECK(class_of(MPI_Lookup_name("no such service", MPI_INFO_NULL, port)) == MPI_ERR_NAME);
    MPI_Error_string(MPI_ERR_NAME, text, &length);
    CHECK(strstr(text, "no such service"));
    CHECK(class_of(MPI_Unpublish_name("no such service", MPI_INFO_NULL, "p")) == MPI_ERR_SERVICE);
    int error = MPI_Comm_connect("no port", MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
    CHECK(class_of(error) == MPI_ERR_PORT);
    MPI_Error_string(error, text, &length);
    CHECK(strstr(text, "no port"));
    error = MPI_Comm_connect("oxmpi:0123456789abcdef:1", MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
    CHECK(class_of(error) == MPI_ERR_PORT);
    MPI_Error_string(error, text, &length);
    CHECK(strstr(text, "oxmpi:0123456789abcdef:1"));
    CHECK(class_of(MPI_Comm_accept("no port", MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter)) == MPI_ERR_PORT);
    CHECK(class_of(MPI_Close_port("no port")) == MPI_ERR_PORT);
    MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Info_create(&info);
    MPI_Info_set(info, "timeout", "0.05");
    CHECK(class_of(MPI_Comm_connect(port, info, 0, MPI_COMM_SELF, &inter)) == MPI_ERR_PORT);
    CHECK(class_of(MPI_Comm_accept(port, info, 0, MPI_COMM_SELF, &inter)) == MPI_ERR_PORT);
    MPI_Info_set(info, "timeout", "soon");
    CHECK(class_of(MPI_Comm_connect(port, info, 0, MPI_COMM_SELF, &inter)) == MPI_ERR_INFO_VALUE);
    MPI_Info_free(&info);
    MPI_Close_port(port);
    CHECK(class_of(MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter)) == MPI_ERR_PORT);
    CHECK(class_of(MPI_Comm_join(9990, &inter)) == MPI_ERR_OTHER);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
}

static void join(void) {
    /* An abstract name leaves no file behind; its secret is unique. */
    char port[MPI_MAX_PORT_NAME] = {0};
    MPI_Comm inter;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int heard = -1;
    if (rank == 0) MPI_Open_port(MPI_INFO_NULL, port);
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "%.100s", port);
    if (rank > 1) {
        MPI_Barrier(MPI_COMM_WORLD);
        return;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (rank == 0) {
        CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 1) == 0);
        MPI_Barrier(MPI_COMM_WORLD);
        int other = accept(fd, NULL, NULL);
        close(fd);
        fd = other;
    } else {
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    }
    MPI_Comm_join(fd, &inter);
    CHECK(inter != MPI_COMM_NULL);
    MPI_Sendrecv(&rank, 1, MPI_INT, 0, 0, &heard, 1, MPI_INT, 0, 0, inter, MPI_STATUS_IGNORE);
    CHECK(heard == 1 - rank);
    char letter = 'a' + rank;
    CHECK(write(fd, &letter, 1) == 1 && read(fd, &letter, 1) == 1 && letter == 'a' + 1 - rank);
    close(fd);
    MPI_Comm_disconnect(&inter);
    if (rank == 0) MPI_Close_port(port);
}

int main(int argc, char **argv) {
    char port[MPI_MAX_PORT_NAME] = {0}, found[MPI_MAX_PORT_NAME];
    MPI_Comm others, inter;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    moved_begin();
    errors();
    MPI_Comm_split(MPI_COMM_WORLD, rank > 0, rank, &others);
    if (rank == 0) {
        MPI_Open_port(MPI_INFO_NULL, port);
        /* Other jobs see the name, so it must be unique. */
        MPI_Publish_name(port, MPI_INFO_NULL, port);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
        CHECK(class_of(MPI_Publish_name(port, MPI_INFO_NULL, port)) == MPI_ERR_SERVICE);
        MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
    }
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Lookup_name(port, MPI_INFO_NULL, found);
    CHECK(!strcmp(port, found));
    if (rank == 0) {
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
    } else {
        MPI_Comm_connect(rank == size - 1 ? port : NULL, MPI_INFO_NULL, size - 2, others, &inter);
    }
    exchange(inter, rank == 0);
    for (int n = 1; rank == 0 ? n < size : n < 2; n++) {
        if (rank == 0) {
            MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
        } else {
            MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &inter);
        }
        exchange(inter, rank == 0);
    }
    MPI_Comm_free(&others);
    if (rank == 0) {
        MPI_Unpublish_name(port, MPI_INFO_NULL, port);
        MPI_Close_port(port);
    }
    join();
    moved_end();
    MPI_Finalize();
    if (rank == 0) printf("ok\n");
    return 0;
}
