! ranks: 2
! Procedures of modules mpi_f08 and mpi have these names in programs that MPICH 4.2 has compiled.
program names_of_mpich_4_2
  use, intrinsic :: iso_c_binding
  use mpi
  implicit none
  interface
    subroutine get_count_c(status, datatype, count, ierr) bind(c, name='mpi_get_count_c_f08_')
      import :: c_int, MPI_COUNT_KIND
      integer(c_int) :: status(*), datatype, ierr
      integer(MPI_COUNT_KIND) :: count
    end subroutine
    subroutine sizeof_r8(x, bytes, ierr) bind(c, name='__mpi_sizeofs_MOD_mpi_sizeof_r8')
      import :: c_int, c_double
      real(c_double) :: x
      integer(c_int) :: bytes, ierr
    end subroutine
  end interface
  integer :: ierr, rank, faults, status(MPI_STATUS_SIZE), bytes
  integer(MPI_COUNT_KIND) :: count
  double precision :: x(2), y(2)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  faults = 0
  x = 1
  call MPI_Sendrecv(x, 2, MPI_DOUBLE_PRECISION, rank, 0, y, 2, MPI_DOUBLE_PRECISION, rank, 0, &
                    MPI_COMM_WORLD, status, ierr)
  count = 0
  call get_count_c(status, MPI_DOUBLE_PRECISION, count, ierr)
  if (count /= 2 .or. ierr /= MPI_SUCCESS) faults = faults + 1
  call sizeof_r8(x(1), bytes, ierr)
  if (bytes /= 8 .or. ierr /= MPI_SUCCESS) faults = faults + 1
  call MPI_Allreduce(MPI_IN_PLACE, faults, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  call MPI_Finalize(ierr)
  if (faults > 0) print *, faults, 'results are wrong'
  if (faults > 0) stop 1
  if (rank == 0) print '(a)', 'ok'
end program
