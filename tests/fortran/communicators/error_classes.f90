! ranks: 1
! A library on top of MPI adds error classes and codes of its own.
program error_classes
  use mpi
  implicit none
  integer :: ierr, class, code, other, length, got
  character(len=MPI_MAX_ERROR_STRING) :: text
  integer(MPI_ADDRESS_KIND) :: last
  logical :: flag
  call MPI_Init(ierr)
  call MPI_Add_error_class(class, ierr)
  if (class <= MPI_ERR_LASTCODE) error stop 'the class'
  call MPI_Add_error_code(class, code, ierr)
  call MPI_Add_error_code(class, other, ierr)
  if (code == other) error stop 'two codes'
  call MPI_Add_error_string(class, 'the matrix is singular   ', ierr)
  call MPI_Add_error_string(code, 'row 3 of the matrix is zero', ierr)
  call MPI_Error_string(class, text, length, ierr)
  if (text /= 'the matrix is singular' .or. length /= 22) error stop 'the text of the class'
  call MPI_Error_string(code, text, length, ierr)
  if (text(:length) /= 'row 3 of the matrix is zero') error stop 'the text of the code'
  call MPI_Error_class(other, got, ierr)
  if (got /= class) error stop 'the class of a code'
  call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_LASTUSEDCODE, last, flag, ierr)
  if (.not. flag .or. last < max(class, code, other)) error stop 'the last code'
  call MPI_Finalize(ierr)
  print '(a)', 'ok'
end program
