! ranks: 1
! Keys and values: blanks at their ends do not count.
program info_objects
  use mpi
  implicit none
  integer :: ierr, info, copy, n, length
  logical :: found
  character(len=MPI_MAX_INFO_KEY) :: key
  character(len=20) :: value
  call MPI_Init(ierr)
  call MPI_Info_create(info, ierr)
  call MPI_Info_set(info, ' first  ', '  one two  ', ierr)
  call MPI_Info_set(info, 'second', '2', ierr)
  call MPI_Info_set(info, 'second', '3', ierr)
  call MPI_Info_get_nkeys(info, n, ierr)
  if (n /= 2) error stop 'the number of keys'
  call MPI_Info_get_nthkey(info, 0, key, ierr)
  if (key /= 'first') error stop 'the first key'
  call MPI_Info_get_valuelen(info, 'first ', length, found, ierr)
  if (.not. found .or. length /= 7) error stop 'the length'
  value = repeat('x', 20)
  call MPI_Info_get(info, 'first', len(value), value, found, ierr)
  if (.not. found .or. value /= 'one two') error stop 'the value'
  value = 'unchanged'
  call MPI_Info_get(info, 'third', len(value), value, found, ierr)
  if (found .or. value /= 'unchanged') error stop 'no value'
  call MPI_Info_dup(info, copy, ierr)
  call MPI_Info_delete(info, 'second', ierr)
  length = 20
  call MPI_Info_get_string(copy, 'second', length, value, found, ierr)
  if (.not. found .or. length /= 1 .or. value /= '3') error stop 'the copy'
  call MPI_Info_get_nkeys(info, n, ierr)
  if (n /= 1) error stop 'a deleted key'
  call MPI_Info_free(info, ierr)
  call MPI_Info_free(copy, ierr)
  if (copy /= MPI_INFO_NULL) error stop 'the handle'
  call MPI_Finalize(ierr)
  print '(a)', 'ok'
end program
