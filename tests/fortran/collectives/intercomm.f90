! ranks: 2 4
! Collectives between two groups: one tells the other, and both add up.
program groups
  use mpi
  implicit none
  integer :: ierr, me, np, half, side, inter, rank, other, total, root, secret, i
  integer, allocatable :: all_of(:)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, np, ierr)
  side = mod(me, 2)
  call MPI_Comm_split(MPI_COMM_WORLD, side, me, half, ierr)
  call MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - side, 7, inter, ierr)
  call MPI_Comm_remote_size(inter, other, ierr)
  call MPI_Comm_rank(inter, rank, ierr)
  secret = merge(42, 0, side == 0 .and. rank == 0)
  root = 0
  if (side == 0) root = merge(MPI_ROOT, MPI_PROC_NULL, rank == 0)
  call MPI_Bcast(secret, 1, MPI_INTEGER, root, inter, ierr)
  if (side == 1 .and. secret /= 42) error stop 'the secret'
  ! Each group gets the sum of the other.
  call MPI_Allreduce(me, total, 1, MPI_INTEGER, MPI_SUM, inter, ierr)
  if (total /= sum([(i, i=1-side, np-1, 2)])) error stop 'the sum of the others'
  allocate (all_of(other))
  call MPI_Allgather(10 * me, 1, MPI_INTEGER, all_of, 1, MPI_INTEGER, inter, ierr)
  if (any(all_of /= [(10 * i, i=1-side, np-1, 2)])) error stop 'the others'
  call MPI_Comm_free(inter, ierr)
  call MPI_Comm_free(half, ierr)
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
