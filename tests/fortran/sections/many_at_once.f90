! ranks: 2 3
! Many nonblocking messages between different sections of one array.
program many
  use mpi_f08
  implicit none
  integer, parameter :: n = 12
  integer :: me, np, k, to, from
  integer, asynchronous :: out(n,n), in(n,n)
  type(MPI_Request) :: requests(2*n)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  to = modulo(me + 1, np)
  from = modulo(me - 1, np)
  out = reshape([(1000 * me + k, k=1, n*n)], [n, n])
  in = 0
  ! What was row k becomes column n + 1 - k, from the bottom up.
  do k = 1, n
    call MPI_Irecv(in(n:1:-1, n+1-k), n, MPI_INTEGER, from, k, MPI_COMM_WORLD, requests(k))
  end do
  do k = n, 1, -1
    call MPI_Isend(out(k,:), n, MPI_INTEGER, to, k, MPI_COMM_WORLD, requests(n+k))
  end do
  call MPI_Waitall(2 * n, requests, MPI_STATUSES_IGNORE)
  do k = 1, n
    if (any(in(n:1:-1, n+1-k) /= out(k,:) + 1000 * (from - me))) error stop 'a row'
  end do
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
