! ranks: 1 4
! The heat equation on a plate. Rows of the halo go by a vector type, columns as they are.
program heat_2d_types
  use mpi
  implicit none
  integer, parameter :: wp = kind(1d0), n = 12, steps = 20
  integer :: ierr, me, np, grid, dims(2), coords(2), north, south, west, east, row, m(2), step, at(2)
  integer :: requests(8)
  logical, parameter :: periods(2) = .false.
  real(wp) :: whole(0:n+1,0:n+1)
  real(wp), allocatable :: u(:,:)
  call MPI_Init(ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, np, ierr)
  dims = 0
  call MPI_Dims_create(np, 2, dims, ierr)
  call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, periods, .true., grid, ierr)
  call MPI_Comm_rank(grid, me, ierr)
  call MPI_Cart_coords(grid, me, 2, coords, ierr)
  call MPI_Cart_shift(grid, 0, 1, north, south, ierr)
  call MPI_Cart_shift(grid, 1, 1, west, east, ierr)
  m = n / dims
  at = coords * m
  allocate (u(0:m(1)+1,0:m(2)+1))
  whole = 0
  whole(0,:) = 4
  whole(5,7) = 10
  u = whole(at(1):at(1)+m(1)+1, at(2):at(2)+m(2)+1)
  call MPI_Type_vector(m(2), 1, m(1) + 2, MPI_DOUBLE_PRECISION, row, ierr)
  call MPI_Type_commit(row, ierr)
  do step = 1, steps
    call MPI_Irecv(u(0,1), 1, row, north, 1, grid, requests(1), ierr)
    call MPI_Irecv(u(m(1)+1,1), 1, row, south, 2, grid, requests(2), ierr)
    call MPI_Irecv(u(1,0), m(1), MPI_DOUBLE_PRECISION, west, 3, grid, requests(3), ierr)
    call MPI_Irecv(u(1,m(2)+1), m(1), MPI_DOUBLE_PRECISION, east, 4, grid, requests(4), ierr)
    call MPI_Isend(u(m(1),1), 1, row, south, 1, grid, requests(5), ierr)
    call MPI_Isend(u(1,1), 1, row, north, 2, grid, requests(6), ierr)
    call MPI_Isend(u(1,m(2)), m(1), MPI_DOUBLE_PRECISION, east, 3, grid, requests(7), ierr)
    call MPI_Isend(u(1,1), m(1), MPI_DOUBLE_PRECISION, west, 4, grid, requests(8), ierr)
    call MPI_Waitall(8, requests, MPI_STATUSES_IGNORE, ierr)
    call MPI_F_sync_reg(u)
    call relax(u)
    call relax(whole)
  end do
  if (any(u(1:m(1),1:m(2)) /= whole(at(1)+1:at(1)+m(1), at(2)+1:at(2)+m(2)))) &
    error stop 'the temperatures'
  call MPI_Type_free(row, ierr)
  if (row /= MPI_DATATYPE_NULL) error stop 'the handle of a freed type'
  call MPI_Finalize(ierr)
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
