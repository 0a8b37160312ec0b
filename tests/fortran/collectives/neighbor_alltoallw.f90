! ranks: 1 4
! The halo of a plate in one call: MPI_Neighbor_alltoallw with a type for each side.
program halo
  use mpi_f08
  implicit none
  integer, parameter :: n = 4
  integer :: me, np, dims(2), coords(2), i
  integer :: u(0:n+1, 0:n+1), west, east, north, south, bytes
  type(MPI_Comm) :: grid
  type(MPI_Datatype) :: column, row
  integer(MPI_ADDRESS_KIND) :: out_at(4), in_at(4)
  call MPI_Init()
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  dims = 0
  call MPI_Dims_create(np, 2, dims)
  call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.true., .true.], .false., grid)
  call MPI_Comm_rank(grid, me)
  call MPI_Cart_coords(grid, me, 2, coords)
  call MPI_Cart_shift(grid, 0, 1, north, south)
  call MPI_Cart_shift(grid, 1, 1, west, east)
  call MPI_Type_contiguous(n, MPI_INTEGER, column)
  call MPI_Type_vector(n, 1, n + 2, MPI_INTEGER, row)
  call MPI_Type_commit(column)
  call MPI_Type_commit(row)
  u = -1
  u(1:n,1:n) = me
  call MPI_Sizeof(u(0,0), bytes)
  out_at = bytes * [place(1, 1), place(n, 1), place(1, 1), place(1, n)]
  in_at = bytes * [place(0, 1), place(n+1, 1), place(1, 0), place(1, n+1)]
  call MPI_Neighbor_alltoallw(u, [1, 1, 1, 1], out_at, [row, row, column, column], &
                              u, [1, 1, 1, 1], in_at, [row, row, column, column], grid)
  if (any(u(0,1:n) /= north) .or. any(u(n+1,1:n) /= south)) error stop 'north and south'
  if (any(u(1:n,0) /= west) .or. any(u(1:n,n+1) /= east)) error stop 'west and east'
  if (any(u(1:n,1:n) /= me) .or. any([(u(i*(n+1), i*(n+1)), i=0, 1)] /= -1)) error stop 'the rest'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
contains
  pure integer(MPI_ADDRESS_KIND) function place(i, j)
    integer, intent(in) :: i, j
    place = i + j * (n + 2)
  end function
end program
