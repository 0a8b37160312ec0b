! ranks: 2
! MPI_Request_get_status looks at a request and leaves it.
program looks
  use mpi
  implicit none
  integer :: ierr, me, request, kept, status(MPI_STATUS_SIZE), n
  integer, asynchronous :: numbers(5)
  logical :: done
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  if (me == 0) then
    numbers = 0
    call MPI_Irecv(numbers, 5, MPI_INTEGER, 1, 2, MPI_COMM_WORLD, request, ierr)
    kept = request
    call MPI_Request_get_status(request, done, status, ierr)
    if (done) error stop 'done too early'
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
    do while (.not. done)
      call MPI_Request_get_status(request, done, status, ierr)
    end do
    if (request /= kept) error stop 'the request has changed'
    call MPI_Get_count(status, MPI_INTEGER, n, ierr)
    if (n /= 3 .or. status(MPI_TAG) /= 2) error stop 'the status'
    call MPI_Wait(request, status, ierr)
    if (request /= MPI_REQUEST_NULL) error stop 'the request'
    if (any(numbers /= [4, 5, 6, 0, 0])) error stop 'the data'
    call MPI_Request_get_status(MPI_REQUEST_NULL, done, MPI_STATUS_IGNORE, ierr)
    if (.not. done) error stop 'the null request'
  else
    call MPI_Barrier(MPI_COMM_WORLD, ierr)
    call MPI_Send([4, 5, 6], 3, MPI_INTEGER, 0, 2, MPI_COMM_WORLD, ierr)
  end if
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
