! ranks: 1 2 4
! Several collectives are open at once while the process computes.
program overlap
  use mpi_f08
  implicit none
  integer, parameter :: n = 100
  integer :: me, np, i
  integer, asynchronous :: parameters(4), square
  real(kind(1d0)), asynchronous :: partial(n), total(n)
  integer, allocatable, asynchronous :: names(:)
  type(MPI_Request) :: requests(4)
  real(kind(1d0)) :: work
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  allocate (names(np))
  parameters = merge([4, 3, 2, 1], 0, me == 0)
  square = me * me
  partial = [(me + i * 0.5d0, i=1, n)]
  call MPI_Ibcast(parameters, 4, MPI_INTEGER, 0, MPI_COMM_WORLD, requests(1))
  call MPI_Iallreduce(partial, total, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, requests(2))
  call MPI_Iallgather(square, 1, MPI_INTEGER, names, 1, MPI_INTEGER, MPI_COMM_WORLD, requests(3))
  call MPI_Ibarrier(MPI_COMM_WORLD, requests(4))
  work = 0
  do i = 1, 1000
    work = work + sqrt(real(i, kind(1d0)))
  end do
  call MPI_Waitall(4, requests, MPI_STATUSES_IGNORE)
  if (any(parameters /= [4, 3, 2, 1])) error stop 'the broadcast'
  if (any(total /= [(np * (np - 1) / 2 + np * i * 0.5d0, i=1, n)])) error stop 'the sums'
  if (any(names /= [(i * i, i=0, np-1)])) error stop 'the squares'
  if (work < 21000) error stop 'the work'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
