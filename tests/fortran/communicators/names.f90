! ranks: 1
! Names of objects: trailing blanks do not count, and results are padded with blanks.
program names
  use mpi_f08
  implicit none
  type(MPI_Comm) :: comm
  type(MPI_Datatype) :: of_pair
  type(MPI_Win) :: win
  character(len=MPI_MAX_OBJECT_NAME) :: name
  character(len=12) :: padded
  integer :: length, memory
  call MPI_Init()
  call MPI_Comm_get_name(MPI_COMM_WORLD, name, length)
  if (name /= 'MPI_COMM_WORLD' .or. length /= 14) error stop 'a predefined name'
  call MPI_Comm_dup(MPI_COMM_WORLD, comm)
  padded = ' a name'
  call MPI_Comm_set_name(comm, padded)
  name = repeat('x', len(name))
  call MPI_Comm_get_name(comm, name, length)
  if (length /= 7 .or. name /= ' a name') error stop 'the name of a communicator'
  if (verify(name(8:), ' ') /= 0) error stop 'what stands behind the name'
  call MPI_Type_contiguous(2, MPI_REAL, of_pair)
  call MPI_Type_get_name(of_pair, name, length)
  if (length /= 0 .or. name /= '') error stop 'no name'
  call MPI_Type_set_name(of_pair, 'pair')
  call MPI_Type_get_name(of_pair, name, length)
  if (length /= 4 .or. name /= 'pair') error stop 'the name of a type'
  call MPI_Win_create(memory, 4_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, comm, win)
  call MPI_Win_set_name(win, repeat('w', 30) // '   ')
  call MPI_Win_get_name(win, name, length)
  if (length /= 30 .or. name /= repeat('w', 30)) error stop 'the name of a window'
  call MPI_Win_free(win)
  call MPI_Finalize()
  print '(a)', 'ok'
end program
