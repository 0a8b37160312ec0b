! ranks: 1 2
! Elements that a list chooses, in parentheses: a copy that the call reads.
program chosen
  use mpi_f08
  implicit none
  integer :: me, np, i, a(10), b(4), list(4)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  a = [(100 * me + i, i=1, 10)]
  list = [9, 2, 2, 7]
  call MPI_Sendrecv((a(list)), 4, MPI_INTEGER, modulo(me + 1, np), 1, b, 4, MPI_INTEGER, &
                    modulo(me - 1, np), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  if (any(b /= 100 * modulo(me - 1, np) + list)) error stop 'the elements'
  call MPI_Allreduce((a(list)), b, 4, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD)
  if (any(b /= 100 * (np - 1) + list)) error stop 'the largest'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
