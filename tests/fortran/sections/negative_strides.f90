! ranks: 1 2
! Sections that run backwards, in one and in two dimensions.
program backwards
  use mpi_f08
  implicit none
  integer :: me, i, a(7), b(7), c(3,4), d(3,4)
  type(MPI_Request) :: requests(2)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  a = [(i, i=1, 7)]
  b = 0
  call MPI_Sendrecv(a(7:1:-2), 4, MPI_INTEGER, me, 1, b(1:4), 4, MPI_INTEGER, me, 1, &
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  if (any(b /= [7, 5, 3, 1, 0, 0, 0])) error stop 'sent backwards'
  c = reshape([(i, i=1, 12)], [3, 4])
  d = 0
  call MPI_Irecv(d(3:1:-1,4:1:-1), 12, MPI_INTEGER, me, 2, MPI_COMM_WORLD, requests(1))
  call MPI_Isend(c, 12, MPI_INTEGER, me, 2, MPI_COMM_WORLD, requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  call MPI_F_sync_reg(d)
  if (any(d /= reshape([(i, i=12, 1, -1)], [3, 4]))) error stop 'received backwards'
  call MPI_Allreduce(MPI_IN_PLACE, a(7:1:-3), 3, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD)
  call MPI_Bcast(a(3:1:-1), 3, MPI_INTEGER, 0, MPI_COMM_WORLD)
  if (any(a /= [(i, i=1, 7)])) error stop 'collectives'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
