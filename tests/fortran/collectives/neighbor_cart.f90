! ranks: 1 2 4
! Neighbours on a ring, by MPI_Neighbor_allgather and MPI_Neighbor_alltoall.
program ring_of_neighbours
  use mpi_f08
  implicit none
  integer :: me, np, left, right, got(2), out(2)
  type(MPI_Comm) :: ring
  type(MPI_Request) :: request
  call MPI_Init()
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  call MPI_Cart_create(MPI_COMM_WORLD, 1, [np], [.true.], .false., ring)
  call MPI_Comm_rank(ring, me)
  call MPI_Cart_shift(ring, 0, 1, left, right)
  got = -1
  call MPI_Neighbor_allgather(me, 1, MPI_INTEGER, got, 1, MPI_INTEGER, ring)
  if (any(got /= [left, right])) error stop 'allgather'
  out = [10 * me, 10 * me + 1]
  got = -1
  call MPI_Neighbor_alltoall(out, 1, MPI_INTEGER, got, 1, MPI_INTEGER, ring)
  if (any(got /= [10 * left + 1, 10 * right])) error stop 'alltoall'
  got = -1
  call MPI_Ineighbor_allgather(out, 1, MPI_INTEGER, got, 1, MPI_INTEGER, ring, request)
  call MPI_Wait(request, MPI_STATUS_IGNORE)
  call MPI_F_sync_reg(got)
  if (any(got /= [10 * left, 10 * right])) error stop 'nonblocking'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
