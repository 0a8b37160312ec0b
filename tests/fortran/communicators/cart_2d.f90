! ranks: 1 2 4
! A Cartesian grid: dimensions, coordinates, ranks and shifts.
program cart_2d
  use mpi
  implicit none
  integer :: ierr, me, np, grid, dims(2), got(2), coords(2), rank, source, dest, n
  logical :: periods(2)
  call MPI_Init(ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, np, ierr)
  dims = [0, 1]
  call MPI_Dims_create(np, 2, dims, ierr)
  if (dims(1) /= np .or. dims(2) /= 1) error stop 'a fixed dimension'
  dims = 0
  call MPI_Dims_create(np, 2, dims, ierr)
  if (product(dims) /= np .or. dims(1) < dims(2)) error stop 'the dimensions'
  call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.true., .false.], .false., grid, ierr)
  call MPI_Comm_rank(grid, me, ierr)
  call MPI_Cartdim_get(grid, n, ierr)
  if (n /= 2) error stop 'the number of dimensions'
  call MPI_Cart_get(grid, 2, got, periods, coords, ierr)
  if (any(got /= dims) .or. .not. periods(1) .or. periods(2)) error stop 'what the grid has'
  if (me /= coords(1) * dims(2) + coords(2)) error stop 'the coordinates'
  ! Coordinates outside the period are allowed there.
  call MPI_Cart_rank(grid, [coords(1) - dims(1), coords(2)], rank, ierr)
  if (rank /= me) error stop 'the rank'
  call MPI_Cart_shift(grid, 0, 1, source, dest, ierr)
  if (dest /= modulo(coords(1) + 1, dims(1)) * dims(2) + coords(2)) error stop 'the next one'
  if (source /= modulo(coords(1) - 1, dims(1)) * dims(2) + coords(2)) error stop 'the last one'
  call MPI_Cart_shift(grid, 1, 1, source, dest, ierr)
  if (coords(2) == 0 .and. source /= MPI_PROC_NULL) error stop 'the left end'
  if (coords(2) == dims(2) - 1 .and. dest /= MPI_PROC_NULL) error stop 'the right end'
  call MPI_Comm_free(grid, ierr)
  if (grid /= MPI_COMM_NULL) error stop 'the handle of a freed communicator'
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
