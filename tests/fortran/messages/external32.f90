! ranks: 1
! Data in the portable representation have the bytes that the standard describes.
program portable
  use mpi
  implicit none
  integer :: ierr
  integer(MPI_ADDRESS_KIND) :: position, size
  integer(1) :: bytes(64)
  integer :: i, back(2)
  real :: x, x_back
  call MPI_Init(ierr)
  call MPI_Pack_external_size('external32', 2, MPI_INTEGER, size, ierr)
  if (size /= 8) error stop 'the size of integers'
  position = 0
  call MPI_Pack_external('external32', [1, 258], 2, MPI_INTEGER, bytes, &
                         int(64, MPI_ADDRESS_KIND), position, ierr)
  if (position /= 8) error stop 'the position'
  if (any(bytes(1:8) /= int([0, 0, 0, 1, 0, 0, 1, 2], 1))) error stop 'the integers'
  x = 1.5
  call MPI_Pack_external('external32', x, 1, MPI_REAL, bytes, int(64, MPI_ADDRESS_KIND), &
                         position, ierr)
  if (position /= 12) error stop 'the position behind a real'
  ! 1.5 is 3FC00000.
  if (any(bytes(9:12) /= [int(z'3f', 1), int(-64, 1), 0_1, 0_1])) error stop 'the real'
  position = 0
  call MPI_Unpack_external('external32', bytes, int(64, MPI_ADDRESS_KIND), position, back, 2, &
                           MPI_INTEGER, ierr)
  call MPI_Unpack_external('external32', bytes, int(64, MPI_ADDRESS_KIND), position, x_back, 1, &
                           MPI_REAL, ierr)
  if (any(back /= [1, 258]) .or. x_back /= x) error stop 'the values that come back'
  do i = 13, 64
    if (position == i) error stop 'the position at the end'
  end do
  call MPI_Finalize(ierr)
  print '(a)', 'ok'
end program
