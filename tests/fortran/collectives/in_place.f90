! ranks: 1 2 4
! MPI_IN_PLACE in every collective that takes it.
program in_place
  use mpi_f08
  implicit none
  integer :: me, np, i, n
  integer, allocatable :: a(:), counts(:), places(:)
  type(MPI_Request) :: request
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  n = np * (np - 1) / 2
  allocate (a(np))
  counts = [(1, i=1, np)]
  places = [(i, i=0, np-1)]
  a = -1
  a(me+1) = 10 * me
  call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, a, 1, MPI_INTEGER, MPI_COMM_WORLD)
  if (any(a /= [(10 * i, i=0, np-1)])) error stop 'allgather'
  a = -1
  a(me+1) = 20 * me
  call MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, a, counts, places, MPI_INTEGER, &
                      MPI_COMM_WORLD)
  if (any(a /= [(20 * i, i=0, np-1)])) error stop 'allgatherv'
  a = [(100 * me + i, i=0, np-1)]
  call MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, a, 1, MPI_INTEGER, MPI_COMM_WORLD)
  if (any(a /= [(100 * i + me, i=0, np-1)])) error stop 'alltoall'
  call MPI_Alltoallv(MPI_IN_PLACE, counts, places, MPI_DATATYPE_NULL, a, counts, places, &
                     MPI_INTEGER, MPI_COMM_WORLD)
  if (any(a /= [(100 * me + i, i=0, np-1)])) error stop 'alltoallv'
  a = me
  call MPI_Allreduce(MPI_IN_PLACE, a, np, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (any(a /= n)) error stop 'allreduce'
  a = me
  if (me == 0) then
    call MPI_Reduce(MPI_IN_PLACE, a, np, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD)
    if (any(a /= n)) error stop 'reduce'
  else
    call MPI_Reduce(a, a, np, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD)
    if (any(a /= me)) error stop 'reduce at another rank'
  end if
  a = [(i * (me + 1), i=1, np)]
  call MPI_Reduce_scatter_block(MPI_IN_PLACE, a, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (a(1) /= (me + 1) * np * (np + 1) / 2) error stop 'reduce_scatter_block'
  a = [(i * (me + 1), i=1, np)]
  call MPI_Reduce_scatter(MPI_IN_PLACE, a, counts, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (a(1) /= (me + 1) * np * (np + 1) / 2) error stop 'reduce_scatter'
  a = me + 1
  call MPI_Scan(MPI_IN_PLACE, a, np, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (any(a /= (me + 1) * (me + 2) / 2)) error stop 'scan'
  a = me + 1
  call MPI_Exscan(MPI_IN_PLACE, a, np, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (me > 0 .and. any(a /= me * (me + 1) / 2)) error stop 'exscan'
  a = 0
  if (me == 0) then
    a(1) = 5
    call MPI_Gather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, a, 1, MPI_INTEGER, 0, MPI_COMM_WORLD)
    if (any(a /= [(5 + i, i=0, np-1)])) error stop 'gather'
    call MPI_Scatter(a, 1, MPI_INTEGER, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD)
  else
    call MPI_Gather(5 + me, 1, MPI_INTEGER, a, 0, MPI_DATATYPE_NULL, 0, MPI_COMM_WORLD)
    call MPI_Scatter(a, 0, MPI_DATATYPE_NULL, a, 1, MPI_INTEGER, 0, MPI_COMM_WORLD)
  end if
  if (a(1) /= 5 + me) error stop 'scatter'
  a = me
  call MPI_Iallreduce(MPI_IN_PLACE, a, np, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call MPI_F_sync_reg(a)
  if (any(a /= np - 1)) error stop 'iallreduce'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
