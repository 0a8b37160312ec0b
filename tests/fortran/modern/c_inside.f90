! ranks: 1 2
! A C function of the program (c_inside_part.c) gets a communicator and a datatype as integers.
program c_inside
  use, intrinsic :: iso_c_binding
  use mpi_f08
  implicit none
  interface
    integer(c_int) function sum_in_c(comm, datatype, values, count) bind(c)
      import :: c_int, c_double
      integer(c_int), value :: comm, datatype, count
      real(c_double), intent(inout) :: values(*)
    end function
  end interface
  integer :: me, np
  real(c_double) :: values(4)
  type(MPI_Comm) :: reversed
  type(MPI_Datatype) :: pair
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  call MPI_Comm_split(MPI_COMM_WORLD, 0, -me, reversed)
  call MPI_Type_contiguous(2, MPI_DOUBLE_PRECISION, pair)
  call MPI_Type_commit(pair)
  values = [1d0, 2d0, 3d0, 4d0] * (me + 1)
  if (sum_in_c(reversed%MPI_VAL, pair%MPI_VAL, values, 2) /= np - 1 - me) error stop 'the rank'
  if (any(values /= [1d0, 2d0, 3d0, 4d0] * np)) error stop 'the values of the last process'
  call MPI_Comm_free(reversed)
  call MPI_Type_free(pair)
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
