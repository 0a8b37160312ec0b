// The C++ bindings of other MPIs: operations, error handlers and attributes.
#include <mpi.h>

#include <cstdio>

static int faults = 0, copied = 0, deleted = 0, handled = 0;

static void check(bool is_right, const char *what)
{
    if (is_right) return;
    faults++;
    std::printf("wrong: %s\n", what);
}

static void add(const void *in, void *out, int count, const MPI::Datatype &)
{
    for (int at = 0; at < count; at++)
        static_cast<int *>(out)[at] += static_cast<const int *>(in)[at];
}

static void handle_comm(MPI::Comm &, int *code, ...) { handled = *code; }
static void handle_win(MPI::Win &, int *code, ...) { handled = *code; }

static int copy_nothing(bool &flag) { return flag = false, MPI::SUCCESS; }
static int copy_win(const MPI::Win &, int, void *, void *, void *, bool &flag) { return copy_nothing(flag); }
// Open MPI has a constant value in the type of the function.
static int copy_type(const MPI::Datatype &, int, void *, void *, void *, bool &flag) { return copy_nothing(flag); }
static int copy_type(const MPI::Datatype &, int, void *, const void *, void *, bool &flag) { return copy_nothing(flag); }

#ifndef OMPI_MAJOR_VERSION
static int copy_comm(const MPI::Comm &, int, void *extra, void *from, void *to, bool &flag)
{
    copied++;
    *static_cast<void **>(to) = static_cast<char *>(from) + *static_cast<int *>(extra);
    flag = true;
    return MPI::SUCCESS;
}

static int delete_comm(MPI::Comm &, int, void *, void *) { return deleted++, MPI::SUCCESS; }
#else
// Functions of C++ for communicators are refused there.
static int copy_comm(MPI_Comm, int, void *extra, void *from, void *to, int *flag)
{
    copied++;
    *static_cast<void **>(to) = static_cast<char *>(from) + *static_cast<int *>(extra);
    return *flag = 1, MPI_SUCCESS;
}

static int delete_comm(MPI_Comm, int, void *, void *) { return deleted++, MPI_SUCCESS; }
#endif
static int delete_type(MPI::Datatype &, int, void *, void *) { return deleted++, MPI::SUCCESS; }
static int delete_win(MPI::Win &, int, void *, void *) { return deleted++, MPI::SUCCESS; }

static void operations()
{
    int rank = MPI::COMM_WORLD.Get_rank(), size = MPI::COMM_WORLD.Get_size(), sum = -1;
    MPI::Op op;
    op.Init(add, true);
    MPI::COMM_WORLD.Allreduce(&rank, &sum, 1, MPI::INT, op);
    check(sum == size * (size - 1) / 2, "the sum of an operation");
    op.Free();
}

static void error_handlers()
{
    MPI::Intracomm comm = MPI::COMM_WORLD.Dup();
    MPI::Errhandler handler = MPI::Comm::Create_errhandler(handle_comm);
    comm.Set_errhandler(handler);
    MPI::Errhandler same = comm.Get_errhandler();
    check(same == handler, "the error handler of a communicator");
    int value = 0;
    comm.Send(&value, 1, MPI::INT, -77, 0);
    check(MPI::Get_error_class(handled) == MPI::ERR_RANK, "the error of a communicator");
    handler.Free();
    comm.Free();

    MPI::Win win = MPI::Win::Create(&value, sizeof value, 1, MPI::INFO_NULL, MPI::COMM_WORLD);
    handler = MPI::Win::Create_errhandler(handle_win);
    win.Set_errhandler(handler);
    handled = 0;
    win.Put(&value, 1, MPI::INT, -77, 0, 1, MPI::INT);
    check(MPI::Get_error_class(handled) == MPI::ERR_RANK, "the error of a window");
    handler.Free();
    win.Free();
}

static void attributes()
{
    int step = 3;
    char place[8];
    void *found = NULL;
    int key = MPI::Comm::Create_keyval(copy_comm, delete_comm, &step);
    MPI::Intracomm comm = MPI::COMM_WORLD.Dup();
    comm.Set_attr(key, place);
    MPI::Intracomm copy = comm.Dup();
    check(copied == 1 && copy.Get_attr(key, &found) && found == place + step, "a copied attribute");
    copy.Free();
    comm.Free();
    check(deleted == 2, "the attributes of freed communicators");
    MPI::Comm::Free_keyval(key);

    MPI::Datatype type = MPI::INT.Create_contiguous(2);
    key = MPI::Datatype::Create_keyval(copy_type, delete_type, NULL);
    type.Set_attr(key, place);
    type.Free();
    check(deleted == 3, "the attribute of a freed datatype");
    MPI::Datatype::Free_keyval(key);

    MPI::Win win = MPI::Win::Create(place, sizeof place, 1, MPI::INFO_NULL, MPI::COMM_WORLD);
    key = MPI::Win::Create_keyval(copy_win, delete_win, NULL);
    win.Set_attr(key, place);
    win.Free();
    check(deleted == 4, "the attribute of a freed window");
    MPI::Win::Free_keyval(key);
}

int main(int argc, char **argv)
{
    MPI::Init(argc, argv);
    operations();
    error_handlers();
    attributes();
    int all = 0, rank = MPI::COMM_WORLD.Get_rank();
    MPI::COMM_WORLD.Allreduce(&faults, &all, 1, MPI::INT, MPI::SUM);
    MPI::Finalize();
    if (rank == 0 && all == 0) std::printf("ok\n");
    return all != 0;
}
