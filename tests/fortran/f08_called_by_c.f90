! ranks: 1 2
! Procedures with mpi_f08 in a program whose main program is in C (f08_called_by_c_part.c): handles
! and statuses of both, callbacks of one language in objects of the other.
module called_by_c
  use, intrinsic :: iso_c_binding
  use mpi_f08
  implicit none
  integer :: errors = 0
contains
  ! Sends a section on a communicator of C, and receives one of C's messages.
  integer(c_int) function exchange(comm, right, left) bind(c)
    integer(c_int), value :: comm, right, left
    type(MPI_Comm) :: f_comm
    type(MPI_Request) :: request
    type(MPI_Status) :: status
    integer :: numbers(9), i, n
    exchange = 0
    f_comm%MPI_VAL = comm
    numbers = [(i * 11, i=1, 9)]
    call MPI_Isend(numbers(9:1:-4), 3, MPI_INTEGER, right, 1, f_comm, request)
    call MPI_Recv(numbers(2:8:3), 9, MPI_BYTE, left, 2, f_comm, status)
    call MPI_Get_count(status, MPI_BYTE, n)
    if (n /= 9) exchange = exchange + 1
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    if (any(numbers([1, 3, 4, 6, 7, 9]) /= [11, 33, 44, 66, 77, 99])) exchange = exchange + 2
  end function

  ! Makes an operation, a request and an error handler for C.
  subroutine make(op, request, errhandler, buffer, comm) bind(c)
    integer(c_int) :: op, request, errhandler
    integer(c_int), asynchronous :: buffer(4)
    integer(c_int), value :: comm
    type(MPI_Op) :: f_op
    type(MPI_Request) :: f_request
    type(MPI_Errhandler) :: f_errhandler
    call MPI_Op_create(keep_larger, .true., f_op)
    op = f_op%MPI_VAL
    call MPI_Irecv(buffer, 4, MPI_INTEGER, MPI_ANY_SOURCE, 9, MPI_Comm(comm), f_request)
    request = f_request%MPI_VAL
    call MPI_Comm_create_errhandler(count_errors, f_errhandler)
    errhandler = f_errhandler%MPI_VAL
  end subroutine

  integer(c_int) function errors_in_fortran() bind(c)
    errors_in_fortran = errors
  end function

  ! Uses an operation of C, and the status of C.
  integer(c_int) function use_objects(op, status, comm) bind(c)
    integer(c_int), value :: op, comm
    integer(c_int), intent(in) :: status(8)
    type(MPI_Status) :: f_status
    integer :: numbers(6), n
    use_objects = 0
    call MPI_Status_f2f08(status, f_status)
    call MPI_Get_count(f_status, MPI_INTEGER, n)
    if (f_status%MPI_TAG /= 9 .or. n /= 4) use_objects = 1
    numbers = 3
    call MPI_Allreduce(MPI_IN_PLACE, numbers(1:5:2), 3, MPI_INTEGER, MPI_Op(op), MPI_Comm(comm))
    call MPI_Comm_size(MPI_Comm(comm), n)
    if (any(numbers(1:5:2) /= 3 * n) .or. any(numbers(2:6:2) /= 3)) use_objects = use_objects + 2
  end function

  subroutine keep_larger(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: x(:), y(:)
    call c_f_pointer(invec, x, [len])
    call c_f_pointer(inoutvec, y, [len])
    if (datatype == MPI_INT) y = max(x, y)
  end subroutine

  subroutine count_errors(comm, error_code)
    type(MPI_Comm) :: comm
    integer :: error_code
    if (comm /= MPI_COMM_NULL .and. error_code /= MPI_SUCCESS) errors = errors + 1
  end subroutine
end module
