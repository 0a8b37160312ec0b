! ranks: 1 2 4
! The place of the largest and the smallest value, with pairs of each type.
program places
  use mpi
  implicit none
  integer :: ierr, me, np, pair(2), best(2), i
  real :: single(2), best_single(2)
  double precision :: pairs(2,3), best_pairs(2,3)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, np, ierr)
  pair = [mod(me * 3 + 1, 5), me]
  call MPI_Allreduce(pair, best, 1, MPI_2INTEGER, MPI_MAXLOC, MPI_COMM_WORLD, ierr)
  if (best(1) /= maxval([(mod(i * 3 + 1, 5), i=0, np-1)])) error stop 'the largest integer'
  if (best(2) /= maxloc([(mod(i * 3 + 1, 5), i=0, np-1)], 1) - 1) error stop 'its place'
  single = [-real(me), real(me) + 100]
  call MPI_Allreduce(single, best_single, 1, MPI_2REAL, MPI_MINLOC, MPI_COMM_WORLD, ierr)
  if (any(best_single /= [1. - np, 99. + np])) error stop 'the smallest real'
  ! Of equal values the one with the lowest index counts.
  pairs(1,:) = [1d0, dble(me), -1d0]
  pairs(2,:) = [np - dble(me), dble(me), 5d0]
  call MPI_Allreduce(pairs, best_pairs, 3, MPI_2DOUBLE_PRECISION, MPI_MINLOC, MPI_COMM_WORLD, ierr)
  if (any(best_pairs(1,:) /= [1d0, 0d0, -1d0])) error stop 'the smallest numbers'
  if (any(best_pairs(2,:) /= [1d0, 0d0, 5d0])) error stop 'their places'
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
