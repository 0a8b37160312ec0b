! ranks: 1 2
! An attribute is copied with its communicator, by a procedure of the program.
module copying
  use mpi
  implicit none
  integer :: copies = 0, deletes = 0
contains
  subroutine copy(comm, key, extra, value, new_value, flag, ierror)
    integer :: comm, key, ierror
    integer(MPI_ADDRESS_KIND) :: extra, value, new_value
    logical :: flag
    copies = copies + 1
    new_value = value + extra
    flag = value /= 99
    ierror = MPI_SUCCESS
    if (comm == MPI_COMM_NULL .or. key == MPI_KEYVAL_INVALID) ierror = MPI_ERR_OTHER
  end subroutine
  subroutine delete(comm, key, value, extra, ierror)
    integer :: comm, key, ierror
    integer(MPI_ADDRESS_KIND) :: value, extra
    deletes = deletes + 1
    ierror = MPI_SUCCESS
    if (comm == MPI_COMM_NULL .or. key == MPI_KEYVAL_INVALID .or. value < extra) &
      ierror = MPI_ERR_OTHER
  end subroutine
end module

program attribute_copies
  use copying
  implicit none
  integer :: ierr, me, key, first, second
  integer(MPI_ADDRESS_KIND) :: value
  logical :: found
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_create_keyval(copy, delete, key, 5_MPI_ADDRESS_KIND, ierr)
  call MPI_Comm_dup(MPI_COMM_SELF, first, ierr)
  call MPI_Comm_get_attr(first, key, value, found, ierr)
  if (found) error stop 'an attribute that nobody has set'
  call MPI_Comm_set_attr(first, key, 30_MPI_ADDRESS_KIND, ierr)
  call MPI_Comm_dup(first, second, ierr)
  call MPI_Comm_get_attr(second, key, value, found, ierr)
  if (.not. found .or. value /= 35) error stop 'the copy'
  call MPI_Comm_free(second, ierr)
  if (copies /= 1 .or. deletes /= 1) error stop 'the calls'
  call MPI_Comm_set_attr(first, key, 99_MPI_ADDRESS_KIND, ierr)
  if (deletes /= 2) error stop 'the old value is not deleted'
  call MPI_Comm_dup(first, second, ierr)
  call MPI_Comm_get_attr(second, key, value, found, ierr)
  if (found .or. copies /= 2) error stop 'a value that is not copied'
  call MPI_Comm_delete_attr(first, key, ierr)
  if (deletes /= 3) error stop 'deletion'
  call MPI_Comm_free_keyval(key, ierr)
  if (key /= MPI_KEYVAL_INVALID) error stop 'the key'
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
