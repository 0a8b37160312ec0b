! ranks: 2 4
! A master hands out numbers to whoever is ready, and a tag tells the workers to stop.
program master_worker
  use mpi
  implicit none
  integer, parameter :: tasks = 40, work = 1, stop_now = 2, result_tag = 3
  integer :: ierr, me, np, next, done, worker, task, status(MPI_STATUS_SIZE), answer(2), busy
  integer :: squares(tasks)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, np, ierr)
  if (me == 0) then
    squares = -1
    next = 0
    busy = 0
    do worker = 1, np - 1
      call hand_out(worker)
    end do
    done = 0
    do while (busy > 0)
      call MPI_Recv(answer, 2, MPI_INTEGER, MPI_ANY_SOURCE, result_tag, MPI_COMM_WORLD, status, &
                    ierr)
      squares(answer(1)) = answer(2)
      done = done + 1
      busy = busy - 1
      call hand_out(status(MPI_SOURCE))
    end do
    if (done /= tasks) error stop 'the number of results'
    if (any(squares /= [(task**2, task=1, tasks)])) error stop 'the results'
  else
    do
      call MPI_Recv(task, 1, MPI_INTEGER, 0, MPI_ANY_TAG, MPI_COMM_WORLD, status, ierr)
      if (status(MPI_TAG) == stop_now) exit
      answer = [task, task**2]
      call MPI_Send(answer, 2, MPI_INTEGER, 0, result_tag, MPI_COMM_WORLD, ierr)
    end do
  end if
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
contains
  subroutine hand_out(to)
    integer, intent(in) :: to
    if (next == tasks) then
      call MPI_Send(0, 0, MPI_INTEGER, to, stop_now, MPI_COMM_WORLD, ierr)
    else
      next = next + 1
      busy = busy + 1
      call MPI_Send(next, 1, MPI_INTEGER, to, work, MPI_COMM_WORLD, ierr)
    end if
  end subroutine
end program
