! ranks: 2 4
! Batches of completed receives by MPI_Waitsome, with their statuses.
program waitsome
  use mpi
  implicit none
  integer, parameter :: each = 3
  integer :: ierr, me, np, i, k, n, done, sender
  integer, allocatable :: requests(:), indices(:), statuses(:,:)
  integer, allocatable, asynchronous :: values(:)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, np, ierr)
  if (me /= 0) then
    do k = 1, each
      call MPI_Send(100 * me + k, 1, MPI_INTEGER, 0, k, MPI_COMM_WORLD, ierr)
    end do
  else
    n = each * (np - 1)
    allocate (requests(n), indices(n), statuses(MPI_STATUS_SIZE, n), values(n))
    values = 0
    do i = 1, n
      sender = (i - 1) / each + 1
      call MPI_Irecv(values(i), 1, MPI_INTEGER, sender, mod(i - 1, each) + 1, MPI_COMM_WORLD, &
                     requests(i), ierr)
    end do
    k = 0
    do
      call MPI_Waitsome(n, requests, done, indices, statuses, ierr)
      if (done == MPI_UNDEFINED) exit
      if (done < 1) error stop 'nothing is done'
      do i = 1, done
        sender = (indices(i) - 1) / each + 1
        if (statuses(MPI_SOURCE, i) /= sender) error stop 'the source'
        if (values(indices(i)) /= 100 * sender + statuses(MPI_TAG, i)) error stop 'the value'
      end do
      k = k + done
    end do
    if (k /= n) error stop 'the number of messages'
  end if
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
