! ranks: 1 2 4
! Prefix sums give each process the place of its data.
program prefix
  use mpi
  implicit none
  integer :: ierr, me, np, own, before, up_to
  real :: x, largest
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, np, ierr)
  own = 2 * me + 1
  ! The result of the first process is undefined.
  before = 0
  call MPI_Exscan(own, before, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (me == 0) before = 0
  call MPI_Scan(own, up_to, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (before /= me**2 .or. up_to /= (me + 1)**2) error stop 'the sums'
  x = merge(-1., real(me), mod(me, 2) == 1)
  call MPI_Scan(x, largest, 1, MPI_REAL, MPI_MAX, MPI_COMM_WORLD, ierr)
  if (largest /= me - mod(me, 2)) error stop 'the largest'
  call MPI_Scan(MPI_IN_PLACE, up_to, 1, MPI_INTEGER, MPI_MIN, MPI_COMM_WORLD, ierr)
  if (up_to /= 1) error stop 'in place'
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
