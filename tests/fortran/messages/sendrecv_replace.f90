! ranks: 1 2 4
! A block wanders round all processes in place.
program wander
  use mpi_f08
  implicit none
  integer :: me, np, step, right, left
  real(kind(1d0)) :: block(3,3)
  type(MPI_Status) :: status
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  right = modulo(me + 1, np)
  left = modulo(me - 1, np)
  block = me + 0.5d0
  do step = 1, np
    call MPI_Sendrecv_replace(block, 9, MPI_DOUBLE_PRECISION, right, step, left, step, &
                              MPI_COMM_WORLD, status)
    if (any(block /= modulo(me - step, np) + 0.5d0)) error stop 'the block'
    if (status%MPI_SOURCE /= left .or. status%MPI_TAG /= step) error stop 'the status'
    ! The inner row alone, a section with gaps.
    call MPI_Sendrecv_replace(block(2,:), 3, MPI_DOUBLE_PRECISION, left, 90, right, 90, &
                              MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    if (any(block(2,:) /= modulo(me + 1 - step, np) + 0.5d0)) error stop 'the row'
    if (any(block(1:3:2,:) /= modulo(me - step, np) + 0.5d0)) error stop 'the other rows'
    block = modulo(me - step, np) + 0.5d0
  end do
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
