! ranks: 1 2 4
! A persistent reduction in an iteration that converges.
program persistent
  use mpi_f08
  implicit none
  integer :: me, np, steps
  real(kind(1d0)), asynchronous :: local(1), global(1)
  type(MPI_Request) :: request
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  call MPI_Allreduce_init(local, global, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, &
                          MPI_INFO_NULL, request)
  local = 1024 * (me + 1)
  do steps = 1, 100
    local = local / 2
    call MPI_Start(request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    if (global(1) /= 1024d0 * np / 2d0**steps) error stop 'the maximum'
    if (global(1) < 1) exit
  end do
  if (steps /= exponent(1024d0 * np)) error stop 'the number of steps'
  call MPI_Request_free(request)
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
