! ranks: 2 4
! In atomic mode all bytes of a block come from one process.
program atomicity
  use mpi
  implicit none
  integer, parameter :: n = 500
  integer :: ierr, me, np, fh, block(n), k
  logical :: flag
  integer(MPI_OFFSET_KIND), parameter :: zero = 0
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, np, ierr)
  call MPI_File_open(MPI_COMM_WORLD, 'atomic.dat', MPI_MODE_CREATE + MPI_MODE_RDWR + &
                     MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, fh, ierr)
  call MPI_File_get_atomicity(fh, flag, ierr)
  if (flag) error stop 'atomic at the start'
  call MPI_File_set_atomicity(fh, .true., ierr)
  call MPI_File_get_atomicity(fh, flag, ierr)
  if (.not. flag) error stop 'not atomic'
  block = me
  call MPI_File_write_at(fh, zero, block, n, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
  do k = 1, 5
    call MPI_File_read_at(fh, zero, block, n, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
    if (any(block /= block(1)) .or. block(1) < 0 .or. block(1) >= np) error stop 'a mixture'
    block = me
    call MPI_File_write_at(fh, zero, block, n, MPI_INTEGER, MPI_STATUS_IGNORE, ierr)
  end do
  call MPI_File_close(fh, ierr)
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
