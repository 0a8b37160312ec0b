! ranks: 1 2 4
! A lock made of MPI_Compare_and_swap protects a sum.
program spin_lock
  use mpi
  implicit none
  integer, parameter :: rounds = 5
  integer :: ierr, me, np, win, k, seen
  integer(MPI_ADDRESS_KIND), parameter :: lock_at = 0, sum_at = 1
  integer, asynchronous :: memory(2), old, total
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, np, ierr)
  memory = [-1, 0]
  call MPI_Win_create(memory, 8_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierr)
  call MPI_Win_lock_all(0, win, ierr)
  do k = 1, rounds
    do
      call MPI_Compare_and_swap(me, -1, old, MPI_INTEGER, 0, lock_at, win, ierr)
      call MPI_Win_flush(0, win, ierr)
      if (old == -1) exit
    end do
    call MPI_Get(total, 1, MPI_INTEGER, 0, sum_at, 1, MPI_INTEGER, win, ierr)
    call MPI_Win_flush(0, win, ierr)
    total = total + 1
    call MPI_Put(total, 1, MPI_INTEGER, 0, sum_at, 1, MPI_INTEGER, win, ierr)
    call MPI_Win_flush(0, win, ierr)
    call MPI_Compare_and_swap(-1, me, old, MPI_INTEGER, 0, lock_at, win, ierr)
    call MPI_Win_flush(0, win, ierr)
    if (old /= me) error stop 'the lock has another owner'
  end do
  call MPI_Win_unlock_all(win, ierr)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win, ierr)
  call MPI_Get(total, 1, MPI_INTEGER, 0, sum_at, 1, MPI_INTEGER, win, ierr)
  call MPI_Win_unlock(0, win, ierr)
  seen = total
  if (seen /= rounds * np) error stop 'the sum'
  call MPI_Win_free(win, ierr)
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
