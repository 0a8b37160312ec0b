! ranks: 1 2 4
! A generic procedure of the program for types and ranks, with optional arguments that pass on.
module reductions
  use mpi_f08
  implicit none
  interface total
    module procedure total_integer, total_real_1, total_real_2
  end interface
contains
  subroutine total_integer(x, comm, ierror)
    integer, intent(inout) :: x
    type(MPI_Comm), intent(in), optional :: comm
    integer, intent(out), optional :: ierror
    call MPI_Allreduce(MPI_IN_PLACE, x, 1, MPI_INTEGER, MPI_SUM, chosen(comm), ierror)
  end subroutine
  subroutine total_real_1(x, comm, ierror)
    real, intent(inout) :: x(:)
    type(MPI_Comm), intent(in), optional :: comm
    integer, intent(out), optional :: ierror
    call MPI_Allreduce(MPI_IN_PLACE, x, size(x), MPI_REAL, MPI_SUM, chosen(comm), ierror)
  end subroutine
  subroutine total_real_2(x, comm, ierror)
    real, intent(inout) :: x(:,:)
    type(MPI_Comm), intent(in), optional :: comm
    integer, intent(out), optional :: ierror
    call MPI_Allreduce(MPI_IN_PLACE, x, size(x), MPI_REAL, MPI_SUM, chosen(comm), ierror)
  end subroutine
  type(MPI_Comm) function chosen(comm)
    type(MPI_Comm), intent(in), optional :: comm
    chosen = MPI_COMM_WORLD
    if (present(comm)) chosen = comm
  end function
end module

program wrappers
  use reductions
  implicit none
  integer :: me, np, n, code
  real :: x(6), y(3,4)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  n = me
  code = -1
  call total(n, ierror=code)
  if (n /= np * (np - 1) / 2 .or. code /= MPI_SUCCESS) error stop 'an integer'
  call total(n, MPI_COMM_SELF)
  if (n /= np * (np - 1) / 2) error stop 'alone'
  x = [1., 2., 3., 4., 5., 6.]
  call total(x(2:6:2))
  if (any(x /= [1., 2. * np, 3., 4. * np, 5., 6. * np])) error stop 'a section'
  y = 1
  call total(y(::2,2:3))
  if (any(y(::2,2:3) /= np) .or. sum(y) /= 8 + 4 * np) error stop 'a part of a matrix'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
