! ranks: 1 2 4
! Ragged contributions, gathered in reverse order with gaps between them.
program ragged
  use mpi
  implicit none
  integer :: ierr, me, np, i, r
  integer, allocatable :: mine(:), all_of(:), counts(:), places(:)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, np, ierr)
  ! Rank 0 has nothing to say.
  mine = [(100 * me + i, i=1, me)]
  allocate (counts(np), places(np), all_of(np * np + 1))
  call MPI_Gather(me, 1, MPI_INTEGER, counts, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierr)
  if (me == 0) then
    if (any(counts /= [(i, i=0, np-1)])) error stop 'the counts'
    places = [((np - 1 - i) * np, i=0, np-1)]
  end if
  all_of = -7
  call MPI_Gatherv(mine, me, MPI_INTEGER, all_of, counts, places, MPI_INTEGER, 0, &
                   MPI_COMM_WORLD, ierr)
  if (me == 0) then
    do r = 0, np - 1
      do i = 1, np
        if (all_of(places(r+1)+i) /= merge(100 * r + i, -7, i <= r)) error stop 'the numbers'
      end do
    end do
  else if (any(all_of /= -7)) then
    error stop 'a result at another rank'
  end if
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
