! ranks: 2
! The inner part of a field with a halo, in three dimensions.
program subarray
  use mpi
  implicit none
  integer, parameter :: n = 4
  integer :: ierr, me, inner, i, j, k
  integer :: a(0:n+1,0:n+1,0:n+1), b(0:n+1,0:n+1,0:n+1), flat(n*n*n)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Type_create_subarray(3, [n+2, n+2, n+2], [n, n, n], [1, 1, 1], MPI_ORDER_FORTRAN, &
                                MPI_INTEGER, inner, ierr)
  call MPI_Type_commit(inner, ierr)
  forall (i=0:n+1, j=0:n+1, k=0:n+1) a(i,j,k) = 100 * i + 10 * j + k
  b = -1
  if (me == 0) then
    call MPI_Send(a, 1, inner, 1, 1, MPI_COMM_WORLD, ierr)
    call MPI_Send(a, 1, inner, 1, 2, MPI_COMM_WORLD, ierr)
  else
    call MPI_Recv(b, 1, inner, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    if (any(b(1:n,1:n,1:n) /= a(1:n,1:n,1:n))) error stop 'the inner part'
    if (count(b == -1) /= (n + 2)**3 - n**3) error stop 'the halo'
    call MPI_Recv(flat, n*n*n, MPI_INTEGER, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    if (any(flat /= reshape(a(1:n,1:n,1:n), [n*n*n]))) error stop 'the order'
  end if
  call MPI_Type_free(inner, ierr)
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
