! ranks: 1 2
! Nonblocking writes and reads, also of sections.
program nonblocking_files
  use mpi_f08
  implicit none
  integer :: me, np, i
  integer, asynchronous :: a(6,6), b(6,6), c(6)
  integer(MPI_OFFSET_KIND) :: start
  type(MPI_File) :: file
  type(MPI_Request) :: requests(2)
  type(MPI_Status) :: statuses(2)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  call MPI_File_open(MPI_COMM_WORLD, 'nonblocking.dat', MPI_MODE_CREATE + MPI_MODE_RDWR + &
                     MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file)
  a = reshape([(100 * me + i, i=1, 36)], [6, 6])
  start = 48 * me
  call MPI_File_iwrite_at(file, start, a(2,:), 6, MPI_INTEGER, requests(1))
  call MPI_File_iwrite_at(file, start + 24, a(6:1:-1,3), 6, MPI_INTEGER, requests(2))
  call MPI_Waitall(2, requests, statuses)
  do i = 1, 2
    call MPI_Get_count(statuses(i), MPI_INTEGER, np)
    if (np /= 6) error stop 'the counts'
  end do
  b = 0
  call MPI_File_iread_at(file, start, c, 6, MPI_INTEGER, requests(1))
  call MPI_File_iread_at(file, start + 24, b(4,:), 6, MPI_INTEGER, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  if (any(c /= a(2,:))) error stop 'the row'
  if (any(b(4,:) /= a(6:1:-1,3)) .or. count(b /= 0) /= 6) error stop 'the column as a row'
  call MPI_File_seek(file, start, MPI_SEEK_SET)
  call MPI_File_iread_all(file, b(:,1), 6, MPI_INTEGER, requests(1))
  call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
  if (any(b(:,1) /= a(2,:))) error stop 'together'
  call MPI_File_close(file)
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
