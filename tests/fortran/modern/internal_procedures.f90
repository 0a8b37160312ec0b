! ranks: 1 2
! Internal procedures and procedure pointers as operations and handlers.
program internals
  use, intrinsic :: iso_c_binding
  use mpi_f08
  implicit none
  integer :: me, np, calls, modulus, value, result
  type(MPI_Op) :: op
  procedure(MPI_User_function), pointer :: chosen
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  calls = 0
  modulus = 7
  chosen => add_modulo
  call MPI_Op_create(chosen, .true., op)
  value = 5 + me
  call MPI_Allreduce(value, result, 1, MPI_INTEGER, op, MPI_COMM_WORLD)
  if (result /= merge(5, 4, np == 1)) error stop 'the sum modulo 7'
  value = 10
  call MPI_Reduce_local([3], value, 1, MPI_INTEGER, op)
  if (value /= 6 .or. calls < 1) error stop 'the variables of the host'
  call MPI_Op_free(op)
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
contains
  subroutine add_modulo(invec, inoutvec, len, datatype)
    type(c_ptr), value :: invec, inoutvec
    integer :: len
    type(MPI_Datatype) :: datatype
    integer, pointer :: one(:), other(:)
    if (datatype /= MPI_INTEGER) error stop 'the type'
    call c_f_pointer(invec, one, [len])
    call c_f_pointer(inoutvec, other, [len])
    other = mod(one + other, modulus)
    calls = calls + 1
  end subroutine
end program
