! ranks: 1 2
! Persistent requests on sections: each start takes what the section has then.
program persistent
  use mpi_f08
  implicit none
  integer :: me, np, step, to, from, j
  integer, asynchronous :: a(5,4), b(5,4), total(2:9)
  type(MPI_Request) :: requests(3)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  to = modulo(me + 1, np)
  from = modulo(me - 1, np)
  call MPI_Send_init(a(5,:), 4, MPI_INTEGER, to, 1, MPI_COMM_WORLD, requests(1))
  call MPI_Recv_init(b(1,4:1:-1), 4, MPI_INTEGER, from, 1, MPI_COMM_WORLD, requests(2))
  ! A reduction works on a copy of the sections.
  call MPI_Allreduce_init(a(2,:), total(2:8:2), 4, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, &
                          MPI_INFO_NULL, requests(3))
  do step = 1, 4
    b = -1
    total = -1
    a = reshape([(1000 * step + 100 * me + j, j=1, 20)], [5, 4])
    call MPI_Startall(3, requests)
    call MPI_Waitall(3, requests, MPI_STATUSES_IGNORE)
    if (any(b(1,4:1:-1) /= [(1000 * step + 100 * from + 5 * j, j=1, 4)])) error stop 'the row'
    if (any(b(2:,:) /= -1)) error stop 'the other rows'
    if (any(total(2:8:2) /= [(np * (1000 * step + 5 * j - 3) + 50 * np * (np - 1), j=1, 4)])) &
      error stop 'the sums'
    if (any(total(3:9:2) /= -1)) error stop 'the gaps'
  end do
  do j = 1, 3
    call MPI_Request_free(requests(j))
  end do
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
