! ranks: 1 2
! Partitioned communication: the columns of a matrix become ready one after another.
program partitioned
  use mpi_f08
  implicit none
  integer, parameter :: columns = 6, rows = 5
  integer :: me, np, column, step, to, from
  integer(MPI_COUNT_KIND), parameter :: one_column = rows
  integer, asynchronous :: out(rows, columns), in(rows, columns)
  logical :: arrived
  type(MPI_Request) :: requests(2)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  to = modulo(me + 1, np)
  from = modulo(me - 1, np)
  call MPI_Psend_init(out, columns, one_column, MPI_INTEGER, to, 1, MPI_COMM_WORLD, &
                      MPI_INFO_NULL, requests(1))
  call MPI_Precv_init(in, columns, one_column, MPI_INTEGER, from, 1, MPI_COMM_WORLD, &
                      MPI_INFO_NULL, requests(2))
  do step = 1, 3
    in = -1
    call MPI_Startall(2, requests)
    do column = columns, 1, -1
      out(:, column) = 1000 * step + 100 * me + column
      call MPI_Pready(column - 1, requests(1))
    end do
    do column = 1, columns
      arrived = .false.
      do while (.not. arrived)
        call MPI_Parrived(requests(2), column - 1, arrived)
      end do
      if (any(in(:, column) /= 1000 * step + 100 * from + column)) error stop 'a column'
    end do
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  end do
  call MPI_Request_free(requests(1))
  call MPI_Request_free(requests(2))
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
