! ranks: 2
! What module mpi_f08 of other MPIs takes from their libraries: special arguments, operators,
! predefined procedures, and procedures of the program.
module procedures
  use mpi_f08
  use iso_c_binding
  implicit none
  integer :: calls = 0
contains
  subroutine add(from, to, length, datatype)
    type(c_ptr), value :: from, to
    integer :: length
    type(MPI_Datatype) :: datatype
    integer, pointer :: a(:), b(:)
    if (datatype /= MPI_INTEGER) error stop 'the datatype of an operation'
    call c_f_pointer(from, a, [length])
    call c_f_pointer(to, b, [length])
    b = a + b
    calls = calls + 1
  end subroutine

  subroutine handle(comm, code)
    type(MPI_Comm) :: comm
    integer :: code, class
    call MPI_Error_class(code, class)
    if (comm == MPI_COMM_WORLD .and. class == MPI_ERR_RANK) calls = calls + 10
  end subroutine
end module

program module_mpi_f08
  use mpi_f08
  use procedures
  implicit none
  integer :: rank, ranks, faults = 0, numbers(4), others(4), key, code
  character(len=MPI_MAX_PROCESSOR_NAME) :: name
  integer :: spread(8, 2)
  type(MPI_Comm) :: comm, copy
  type(MPI_Request) :: request
  type(MPI_Status) :: status
  type(MPI_Op) :: op
  type(MPI_Errhandler) :: errhandler
  integer(MPI_ADDRESS_KIND) :: value
  logical :: flag
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  numbers = [1, 2, 3, 4] + rank
  call MPI_Allreduce(MPI_IN_PLACE, numbers, 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call check(all(numbers == [3, 5, 7, 9]), 'MPI_IN_PLACE')
  call MPI_Op_create(add, .true., op)
  numbers = rank + 1
  call MPI_Allreduce(numbers, others, 4, MPI_INTEGER, op, MPI_COMM_WORLD)
  call check(all(others == 3), 'an operation')
  call MPI_Op_free(op)
  call check(op == MPI_OP_NULL .and. .not. op /= MPI_OP_NULL, 'operators')
  call MPI_Irecv(others, 4, MPI_INTEGER, 1 - rank, 7, MPI_COMM_WORLD, request)
  call MPI_Send(numbers, 2, MPI_INTEGER, 1 - rank, 7, MPI_COMM_WORLD)
  call MPI_Wait(request, status)
  call MPI_Get_count(status, MPI_INTEGER, key)
  call check(status%MPI_SOURCE == 1 - rank .and. status%MPI_TAG == 7 .and. key == 2, 'a status')
  call check(all(others(:2) == 2 - rank) .and. request == MPI_REQUEST_NULL, 'a message')
  call MPI_Sendrecv(numbers, 1, MPI_INTEGER, MPI_PROC_NULL, 0, others, 1, MPI_INTEGER, MPI_PROC_NULL, &
      MPI_ANY_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, key, 0_MPI_ADDRESS_KIND)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call MPI_Comm_set_attr(comm, key, 1234567890123_MPI_ADDRESS_KIND)
  call MPI_Comm_dup(comm, copy)
  call MPI_Comm_get_attr(copy, key, value, flag)
  call check(flag .and. value == 1234567890123_MPI_ADDRESS_KIND, 'an attribute')
  call MPI_Comm_free(copy)
  call MPI_Comm_free(comm)
  call MPI_Comm_create_errhandler(handle, errhandler)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, errhandler)
  calls = 0
  call MPI_Send(numbers, 1, MPI_INTEGER, ranks, 0, MPI_COMM_WORLD, code)
  call check(calls == 10 .and. code /= MPI_SUCCESS, 'an error handler')
  spread = 0
  spread(:, 1) = [(key, key = 1, 8)]
  call MPI_Sendrecv(spread(1::2, 1), 4, MPI_INTEGER, 1 - rank, 0, spread(2::2, 2), 4, MPI_INTEGER, &
      1 - rank, 0, MPI_COMM_WORLD, status)
  call check(all(spread(:, 2) == [0, 1, 0, 3, 0, 5, 0, 7]), 'array sections')
  call MPI_Get_processor_name(name, key)
  call check(len_trim(name) == key, 'a text')
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL)
  call MPI_Allreduce(MPI_IN_PLACE, faults, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Finalize()
  if (faults > 0) error stop 'wrong'
  if (rank == 0) print '(a)', 'ok'
contains
  subroutine check(is_right, what)
    logical :: is_right
    character(len=*) :: what
    if (is_right) return
    faults = faults + 1
    print '(a,i0,2a)', 'rank ', rank, ': wrong: ', what
  end subroutine
end program
