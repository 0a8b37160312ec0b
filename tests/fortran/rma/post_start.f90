! ranks: 2 4
! Post, start, complete and wait with the neighbours alone.
program post_start
  use mpi
  implicit none
  integer :: ierr, me, np, left, right, world, to, from, win
  double precision, asynchronous :: halo(2), edge(2)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, np, ierr)
  right = modulo(me + 1, np)
  left = modulo(me - 1, np)
  call MPI_Comm_group(MPI_COMM_WORLD, world, ierr)
  call MPI_Group_incl(world, 1, [right], to, ierr)
  call MPI_Group_incl(world, 1, [left], from, ierr)
  halo = -1
  edge = [me + 0.25d0, me + 0.5d0]
  call MPI_Win_create(halo, 16_MPI_ADDRESS_KIND, 8, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierr)
  call MPI_Win_post(from, 0, win, ierr)
  call MPI_Win_start(to, 0, win, ierr)
  call MPI_Put(edge, 2, MPI_DOUBLE_PRECISION, right, 0_MPI_ADDRESS_KIND, 2, MPI_DOUBLE_PRECISION, &
               win, ierr)
  call MPI_Win_complete(win, ierr)
  call MPI_Win_wait(win, ierr)
  if (any(halo /= [left + 0.25d0, left + 0.5d0])) error stop 'the halo'
  call MPI_Win_free(win, ierr)
  call MPI_Group_free(to, ierr)
  call MPI_Group_free(from, ierr)
  call MPI_Group_free(world, ierr)
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
