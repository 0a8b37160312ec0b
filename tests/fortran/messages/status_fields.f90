! ranks: 1
! A program fills in a status, and the status passes through the older interfaces.
program statuses
  use mpi_f08
  implicit none
  type(MPI_Status) :: status, copy
  integer :: old(MPI_STATUS_SIZE), n, elements
  integer(MPI_COUNT_KIND) :: many, got
  logical :: flag
  call MPI_Init()
  status%MPI_SOURCE = 5
  status%MPI_TAG = 6
  status%MPI_ERROR = MPI_ERR_TAG
  call MPI_Status_set_elements(status, MPI_DOUBLE_PRECISION, 7)
  call MPI_Status_set_cancelled(status, .true.)
  call MPI_Status_f082f(status, old)
  if (old(MPI_SOURCE) /= 5 .or. old(MPI_TAG) /= 6) error stop 'source and tag'
  if (old(MPI_ERROR) /= MPI_ERR_TAG) error stop 'the error'
  old(MPI_TAG) = 16
  call MPI_Status_f2f08(old, copy)
  if (copy%MPI_TAG /= 16 .or. copy%MPI_SOURCE /= 5) error stop 'the copy'
  call MPI_Get_count(copy, MPI_DOUBLE_PRECISION, n)
  if (n /= 7) error stop 'the count'
  call MPI_Get_elements(copy, MPI_DOUBLE_PRECISION, elements)
  if (elements /= 7) error stop 'the elements'
  call MPI_Get_count(copy, MPI_BYTE, n)
  if (n /= 56) error stop 'the count in bytes'
  call MPI_Test_cancelled(copy, flag)
  if (.not. flag) error stop 'cancelled'
  many = 5000000000_MPI_COUNT_KIND
  call MPI_Status_set_elements_x(copy, MPI_INTEGER, many)
  call MPI_Get_elements_x(copy, MPI_INTEGER, got)
  if (got /= many) error stop 'a large number'
  call MPI_Get_count(copy, MPI_INTEGER, n)
  if (n /= MPI_UNDEFINED) error stop 'a large number as an integer'
  call MPI_Status_set_source(copy, 3)
  call MPI_Status_set_tag(copy, 4)
  call MPI_Status_set_error(copy, MPI_SUCCESS)
  call MPI_Status_get_tag(copy, n)
  if (n /= 4 .or. copy%MPI_SOURCE /= 3 .or. copy%MPI_ERROR /= MPI_SUCCESS) error stop 'set and get'
  call MPI_Finalize()
  print '(a)', 'ok'
end program
