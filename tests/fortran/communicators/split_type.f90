! ranks: 2 4
! The processes that share memory.
program split_type
  use mpi_f08
  implicit none
  type(MPI_Comm) :: node, none
  integer :: me, np, n, rank, result
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  call MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -me, MPI_INFO_NULL, node)
  call MPI_Comm_size(node, n)
  call MPI_Comm_rank(node, rank)
  if (n /= np .or. rank /= np - 1 - me) error stop 'the processes of the node'
  call MPI_Comm_compare(MPI_COMM_WORLD, node, result)
  if (result /= MPI_SIMILAR) error stop 'the comparison'
  call MPI_Comm_split_type(MPI_COMM_WORLD, merge(MPI_UNDEFINED, MPI_COMM_TYPE_SHARED, me == 0), &
                           0, MPI_INFO_NULL, none)
  if ((none == MPI_COMM_NULL) .neqv. me == 0) error stop 'a process that takes no part'
  call MPI_Comm_free(node)
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
