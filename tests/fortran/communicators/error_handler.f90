! ranks: 1
! Errors: returned as codes, passed to a procedure of the program, and described.
module handlers
  use mpi_f08
  implicit none
  integer :: seen = 0, last = MPI_SUCCESS
contains
  subroutine remember(comm, error_code)
    type(MPI_Comm) :: comm
    integer :: error_code
    seen = seen + 1
    last = error_code
    if (comm /= MPI_COMM_WORLD) error stop 'the communicator of the error'
  end subroutine
end module

program error_handler
  use handlers
  implicit none
  type(MPI_Errhandler) :: own, old
  integer :: code, class, length, value
  character(len=MPI_MAX_ERROR_STRING) :: text
  call MPI_Init()
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)
  value = 3
  call MPI_Send(value, 1, MPI_INTEGER, 1000, 1, MPI_COMM_WORLD, code)
  call MPI_Error_class(code, class)
  if (class /= MPI_ERR_RANK) error stop 'the class of a wrong rank'
  text = ''
  call MPI_Error_string(code, text, length)
  if (length < 5 .or. len_trim(text) /= length) error stop 'the text of the error'
  call MPI_Send(value, -1, MPI_INTEGER, 0, 1, MPI_COMM_WORLD, code)
  call MPI_Error_class(code, class)
  if (class /= MPI_ERR_COUNT) error stop 'the class of a wrong count'
  call MPI_Comm_create_errhandler(remember, own)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, own)
  call MPI_Comm_get_errhandler(MPI_COMM_WORLD, old)
  if (old /= own) error stop 'the handler'
  ! Without the last argument as well.
  call MPI_Send(value, 1, MPI_INTEGER, 1000, 1, MPI_COMM_WORLD)
  call MPI_Error_class(last, class)
  if (seen /= 1 .or. class /= MPI_ERR_RANK) error stop 'the call of the handler'
  call MPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_OTHER)
  if (seen /= 2 .or. last /= MPI_ERR_OTHER) error stop 'a call by the program'
  call MPI_Errhandler_free(own)
  call MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL)
  call MPI_Finalize()
  print '(a)', 'ok'
end program
