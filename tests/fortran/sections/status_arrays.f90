! ranks: 1 2
! Sections as other arguments: requests, statuses, counts and handles in parts of arrays.
program other_arguments
  use mpi_f08
  implicit none
  integer :: me, k, counts(2,8), numbers(8), got(8), np
  integer, asynchronous :: values(8)
  type(MPI_Request) :: requests(2,8)
  type(MPI_Status) :: statuses(3,8)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  requests = MPI_REQUEST_NULL
  do k = 1, 4
    call MPI_Irecv(values(k), 1, MPI_INTEGER, me, k, MPI_COMM_WORLD, requests(1,k))
    numbers(k) = 5 * k
    call MPI_Isend(numbers(k), 1, MPI_INTEGER, me, k, MPI_COMM_WORLD, requests(1,k+4))
  end do
  call MPI_Waitall(8, requests(1,:), statuses(2,:))
  if (any(requests(1,:) /= MPI_REQUEST_NULL)) error stop 'the requests'
  if (any(statuses(2,:4)%MPI_TAG /= [1, 2, 3, 4])) error stop 'the statuses'
  if (any(values(:4) /= [5, 10, 15, 20])) error stop 'the values'
  counts = -1
  counts(2,:np) = [(1, k=1, np)]
  got = -1
  call MPI_Allgatherv(me, 1, MPI_INTEGER, got, counts(2,:np), [(k, k=0, np-1)], MPI_INTEGER, &
                      MPI_COMM_WORLD)
  if (any(got(:np) /= [(k, k=0, np-1)])) error stop 'the counts'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
