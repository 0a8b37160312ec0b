! ranks: 1 2 4
! MPI_Testall completes all requests or none, and the statuses are ignored.
program testall
  use mpi_f08
  implicit none
  integer :: me, np, i, rounds
  integer, allocatable, asynchronous :: out(:), in(:)
  type(MPI_Request), allocatable :: requests(:)
  logical :: done
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  allocate (out(np), in(np), requests(2 * np))
  out = [(1000 * me + i, i=1, np)]
  do i = 1, np
    call MPI_Irecv(in(i), 1, MPI_INTEGER, i - 1, 5, MPI_COMM_WORLD, requests(i))
  end do
  call MPI_Testall(np, requests, done, MPI_STATUSES_IGNORE)
  if (done) error stop 'done before anybody sends'
  if (any(requests(:np) == MPI_REQUEST_NULL)) error stop 'a request is gone'
  ! Nobody sends before all have looked.
  call MPI_Barrier(MPI_COMM_WORLD)
  do i = 1, np
    call MPI_Isend(out(i), 1, MPI_INTEGER, i - 1, 5, MPI_COMM_WORLD, requests(np + i))
  end do
  rounds = 0
  done = .false.
  do while (.not. done)
    call MPI_Testall(2 * np, requests, done, MPI_STATUSES_IGNORE)
    rounds = rounds + 1
  end do
  if (any(requests /= MPI_REQUEST_NULL)) error stop 'the requests'
  if (any(in /= [(1000 * i + me + 1, i=0, np-1)])) error stop 'the data'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
