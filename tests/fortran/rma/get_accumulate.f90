! ranks: 1 2 4
! MPI_Get_accumulate returns what was there before each addition.
program get_accumulate
  use mpi
  implicit none
  integer :: ierr, me, np, win, ranks, i
  integer(MPI_ADDRESS_KIND), parameter :: zero = 0
  double precision, asynchronous :: table(3), before(3), add(3)
  integer, allocatable :: seen(:)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, np, ierr)
  table = 0
  add = [1d0, 0.5d0, -1d0]
  call MPI_Win_create(table, 24_MPI_ADDRESS_KIND, 8, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierr)
  call MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win, ierr)
  call MPI_Get_accumulate(add, 3, MPI_DOUBLE_PRECISION, before, 3, MPI_DOUBLE_PRECISION, 0, &
                          zero, 3, MPI_DOUBLE_PRECISION, MPI_SUM, win, ierr)
  call MPI_Win_unlock(0, win, ierr)
  if (any(before /= before(1) * add)) error stop 'what was there'
  ranks = nint(before(1))
  allocate (seen(np))
  call MPI_Allgather(ranks, 1, MPI_INTEGER, seen, 1, MPI_INTEGER, MPI_COMM_WORLD, ierr)
  do i = 0, np - 1
    if (count(seen == i) /= 1) error stop 'an addition is lost'
  end do
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  if (me == 0) then
    call MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win, ierr)
    call MPI_Get(before, 3, MPI_DOUBLE_PRECISION, 0, zero, 3, MPI_DOUBLE_PRECISION, win, ierr)
    call MPI_Win_unlock(0, win, ierr)
    if (any(before /= np * add)) error stop 'the sum'
  end if
  call MPI_Win_free(win, ierr)
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
