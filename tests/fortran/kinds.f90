! ranks: 2
! options: -fdefault-real-8 | -fdefault-real-8 -fdefault-double-8 | -fdefault-real-16
! Default kinds of other sizes, in all three interfaces.

module facts
  implicit none
  integer :: failures = 0
contains
  subroutine check(is_right, what)
    logical, intent(in) :: is_right
    character(len=*), intent(in) :: what
    if (.not. is_right) then
      failures = failures + 1
      print '(2a)', 'wrong: ', what
    end if
  end subroutine check
end module facts

subroutine with_header()
  use facts
  implicit none
  include 'mpif.h'
  integer :: rank, ierror, i
  integer, parameter :: n = 5
  real :: x(n), y(n)
  double precision :: d(n), e(n)
  complex :: z(n), w(n)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierror)
  x = [(i + rank, i=1,n)] / 3.0
  d = [(i + rank, i=1,n)] / 3d0
  z = cmplx(x, -x)
  call MPI_ALLREDUCE(x, y, n, MPI_REAL, MPI_MAX, MPI_COMM_WORLD, ierror)
  call check(all(y == [(i + 1, i=1,n)] / 3.0), 'MPI_REAL of mpif.h')
  call MPI_ALLREDUCE(d, e, n, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierror)
  call check(all(e == [(i + 1, i=1,n)] / 3d0), 'MPI_DOUBLE_PRECISION of mpif.h')
  call MPI_ALLREDUCE(z, w, n, MPI_COMPLEX, MPI_SUM, MPI_COMM_WORLD, ierror)
  call check(all(abs(real(w) + aimag(w)) == 0) .and. all(abs(w) > abs(z)), 'MPI_COMPLEX of mpif.h')
  call check(MPI_WTIME() > 0 .and. MPI_WTICK() < 1, 'MPI_WTIME of mpif.h')
end subroutine with_header

subroutine with_module()
  use facts
  use mpi
  implicit none
  integer :: rank, ierror, bytes
  real :: x(2), y(2), pair(2)
  double precision :: d(3), e(3)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  x = rank / 7.0
  d = rank / 7d0
  call MPI_Type_size(MPI_REAL, bytes, ierror)
  call check(8 * bytes == storage_size(x), 'the size of MPI_REAL')
  call MPI_Type_size(MPI_DOUBLE_COMPLEX, bytes, ierror)
  call check(4 * bytes == storage_size(d), 'the size of MPI_DOUBLE_COMPLEX')
  call MPI_Sendrecv(x, 2, MPI_REAL, 1 - rank, 0, y, 2, MPI_REAL, 1 - rank, 0, MPI_COMM_WORLD, &
      MPI_STATUS_IGNORE, ierror)
  call check(all(y == (1 - rank) / 7.0), 'MPI_REAL of module mpi')
  call MPI_Sendrecv(d, 3, MPI_DOUBLE_PRECISION, 1 - rank, 0, e, 3, MPI_DOUBLE_PRECISION, 1 - rank, &
      0, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
  call check(all(e == (1 - rank) / 7d0), 'MPI_DOUBLE_PRECISION of module mpi')
  call check(MPI_Wtime() > 0, 'MPI_Wtime of module mpi')
  if (MPI_2REAL /= MPI_DATATYPE_NULL) then
    pair = [real(10 - rank), real(rank)]
    call MPI_Allreduce(MPI_IN_PLACE, pair, 1, MPI_2REAL, MPI_MINLOC, MPI_COMM_WORLD, ierror)
    call check(all(pair == [9.0, 1.0]), 'MPI_2REAL')
  end if
end subroutine with_module

subroutine with_f08()
  use facts
  use mpi_f08
  implicit none
  integer :: rank
  real :: x(4,3), y(4,3)
  complex :: z(4)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call random_number(x)
  z = cmplx(x(:,1), x(:,2))
  y = 0
  call MPI_Bcast(x, 12, MPI_REAL, 0, MPI_COMM_WORLD)
  call MPI_Sendrecv(x(::2,:), 6, MPI_REAL, 1 - rank, 0, y(2::2,:), 6, MPI_REAL, 1 - rank, 0, &
      MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  call check(all(y(2::2,:) == x(::2,:)) .and. all(y(::2,:) == 0), 'MPI_REAL of module mpi_f08')
  call MPI_Bcast(z, 4, MPI_COMPLEX, 1, MPI_COMM_WORLD)
  y = 0
  call MPI_Allreduce(z%im, y(:,1), 4, MPI_REAL, MPI_SUM, MPI_COMM_WORLD)
  call check(all(y(:,1) == 2 * aimag(z)), 'MPI_COMPLEX of module mpi_f08')
  call check(MPI_Wtime() > 0, 'MPI_Wtime of module mpi_f08')
end subroutine with_f08

program kinds
  use facts
  use mpi_f08
  implicit none
  call MPI_Init()
  call with_header()
  call with_module()
  call with_f08()
  call MPI_Allreduce(MPI_IN_PLACE, failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Finalize()
  if (failures > 0) error stop 1
  print '(a)', 'ok'
end program kinds
