! ranks: 1 4
! The halo of a plate by one-sided calls: rows are sections at the origin and types at the target.
program halo_put
  use mpi_f08
  implicit none
  integer, parameter :: n = 4, width = n + 2
  integer :: me, np, dims(2), north, south, west, east
  integer, asynchronous :: u(0:n+1, 0:n+1)
  type(MPI_Comm) :: grid
  type(MPI_Win) :: win
  type(MPI_Datatype) :: row
  call MPI_Init()
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  dims = 0
  call MPI_Dims_create(np, 2, dims)
  call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.true., .true.], .false., grid)
  call MPI_Comm_rank(grid, me)
  call MPI_Cart_shift(grid, 0, 1, north, south)
  call MPI_Cart_shift(grid, 1, 1, west, east)
  call MPI_Type_vector(n, 1, width, MPI_INTEGER, row)
  call MPI_Type_commit(row)
  u = -1
  u(1:n,1:n) = me
  call MPI_Win_create(u, int(4 * width * width, MPI_ADDRESS_KIND), 4, MPI_INFO_NULL, grid, win)
  call MPI_Win_fence(0, win)
  call MPI_Put(u(1,1:n), n, MPI_INTEGER, north, at(n + 1, 1), 1, row, win)
  call MPI_Put(u(n,1:n), n, MPI_INTEGER, south, at(0, 1), 1, row, win)
  call MPI_Put(u(1:n,1), n, MPI_INTEGER, west, at(1, n + 1), n, MPI_INTEGER, win)
  call MPI_Put(u(1:n,n), n, MPI_INTEGER, east, at(1, 0), n, MPI_INTEGER, win)
  call MPI_Win_fence(0, win)
  if (any(u(0,1:n) /= north) .or. any(u(n+1,1:n) /= south)) error stop 'north and south'
  if (any(u(1:n,0) /= west) .or. any(u(1:n,n+1) /= east)) error stop 'west and east'
  if (u(0,0) /= -1 .or. u(n+1,0) /= -1) error stop 'the corners'
  call MPI_Win_free(win)
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
contains
  pure integer(MPI_ADDRESS_KIND) function at(i, j)
    integer, intent(in) :: i, j
    at = i + width * j
  end function
end program
