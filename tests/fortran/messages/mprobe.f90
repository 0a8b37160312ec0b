! ranks: 1 2
! Matched probes: a message that was probed can be received by nobody else.
program mprobe
  use mpi_f08
  implicit none
  integer :: me, np, n, to, numbers(8), i
  integer, asynchronous :: short(3), long(5)
  type(MPI_Message) :: first, second
  type(MPI_Status) :: status
  type(MPI_Request) :: requests(2), receive
  logical :: flag
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  to = modulo(me + 1, np)
  short = [(10 + i, i=1, 3)]
  long = [(20 + i, i=1, 5)]
  call MPI_Isend(short, 3, MPI_INTEGER, to, 4, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(long, 5, MPI_INTEGER, to, 4, MPI_COMM_WORLD, requests(2))
  call MPI_Mprobe(MPI_ANY_SOURCE, 4, MPI_COMM_WORLD, first, status)
  call MPI_Get_count(status, MPI_INTEGER, n)
  if (n /= 3) error stop 'the first message'
  flag = .false.
  do while (.not. flag)
    call MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, flag, second, status)
  end do
  call MPI_Get_count(status, MPI_INTEGER, n)
  if (n /= 5) error stop 'the second message'
  numbers = 0
  call MPI_Imrecv(numbers(8:4:-1), 5, MPI_INTEGER, second, receive)
  call MPI_Wait(receive, status)
  if (second /= MPI_MESSAGE_NULL) error stop 'the handle of a received message'
  call MPI_Mrecv(numbers, 3, MPI_INTEGER, first, MPI_STATUS_IGNORE)
  if (any(numbers /= [11, 12, 13, 25, 24, 23, 22, 21])) error stop 'the data'
  if (status%MPI_TAG /= 4 .or. status%MPI_SOURCE /= modulo(me - 1, np)) error stop 'the status'
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
