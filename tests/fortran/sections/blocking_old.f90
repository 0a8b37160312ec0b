! ranks: 1 2
! Sections in blocking calls with module mpi: the compiler copies them in and out.
program blocking_old
  use mpi
  implicit none
  integer :: ierr, me, np, i, a(9), b(9)
  real :: m(3,3), total(3,3)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, np, ierr)
  if (MPI_SUBARRAYS_SUPPORTED) error stop 'this module has no descriptors'
  a = [(100 * me + i, i=1, 9)]
  b = 0
  call MPI_Sendrecv(a(1:9:2), 5, MPI_INTEGER, modulo(me + 1, np), 1, b(9:1:-2), 5, MPI_INTEGER, &
                    modulo(me - 1, np), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  if (any(b(9:1:-2) /= [(100 * modulo(me - 1, np) + i, i=1, 9, 2)])) error stop 'the numbers'
  if (any(b(2:8:2) /= 0)) error stop 'the gaps'
  m = reshape([(i, i=1, 9)], [3, 3])
  total = 0
  call MPI_Allreduce(m(2,:), total(3,:), 3, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (any(total(3,:) /= np * [2, 5, 8]) .or. any(total(:2,:) /= 0)) error stop 'the sums'
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
