// ranks: 1 2
// transports: one
/* Handles as integers: each kind there and back, also predefined ones; the integer of a freed
 * object does not name the next one in its place. */
#include "check.h"

static void nothing_done(void *in, void *inout, int *length, MPI_Datatype *type)
{
    (void) in, (void) inout, (void) length, (void) type;
}

static void handle(MPI_Comm *comm, int *code, ...)
{
    (void) comm, (void) code;
}

#define KIND(Name, Type, make, release, use, class)                                                                         \
    do {                                                                                                                    \
        check_where(#Name);                                                                                                 \
        int olds[ROUNDS];                                                                                                   \
        for (int i = 0; i < ROUNDS; i++) {                                                                                  \
            Type object, other;                                                                                             \
            make;                                                                                                           \
            olds[i] = MPI_##Name##_toint(object);                                                                           \
            CHECK(MPI_##Name##_fromint(olds[i]) == object);                                                                 \
            for (int k = 0; k < i; k++) {                                                                                   \
                CHECK(olds[k] != olds[i]);                                                                                  \
                other = MPI_##Name##_fromint(olds[k]);                                                                      \
                CHECK(other != object);                                                                                     \
                CHECK_CLASS(use, class);                                                                                    \
            }                                                                                                               \
            release;                                                                                                        \
        }                                                                                                                   \
    } while (0)

enum { ROUNDS = 6 };

static void kinds(void)
{
    int number, flag;
    MPI_Group all;
    MPI_Comm_group(MPI_COMM_WORLD, &all);
    KIND(Comm, MPI_Comm, MPI_Comm_dup(MPI_COMM_SELF, &object), MPI_Comm_free(&object), MPI_Comm_size(other, &number),
         MPI_ERR_COMM);
    int zero = 0;
    KIND(Group, MPI_Group, MPI_Group_incl(all, 1, &zero, &object), MPI_Group_free(&object), MPI_Group_size(other, &number),
         MPI_ERR_GROUP);
    KIND(Type, MPI_Datatype, MPI_Type_contiguous(2, MPI_INT, &object), MPI_Type_free(&object), MPI_Type_size(other, &number),
         MPI_ERR_TYPE);
    KIND(Op, MPI_Op, MPI_Op_create(nothing_done, 1, &object), MPI_Op_free(&object), MPI_Op_commutative(other, &number),
         MPI_ERR_OP);
    KIND(Info, MPI_Info, MPI_Info_create(&object), MPI_Info_free(&object), MPI_Info_get_nkeys(other, &number), MPI_ERR_INFO);
    KIND(Errhandler, MPI_Errhandler, MPI_Comm_create_errhandler(handle, &object), MPI_Errhandler_free(&object),
         MPI_Comm_set_errhandler(MPI_COMM_SELF, other), MPI_ERR_ERRHANDLER);
    KIND(Request, MPI_Request, MPI_Send_init(&number, 1, MPI_INT, rank, 0, MPI_COMM_WORLD, &object), MPI_Request_free(&object),
         MPI_Request_get_status(other, &flag, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    KIND(Session, MPI_Session, MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &object), MPI_Session_finalize(&object),
         MPI_Session_get_num_psets(other, MPI_INFO_NULL, &number), MPI_ERR_SESSION);
    KIND(Message, MPI_Message,
         (MPI_Send(&zero, 1, MPI_INT, rank, 1, MPI_COMM_WORLD),
          MPI_Mprobe(rank, 1, MPI_COMM_WORLD, &object, MPI_STATUS_IGNORE)),
         MPI_Mrecv(&number, 1, MPI_INT, &object, MPI_STATUS_IGNORE),
         MPI_Mrecv(&number, 1, MPI_INT, &other, MPI_STATUS_IGNORE), MPI_ERR_REQUEST);
    MPI_Group_free(&all);
}

#define SAME(Name, constant)                                                \
    do {                                                                    \
        CHECK(MPI_##Name##_fromint(MPI_##Name##_toint(constant)) == constant); \
        CHECK_EQ(MPI_##Name##_toint(constant), (intptr_t) constant);        \
    } while (0)

static void constants(void)
{
    check_where("predefined");
    SAME(Comm, MPI_COMM_NULL);
    SAME(Comm, MPI_COMM_WORLD);
    SAME(Comm, MPI_COMM_SELF);
    SAME(Group, MPI_GROUP_NULL);
    SAME(Group, MPI_GROUP_EMPTY);
    SAME(Type, MPI_DATATYPE_NULL);
    SAME(Type, MPI_INT);
    SAME(Type, MPI_COUNT);
    SAME(Op, MPI_OP_NULL);
    SAME(Op, MPI_SUM);
    SAME(Info, MPI_INFO_NULL);
    SAME(Info, MPI_INFO_ENV);
    SAME(Errhandler, MPI_ERRHANDLER_NULL);
    SAME(Errhandler, MPI_ERRORS_RETURN);
    SAME(Request, MPI_REQUEST_NULL);
    SAME(Message, MPI_MESSAGE_NULL);
    SAME(Message, MPI_MESSAGE_NO_PROC);
    SAME(Session, MPI_SESSION_NULL);
    SAME(Win, MPI_WIN_NULL);
    SAME(File, MPI_FILE_NULL);
}

/* A send that was complete at once has a request like any other. */
static void complete(void)
{
    check_where("complete at once");
    MPI_Request request, again;
    int out = 5, in = -1;
    CHECK_OK(MPI_Isend(&out, 1, MPI_INT, rank, 2, MPI_COMM_WORLD, &request));
    again = MPI_Request_fromint(MPI_Request_toint(request));
    CHECK(again == request);
    CHECK_OK(MPI_Recv(&in, 1, MPI_INT, rank, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    CHECK_OK(MPI_Wait(&again, MPI_STATUS_IGNORE));
    CHECK_EQ(in, 5);
}

static void many(void)
{
    enum { MANY = 3000 };
    check_where("many");
    static MPI_Info infos[MANY];
    for (int i = 0; i < MANY; i++) MPI_Info_create(&infos[i]);
    for (int i = 0; i < MANY; i++) CHECK(MPI_Info_fromint(MPI_Info_toint(infos[i])) == infos[i]);
    int first = MPI_Info_toint(infos[0]);
    for (int i = 0; i < MANY; i++) {
        MPI_Info_free(&infos[0]);
        MPI_Info_create(&infos[0]);
        CHECK(MPI_Info_fromint(MPI_Info_toint(infos[0])) == infos[0]);
        CHECK(MPI_Info_fromint(first) != infos[0]);
    }
    for (int i = 0; i < MANY; i++) MPI_Info_free(&infos[i]);
}

int main(int argc, char **argv)
{
    check_begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    kinds();
    constants();
    complete();
    many();
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    return check_end();
}
