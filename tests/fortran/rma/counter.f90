! ranks: 1 2 4
! A shared counter deals out tasks by MPI_Fetch_and_op: each one exactly once.
program counter
  use mpi_f08
  implicit none
  integer, parameter :: tasks = 60
  integer :: me, task, done(tasks)
  integer, asynchronous :: next, fetched
  type(MPI_Win) :: win
  integer(MPI_ADDRESS_KIND), parameter :: zero = 0
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  next = 1
  call MPI_Win_create(next, merge(4_MPI_ADDRESS_KIND, zero, me == 0), 4, MPI_INFO_NULL, &
                      MPI_COMM_WORLD, win)
  done = 0
  do
    call MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win)
    call MPI_Fetch_and_op(1, fetched, MPI_INTEGER, 0, zero, MPI_SUM, win)
    call MPI_Win_unlock(0, win)
    task = fetched
    if (task > tasks) exit
    done(task) = done(task) + 1
  end do
  call MPI_Allreduce(MPI_IN_PLACE, done, tasks, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (any(done /= 1)) error stop 'a task that is done twice or never'
  call MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win)
  call MPI_Fetch_and_op(fetched, fetched, MPI_INTEGER, 0, zero, MPI_NO_OP, win)
  call MPI_Win_unlock(0, win)
  call MPI_Comm_size(MPI_COMM_WORLD, task)
  if (fetched /= tasks + 1 + task) error stop 'the counter at the end'
  call MPI_Win_free(win)
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
