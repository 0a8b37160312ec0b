! ranks: 4
! A communicator that its members make without the others.
program create_group
  use mpi
  implicit none
  integer :: ierr, me, world, members, comm, n, total
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_group(MPI_COMM_WORLD, world, ierr)
  call MPI_Group_incl(world, 3, [3, 2, 0], members, ierr)
  comm = MPI_COMM_NULL
  if (me /= 1) then
    call MPI_Comm_create_group(MPI_COMM_WORLD, members, 5, comm, ierr)
    call MPI_Comm_rank(comm, n, ierr)
    if (me == 3 .and. n /= 0 .or. me == 2 .and. n /= 1 .or. me == 0 .and. n /= 2) &
      error stop 'the rank'
    call MPI_Reduce(me, total, 1, MPI_INTEGER, MPI_SUM, 0, comm, ierr)
    if (n == 0 .and. total /= 5) error stop 'the sum'
    call MPI_Comm_free(comm, ierr)
  end if
  call MPI_Group_free(members, ierr)
  call MPI_Group_free(world, ierr)
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
