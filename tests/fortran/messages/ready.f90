! ranks: 2
! Ready sends, to receives that are known to wait.
program ready
  use mpi
  implicit none
  integer :: ierr, me, requests(2), other
  complex :: out(4), in(4), again(4)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  other = 1 - me
  in = 0
  again = 0
  call MPI_Irecv(in, 4, MPI_COMPLEX, other, 1, MPI_COMM_WORLD, requests(1), ierr)
  call MPI_Irecv(again, 4, MPI_COMPLEX, other, 2, MPI_COMM_WORLD, requests(2), ierr)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  out = [(1., 2.), (3., 4.), (5., 6.), (7., 8.)] * (me + 1)
  call MPI_Rsend(out, 4, MPI_COMPLEX, other, 1, MPI_COMM_WORLD, ierr)
  call MPI_Rsend(conjg(out), 4, MPI_COMPLEX, other, 2, MPI_COMM_WORLD, ierr)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierr)
  call MPI_F_sync_reg(in)
  call MPI_F_sync_reg(again)
  if (any(in /= [(1., 2.), (3., 4.), (5., 6.), (7., 8.)] * (other + 1))) error stop 'the data'
  if (any(again /= conjg(in))) error stop 'the conjugates'
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
