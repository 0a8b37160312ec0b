! ranks: 1 2
! A receive that nobody answers is cancelled, and one that was answered is not.
program cancel
  use mpi_f08
  implicit none
  integer :: me, value
  type(MPI_Request) :: request
  type(MPI_Status) :: status
  logical :: cancelled
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  value = 13
  call MPI_Irecv(value, 1, MPI_INTEGER, MPI_ANY_SOURCE, 9, MPI_COMM_WORLD, request)
  call MPI_Cancel(request)
  call MPI_Wait(request, status)
  call MPI_Test_cancelled(status, cancelled)
  if (.not. cancelled) error stop 'the receive is not cancelled'
  if (request /= MPI_REQUEST_NULL .or. value /= 13) error stop 'the request or the buffer'
  call MPI_Irecv(value, 1, MPI_INTEGER, me, 9, MPI_COMM_WORLD, request)
  call MPI_Send(me + 40, 1, MPI_INTEGER, me, 9, MPI_COMM_WORLD)
  call MPI_Wait(request, status)
  call MPI_Test_cancelled(status, cancelled)
  if (cancelled) error stop 'a complete receive is cancelled'
  call MPI_F_sync_reg(value)
  if (value /= me + 40) error stop 'the value'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
