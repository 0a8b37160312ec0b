! ranks: 2
! The operators of module mpi_f08 have these names in programs that Open MPI 5 has compiled.
program names_of_openmpi_5
  use, intrinsic :: iso_c_binding
  use mpi
  implicit none
  interface
    integer(c_int) function are_equal(one, other) bind(c, name='__mpi_types_MOD_ompi_comm_op_eq')
      import :: c_int
      integer(c_int), intent(in) :: one, other
    end function
    integer(c_int) function differ(one, other) bind(c, name='__mpi_types_MOD_ompi_datatype_op_ne')
      import :: c_int
      integer(c_int), intent(in) :: one, other
    end function
  end interface
  integer :: ierr, rank, faults
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  faults = 0
  if (are_equal(MPI_COMM_WORLD, MPI_COMM_WORLD) /= 1) faults = faults + 1
  if (are_equal(MPI_COMM_WORLD, MPI_COMM_SELF) /= 0) faults = faults + 1
  if (differ(MPI_INTEGER, MPI_REAL) /= 1) faults = faults + 1
  if (differ(MPI_INTEGER, MPI_INTEGER) /= 0) faults = faults + 1
  call MPI_Allreduce(MPI_IN_PLACE, faults, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  call MPI_Finalize(ierr)
  if (faults > 0) print *, faults, 'comparisons are wrong'
  if (faults > 0) stop 1
  if (rank == 0) print '(a)', 'ok'
end program
