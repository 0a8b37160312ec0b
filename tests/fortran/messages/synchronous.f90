! ranks: 2
! A synchronous send is complete only when its receive has begun.
program synchronous
  use mpi_f08
  implicit none
  integer :: me, value, order(2)
  logical :: complete
  type(MPI_Request) :: request
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  if (me == 0) then
    call MPI_Issend(77, 1, MPI_INTEGER, 1, 1, MPI_COMM_WORLD, request)
    call MPI_Test(request, complete, MPI_STATUS_IGNORE)
    if (complete) error stop 'complete without a receive'
    ! The receive begins behind this message.
    call MPI_Send(0, 1, MPI_INTEGER, 1, 2, MPI_COMM_WORLD)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call MPI_Ssend([5, 6], 2, MPI_INTEGER, 1, 3, MPI_COMM_WORLD)
  else
    call MPI_Recv(value, 1, MPI_INTEGER, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Recv(value, 1, MPI_INTEGER, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    if (value /= 77) error stop 'the value'
    call MPI_Recv(order, 2, MPI_INTEGER, 0, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    if (any(order /= [5, 6])) error stop 'the values'
  end if
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
