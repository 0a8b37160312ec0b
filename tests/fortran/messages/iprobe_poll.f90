! ranks: 2 4
! A process computes while it polls for messages from the others.
program iprobe_poll
  use mpi
  implicit none
  integer :: ierr, me, np, got, text_length, status(MPI_STATUS_SIZE), polls
  logical :: waiting
  character(len=60) :: text, expected
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, np, ierr)
  write (text, '(a,i0)') repeat('greetings ', me + 1), me
  if (me /= 0) then
    call MPI_Send(text, len_trim(text), MPI_CHARACTER, 0, me, MPI_COMM_WORLD, ierr)
  else
    got = 0
    polls = 0
    do while (got < np - 1)
      call MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, waiting, status, ierr)
      polls = polls + 1
      if (.not. waiting) cycle
      call MPI_Get_count(status, MPI_CHARACTER, text_length, ierr)
      text = ''
      call MPI_Recv(text, text_length, MPI_CHARACTER, status(MPI_SOURCE), status(MPI_TAG), &
                    MPI_COMM_WORLD, status, ierr)
      write (expected, '(a,i0)') repeat('greetings ', status(MPI_SOURCE) + 1), status(MPI_SOURCE)
      if (text /= expected) error stop 'the text'
      got = got + 1
    end do
    if (polls < np - 1) error stop 'the polls'
  end if
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
