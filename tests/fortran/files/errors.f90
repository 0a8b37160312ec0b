! ranks: 1
! Errors of files come back as codes, because files have another error handler.
program file_errors
  use mpi_f08
  implicit none
  type(MPI_File) :: file
  type(MPI_Errhandler) :: handler
  integer :: code, class, number
  call MPI_Init()
  call MPI_File_get_errhandler(MPI_FILE_NULL, handler)
  if (handler /= MPI_ERRORS_RETURN) error stop 'the handler of files'
  file%MPI_VAL = -12345
  call MPI_File_open(MPI_COMM_SELF, 'no such file', MPI_MODE_RDONLY, MPI_INFO_NULL, file, code)
  call MPI_Error_class(code, class)
  if (class /= MPI_ERR_NO_SUCH_FILE) error stop 'a file that does not exist'
  if (file%MPI_VAL /= -12345) error stop 'a failed call changes the handle'
  call MPI_File_open(MPI_COMM_SELF, 'once.dat', MPI_MODE_CREATE + MPI_MODE_EXCL + MPI_MODE_WRONLY, &
                     MPI_INFO_NULL, file, code)
  if (code /= MPI_SUCCESS) error stop 'a new file'
  number = 1
  call MPI_File_read(file, number, 1, MPI_INTEGER, MPI_STATUS_IGNORE, code)
  call MPI_Error_class(code, class)
  if (class /= MPI_ERR_ACCESS .and. class /= MPI_ERR_UNSUPPORTED_OPERATION) &
    error stop 'a file that is only written'
  call MPI_File_close(file)
  call MPI_File_open(MPI_COMM_SELF, 'once.dat', MPI_MODE_CREATE + MPI_MODE_EXCL + MPI_MODE_WRONLY, &
                     MPI_INFO_NULL, file, code)
  call MPI_Error_class(code, class)
  if (class /= MPI_ERR_FILE_EXISTS) error stop 'a file that exists'
  call MPI_File_delete('once.dat  ', MPI_INFO_NULL, code)
  if (code /= MPI_SUCCESS) error stop 'deletion'
  call MPI_File_delete('once.dat', MPI_INFO_NULL, code)
  call MPI_Error_class(code, class)
  if (class /= MPI_ERR_NO_SUCH_FILE) error stop 'deletion of nothing'
  call MPI_Finalize()
  print '(a)', 'ok'
end program
