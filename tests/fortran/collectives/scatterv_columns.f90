! ranks: 1 2 4
! Rows of a matrix are dealt out by a resized vector type.
program scatter_rows
  use mpi_f08
  implicit none
  integer, parameter :: columns = 5
  integer :: me, np, i, j, rows
  integer, allocatable :: matrix(:,:), own(:,:), counts(:), places(:)
  type(MPI_Datatype) :: spread, row
  integer(MPI_ADDRESS_KIND) :: bytes
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  rows = np * (np + 1) / 2
  allocate (matrix(rows, columns), own(columns, me + 1))
  matrix = 0
  if (me == 0) matrix = reshape([((1000 * i + j, i=1, rows), j=1, columns)], [rows, columns])
  call MPI_Sizeof(i, j)
  bytes = j
  call MPI_Type_vector(columns, 1, rows, MPI_INTEGER, spread)
  call MPI_Type_create_resized(spread, 0_MPI_ADDRESS_KIND, bytes, row)
  call MPI_Type_commit(row)
  counts = [(i, i=1, np)]
  places = [(i * (i - 1) / 2, i=1, np)]
  own = -1
  call MPI_Scatterv(matrix, counts, places, row, own, columns * (me + 1), MPI_INTEGER, 0, &
                    MPI_COMM_WORLD)
  do i = 1, me + 1
    if (any(own(:, i) /= [(1000 * (places(me+1) + i) + j, j=1, columns)])) error stop 'a row'
  end do
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
