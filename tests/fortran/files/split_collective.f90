! ranks: 1 2
! A split collective write goes on while the process computes.
program split_collective
  use mpi
  implicit none
  integer :: ierr, me, np, fh, status(MPI_STATUS_SIZE), n, i
  integer, asynchronous :: a(1000), b(1000)
  integer(MPI_OFFSET_KIND) :: offset
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, np, ierr)
  call MPI_File_open(MPI_COMM_WORLD, 'split.dat', MPI_MODE_CREATE + MPI_MODE_RDWR + &
                     MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, fh, ierr)
  a = [(1000 * me + i, i=1, 1000)]
  offset = 4000 * me
  call MPI_File_write_at_all_begin(fh, offset, a, 1000, MPI_INTEGER, ierr)
  n = 0
  do i = 1, 1000
    n = n + i
  end do
  call MPI_File_write_at_all_end(fh, a, status, ierr)
  if (n /= 500500) error stop 'the computation'
  call MPI_Get_count(status, MPI_INTEGER, n, ierr)
  if (n /= 1000) error stop 'the count'
  call MPI_File_sync(fh, ierr)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call MPI_File_sync(fh, ierr)
  offset = 4000 * modulo(me + 1, np)
  call MPI_File_seek(fh, offset, MPI_SEEK_SET, ierr)
  b = 0
  call MPI_File_read_all_begin(fh, b, 1000, MPI_INTEGER, ierr)
  call MPI_File_read_all_end(fh, b, status, ierr)
  if (any(b /= [(1000 * modulo(me + 1, np) + i, i=1, 1000)])) error stop 'the data'
  call MPI_File_close(fh, ierr)
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
