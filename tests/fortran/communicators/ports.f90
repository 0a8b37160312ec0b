! ranks: 2
! A server opens a port, a client connects to it, and both part again.
program ports
  use mpi
  implicit none
  integer :: ierr, me, inter, n, got
  character(len=MPI_MAX_PORT_NAME) :: port
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  if (me == 0) then
    call MPI_Open_port(MPI_INFO_NULL, port, ierr)
    if (port == '') error stop 'the name of the port'
    call MPI_Send(port, len(port), MPI_CHARACTER, 1, 1, MPI_COMM_WORLD, ierr)
    call MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, inter, ierr)
  else
    call MPI_Recv(port, len(port), MPI_CHARACTER, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    call MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, inter, ierr)
  end if
  call MPI_Comm_remote_size(inter, n, ierr)
  if (n /= 1) error stop 'the other side'
  call MPI_Sendrecv(me + 50, 1, MPI_INTEGER, 0, 2, got, 1, MPI_INTEGER, 0, 2, inter, &
                    MPI_STATUS_IGNORE, ierr)
  if (got /= 51 - me) error stop 'the message'
  call MPI_Comm_disconnect(inter, ierr)
  if (me == 0) call MPI_Close_port(port, ierr)
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
