! ranks: 2
! The lower triangle of a matrix by an indexed type.
program triangle
  use mpi
  implicit none
  integer, parameter :: n = 6
  integer :: ierr, me, lower, i, j, lengths(n), places(n), size_of
  real :: a(n,n), b(n,n)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  lengths = [(n - j + 1, j=1, n)]
  places = [((j - 1) * (n + 1), j=1, n)]
  call MPI_Type_indexed(n, lengths, places, MPI_REAL, lower, ierr)
  call MPI_Type_commit(lower, ierr)
  call MPI_Type_size(lower, size_of, ierr)
  if (size_of /= 4 * n * (n + 1) / 2) error stop 'the size'
  a = reshape([((10. * i + j, i=1, n), j=1, n)], [n, n])
  b = -1
  if (me == 0) then
    call MPI_Send(a, 1, lower, 1, 1, MPI_COMM_WORLD, ierr)
  else
    call MPI_Recv(b, 1, lower, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    do j = 1, n
      do i = 1, n
        if (b(i,j) /= merge(a(i,j), -1., i >= j)) error stop 'the triangle'
      end do
    end do
  end if
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
