! ranks: 1 4
! The heat equation on a plate. Rows of the halo are array sections, sent and received without
! blocking.
program heat_2d_sections
  use mpi_f08
  implicit none
  integer, parameter :: wp = kind(1d0), n = 12, steps = 20
  integer :: me, np, dims(2), coords(2), north, south, west, east, m(2), step, at(2)
  type(MPI_Comm) :: grid
  type(MPI_Request) :: requests(8)
  real(wp) :: whole(0:n+1,0:n+1)
  real(wp), allocatable, asynchronous :: u(:,:)
  call MPI_Init()
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  dims = 0
  call MPI_Dims_create(np, 2, dims)
  call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.false., .false.], .false., grid)
  call MPI_Comm_rank(grid, me)
  call MPI_Cart_coords(grid, me, 2, coords)
  call MPI_Cart_shift(grid, 0, 1, north, south)
  call MPI_Cart_shift(grid, 1, 1, west, east)
  m = n / dims
  at = coords * m
  allocate (u(0:m(1)+1,0:m(2)+1))
  whole = 0
  whole(:,0) = 4
  whole(9,2) = 10
  u = whole(at(1):at(1)+m(1)+1, at(2):at(2)+m(2)+1)
  do step = 1, steps
    call MPI_Irecv(u(0,1:m(2)), m(2), MPI_DOUBLE_PRECISION, north, 1, grid, requests(1))
    call MPI_Irecv(u(m(1)+1,1:m(2)), m(2), MPI_DOUBLE_PRECISION, south, 2, grid, requests(2))
    call MPI_Irecv(u(1:m(1),0), m(1), MPI_DOUBLE_PRECISION, west, 3, grid, requests(3))
    call MPI_Irecv(u(1:m(1),m(2)+1), m(1), MPI_DOUBLE_PRECISION, east, 4, grid, requests(4))
    call MPI_Isend(u(m(1),1:m(2)), m(2), MPI_DOUBLE_PRECISION, south, 1, grid, requests(5))
    call MPI_Isend(u(1,1:m(2)), m(2), MPI_DOUBLE_PRECISION, north, 2, grid, requests(6))
    call MPI_Isend(u(1:m(1),m(2)), m(1), MPI_DOUBLE_PRECISION, east, 3, grid, requests(7))
    call MPI_Isend(u(1:m(1),1), m(1), MPI_DOUBLE_PRECISION, west, 4, grid, requests(8))
    call MPI_Waitall(8, requests, MPI_STATUSES_IGNORE)
    call relax(u)
    call relax(whole)
  end do
  if (any(u(1:m(1),1:m(2)) /= whole(at(1)+1:at(1)+m(1), at(2)+1:at(2)+m(2)))) &
    error stop 'the temperatures'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
contains
  subroutine relax(t)
    real(wp), intent(inout) :: t(0:,0:)
    integer :: i, j
    i = ubound(t, 1) - 1
    j = ubound(t, 2) - 1
    t(1:i,1:j) = 0.25_wp * (t(0:i-1,1:j) + t(2:i+1,1:j) + t(1:i,0:j-1) + t(1:i,2:j+1))
  end subroutine
end program
