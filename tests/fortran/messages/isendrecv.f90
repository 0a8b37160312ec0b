! ranks: 1 2
! Send and receive in one nonblocking call.
program both
  use mpi_f08
  implicit none
  integer :: me, np, right, left, i
  integer, asynchronous :: out(4), in(8), swapped(3)
  type(MPI_Request) :: requests(2)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  right = modulo(me + 1, np)
  left = modulo(me - 1, np)
  out = [(100 * me + i, i=1, 4)]
  in = 0
  swapped = me
  call MPI_Isendrecv(out, 4, MPI_INTEGER, right, 1, in(2:8:2), 4, MPI_INTEGER, left, 1, &
                     MPI_COMM_WORLD, requests(1))
  call MPI_Isendrecv_replace(swapped, 3, MPI_INTEGER, left, 2, right, 2, MPI_COMM_WORLD, &
                             requests(2))
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
  if (any(in(2:8:2) /= [(100 * left + i, i=1, 4)])) error stop 'the received numbers'
  if (any(in(1:7:2) /= 0)) error stop 'the gaps'
  if (any(swapped /= right)) error stop 'the replaced numbers'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
