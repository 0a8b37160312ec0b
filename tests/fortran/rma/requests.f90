! ranks: 2
! One-sided calls with requests: rows of a matrix from afar.
program with_requests
  use mpi_f08
  implicit none
  integer, parameter :: n = 4
  integer :: me, i, j
  integer, asynchronous :: matrix(n,n), row(n), column(n)
  type(MPI_Win) :: win
  type(MPI_Datatype) :: spread
  type(MPI_Request) :: requests(2)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  matrix = reshape([((1000 * me + 10 * i + j, i=1, n), j=1, n)], [n, n])
  call MPI_Type_vector(n, 1, n, MPI_INTEGER, spread)
  call MPI_Type_commit(spread)
  call MPI_Win_create(matrix, int(4 * n * n, MPI_ADDRESS_KIND), 4, MPI_INFO_NULL, &
                      MPI_COMM_WORLD, win)
  call MPI_Win_lock_all(0, win)
  call MPI_Rget(row, n, MPI_INTEGER, 1 - me, 2_MPI_ADDRESS_KIND, 1, spread, win, requests(1))
  call MPI_Rget(column, n, MPI_INTEGER, 1 - me, int(n, MPI_ADDRESS_KIND), n, MPI_INTEGER, win, &
                requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  if (any(row /= [(1000 * (1 - me) + 30 + j, j=1, n)])) error stop 'the row'
  if (any(column /= [(1000 * (1 - me) + 10 * i + 2, i=1, n)])) error stop 'the column'
  call MPI_Barrier(MPI_COMM_WORLD)
  row = -row
  call MPI_Rput(row, n, MPI_INTEGER, 1 - me, 0_MPI_ADDRESS_KIND, 1, spread, win, requests(1))
  call MPI_Raccumulate(column(2:n), n - 1, MPI_INTEGER, 1 - me, int(n, MPI_ADDRESS_KIND) + 1, n - 1, &
                       MPI_INTEGER, MPI_SUM, win, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call MPI_Win_unlock_all(win)
  call MPI_Barrier(MPI_COMM_WORLD)
  if (any(matrix(1,:) /= [(-(1000 * me + 30 + j), j=1, n)])) error stop 'the row that was put'
  if (any(matrix(2:,2) /= [(2 * (1000 * me + 10 * i + 2), i=2, n)])) error stop 'the column'
  call MPI_Win_free(win)
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
