! ranks: 2
! The addresses of MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE in C: ignored_statuses_part.c has the
! other part.
program ignored_statuses
  use, intrinsic :: iso_c_binding
  use mpi
  implicit none
  interface
    integer(c_int) function which_in_c(status) bind(c, name='which_in_c')
      import :: c_int
      integer(c_int) :: status(*)
    end function
  end interface
  integer :: ierr, rank, status(MPI_STATUS_SIZE), faults
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  faults = 0
  if (which_in_c(MPI_STATUS_IGNORE) /= 1) faults = faults + 1
  if (which_in_c(MPI_STATUSES_IGNORE) /= 2) faults = faults + 1
  if (which_in_c(status) /= 0) faults = faults + 1
  call MPI_Allreduce(MPI_IN_PLACE, faults, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  call MPI_Finalize(ierr)
  if (faults > 0) print *, faults, 'addresses are wrong'
  if (faults > 0) stop 1
  if (rank == 0) print '(a)', 'ok'
end program
