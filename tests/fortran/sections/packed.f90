! ranks: 1
! Packing from and into sections.
program packed
  use mpi_f08
  implicit none
  integer :: position, i, a(4,4), b(4,4), bytes
  character(len=1) :: room(200)
  call MPI_Init()
  a = reshape([(i, i=1, 16)], [4, 4])
  b = 0
  call MPI_Pack_size(4, MPI_INTEGER, MPI_COMM_SELF, bytes)
  if (2 * bytes > 200) error stop 'the size'
  position = 0
  call MPI_Pack(a(2,:), 4, MPI_INTEGER, room, 200, position, MPI_COMM_SELF)
  call MPI_Pack(a(4:1:-1,3), 4, MPI_INTEGER, room, 200, position, MPI_COMM_SELF)
  i = position
  position = 0
  call MPI_Unpack(room, i, position, b(3,4:1:-1), 4, MPI_INTEGER, MPI_COMM_SELF)
  call MPI_Unpack(room, i, position, b(::3,::3), 4, MPI_INTEGER, MPI_COMM_SELF)
  if (position /= i) error stop 'the position'
  if (any(b(3,:) /= [14, 10, 6, 2])) error stop 'the row'
  if (any(b(::3,1) /= [12, 11]) .or. any(b(::3,4) /= [10, 9])) error stop 'the corners'
  if (sum(b) /= 32 + 42) error stop 'the rest'
  call MPI_Finalize()
  print '(a)', 'ok'
end program
