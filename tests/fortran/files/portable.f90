! ranks: 1
! A file in the portable representation has the bytes that the standard describes.
program portable_file
  use mpi
  implicit none
  integer :: ierr, fh, back(2)
  integer(1) :: bytes(8)
  integer(MPI_OFFSET_KIND), parameter :: zero = 0
  integer(MPI_ADDRESS_KIND) :: extent
  character(len=MPI_MAX_DATAREP_STRING) :: name
  integer :: etype, filetype
  integer(MPI_OFFSET_KIND) :: displacement
  call MPI_Init(ierr)
  call MPI_File_open(MPI_COMM_SELF, 'portable.dat', MPI_MODE_CREATE + MPI_MODE_RDWR + &
                     MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, fh, ierr)
  call MPI_File_set_view(fh, zero, MPI_INTEGER, MPI_INTEGER, 'external32 ', MPI_INFO_NULL, ierr)
  call MPI_File_write(fh, [-2, 258], 2, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
  call MPI_File_get_type_extent(fh, MPI_INTEGER, extent, ierr)
  if (extent /= 4) error stop 'the extent in the file'
  call MPI_File_get_view(fh, displacement, etype, filetype, name, ierr)
  if (name /= 'external32' .or. etype /= MPI_INTEGER .or. displacement /= 0) error stop 'the view'
  call MPI_File_read_at(fh, zero, back, 2, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
  if (any(back /= [-2, 258])) error stop 'the numbers'
  call MPI_File_set_view(fh, zero, MPI_BYTE, MPI_BYTE, 'native', MPI_INFO_NULL, ierr)
  call MPI_File_read_at(fh, zero, bytes, 8, MPI_BYTE, MPI_STATUS_IGNORE, ierr)
  if (any(bytes /= [-1_1, -1_1, -1_1, -2_1, 0_1, 0_1, 1_1, 2_1])) error stop 'the bytes'
  call MPI_File_close(fh, ierr)
  call MPI_Finalize(ierr)
  print '(a)', 'ok'
end program
