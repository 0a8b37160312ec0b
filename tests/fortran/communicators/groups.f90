! ranks: 4
! Groups: sets of processes and what can be done with them.
program sets
  use mpi_f08
  implicit none
  type(MPI_Group) :: world, even, low, made
  integer :: me, n, ranks(4), result
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_group(MPI_COMM_WORLD, world)
  call MPI_Group_incl(world, 2, [2, 0], even)
  call MPI_Group_excl(world, 2, [2, 3], low)
  call MPI_Group_translate_ranks(even, 2, [0, 1], world, ranks)
  if (any(ranks(:2) /= [2, 0])) error stop 'the even ones'
  call MPI_Group_union(even, low, made)
  call MPI_Group_translate_ranks(made, 3, [0, 1, 2], world, ranks)
  if (any(ranks(:3) /= [2, 0, 1])) error stop 'the union'
  call MPI_Group_free(made)
  call MPI_Group_intersection(even, low, made)
  call MPI_Group_size(made, n)
  call MPI_Group_translate_ranks(made, 1, [0], world, ranks)
  if (n /= 1 .or. ranks(1) /= 0) error stop 'the intersection'
  call MPI_Group_difference(low, even, made)
  call MPI_Group_translate_ranks(world, 4, [0, 1, 2, 3], made, ranks)
  if (any(ranks /= [MPI_UNDEFINED, 0, MPI_UNDEFINED, MPI_UNDEFINED])) error stop 'the difference'
  call MPI_Group_range_incl(world, 1, reshape([3, 1, -2], [3, 1]), made)
  call MPI_Group_translate_ranks(made, 2, [0, 1], world, ranks)
  if (any(ranks(:2) /= [3, 1])) error stop 'the range'
  call MPI_Group_rank(made, n)
  if (n /= merge((3 - me) / 2, MPI_UNDEFINED, mod(me, 2) == 1)) error stop 'the rank'
  call MPI_Group_incl(world, 2, [0, 2], low)
  call MPI_Group_compare(low, even, result)
  if (result /= MPI_SIMILAR) error stop 'the comparison'
  if (low == even) error stop 'handles of two groups'
  call MPI_Group_difference(even, low, made)
  if (made /= MPI_GROUP_EMPTY) error stop 'the empty group'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
