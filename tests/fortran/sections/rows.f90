! ranks: 1 2
! Rows of a matrix as buffers of blocking calls.
program rows
  use mpi_f08
  implicit none
  integer :: me, np, i, j, a(4,5), b(6,5)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  a = reshape([((100 * me + 10 * i + j, i=1, 4), j=1, 5)], [4, 5])
  b = -1
  call MPI_Sendrecv(a(3,:), 5, MPI_INTEGER, modulo(me + 1, np), 1, b(2,:), 5, MPI_INTEGER, &
                    modulo(me - 1, np), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  if (any(b(2,:) /= [(100 * modulo(me - 1, np) + 30 + j, j=1, 5)])) error stop 'the row'
  if (any(b(1,:) /= -1) .or. any(b(3:,:) /= -1)) error stop 'the other rows'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
