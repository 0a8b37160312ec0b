! ranks: 1 2 4
! The heat equation on a rod: MPI_Sendrecv exchanges the ends. All ranks together get the same
! numbers as one process that has the whole rod.
program heat_1d
  use mpi
  implicit none
  integer, parameter :: wp = kind(1d0), cells = 24, steps = 50
  integer :: ierr, me, np, own, left, right, step, first
  real(wp) :: whole(0:cells+1), next(cells)
  real(wp), allocatable :: u(:), v(:)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, np, ierr)
  own = cells / np
  first = me * own
  left = merge(MPI_PROC_NULL, me - 1, me == 0)
  right = merge(MPI_PROC_NULL, me + 1, me == np - 1)
  whole = 0
  whole(0) = 1
  whole(cells/2) = 3
  allocate (u(0:own+1), v(own))
  u = whole(first:first+own+1)
  do step = 1, steps
    call MPI_Sendrecv(u(own), 1, MPI_DOUBLE_PRECISION, right, 1, &
                      u(0), 1, MPI_DOUBLE_PRECISION, left, 1, MPI_COMM_WORLD, &
                      MPI_STATUS_IGNORE, ierr)
    call MPI_Sendrecv(u(1), 1, MPI_DOUBLE_PRECISION, left, 2, &
                      u(own+1), 1, MPI_DOUBLE_PRECISION, right, 2, MPI_COMM_WORLD, &
                      MPI_STATUS_IGNORE, ierr)
    v = u(1:own) + 0.25_wp * (u(0:own-1) - 2 * u(1:own) + u(2:own+1))
    u(1:own) = v
    next = whole(1:cells) + 0.25_wp * (whole(0:cells-1) - 2 * whole(1:cells) + whole(2:cells+1))
    whole(1:cells) = next
  end do
  if (any(u(1:own) /= whole(first+1:first+own))) error stop 'the temperatures'
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
