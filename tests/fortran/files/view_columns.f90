! ranks: 1 2 4
! Columns of a matrix, dealt in turn, by a view; a Fortran unit reads the whole file.
program view_columns
  use mpi
  implicit none
  integer, parameter :: n = 5
  integer :: ierr, me, np, fh, view, i, j, unit
  integer(MPI_OFFSET_KIND) :: start
  double precision :: column(n), whole(n)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, np, ierr)
  call MPI_Type_vector(3, n, n * np, MPI_DOUBLE_PRECISION, view, ierr)
  call MPI_Type_commit(view, ierr)
  call MPI_File_open(MPI_COMM_WORLD, 'matrix.dat', ior(MPI_MODE_CREATE, MPI_MODE_WRONLY), &
                     MPI_INFO_NULL, fh, ierr)
  start = 8 * n * me
  call MPI_File_set_view(fh, start, MPI_DOUBLE_PRECISION, view, 'native', MPI_INFO_NULL, ierr)
  do j = 1, 3
    column = [(100d0 * ((j - 1) * np + me + 1) + i, i=1, n)]
    call MPI_File_write_all(fh, column, n, MPI_DOUBLE_PRECISION, MPI_STATUS_IGNORE, ierr)
  end do
  call MPI_File_close(fh, ierr)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  if (me == 0) then
    open (newunit=unit, file='matrix.dat', access='stream', form='unformatted', action='read')
    do j = 1, 3 * np
      read (unit) whole
      if (any(whole /= [(100d0 * j + i, i=1, n)])) error stop 'a column'
    end do
    close (unit, status='delete')
  end if
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
