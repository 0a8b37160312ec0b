! ranks: 1
! Attributes of communicators, datatypes and windows, with predefined procedures.
program attribute_kinds
  use mpi_f08
  implicit none
  integer :: comm_key, type_key, win_key, memory(4)
  integer(MPI_ADDRESS_KIND) :: value
  integer(MPI_ADDRESS_KIND), parameter :: none = 0, large = huge(none) - 1
  type(MPI_Comm) :: comm
  type(MPI_Datatype) :: pair, copy
  type(MPI_Win) :: win
  logical :: found
  call MPI_Init()
  call MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, comm_key, none)
  call MPI_Type_create_keyval(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, type_key, none)
  call MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, win_key, none)
  call MPI_Comm_set_attr(MPI_COMM_WORLD, comm_key, -5_MPI_ADDRESS_KIND)
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  call MPI_Comm_get_attr(comm, comm_key, value, found)
  if (.not. found .or. value /= -5) error stop 'of a communicator'
  call MPI_Type_contiguous(2, MPI_INTEGER, pair)
  call MPI_Type_set_attr(pair, type_key, large)
  call MPI_Type_dup(pair, copy)
  call MPI_Type_get_attr(copy, type_key, value, found)
  if (.not. found .or. value /= large) error stop 'of a datatype'
  call MPI_Type_delete_attr(copy, type_key)
  call MPI_Type_get_attr(copy, type_key, value, found)
  if (found) error stop 'a deleted attribute'
  call MPI_Win_create(memory, 16_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win)
  call MPI_Win_set_attr(win, win_key, 77_MPI_ADDRESS_KIND)
  call MPI_Win_get_attr(win, win_key, value, found)
  if (.not. found .or. value /= 77) error stop 'of a window'
  call MPI_Win_get_attr(win, MPI_WIN_SIZE, value, found)
  if (.not. found .or. value /= 16) error stop 'the size of the window'
  call MPI_Win_get_attr(win, MPI_WIN_DISP_UNIT, value, found)
  if (.not. found .or. value /= 4) error stop 'the unit of the window'
  call MPI_Win_free(win)
  call MPI_Type_free_keyval(type_key)
  call MPI_Win_free_keyval(win_key)
  call MPI_Comm_free_keyval(comm_key)
  call MPI_Finalize()
  print '(a)', 'ok'
end program
