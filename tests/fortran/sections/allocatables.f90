! ranks: 1 2
! Allocatable arrays with bounds of their own, and parts of them.
program allocatables
  use mpi_f08
  implicit none
  integer :: me, np, n, i
  real, allocatable :: field(:,:,:), plane(:,:)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  n = 3
  allocate (field(-1:n, 0:n, 5:5+n))
  field = me
  allocate (plane(5, 4))
  plane = reshape([(i * 0.5, i=1, 20)], [5, 4])
  call MPI_Sendrecv(plane, 20, MPI_REAL, modulo(me + 1, np), 1, field(:,2,:), 20, MPI_REAL, &
                    modulo(me - 1, np), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  if (any(field(:,2,:) /= plane)) error stop 'the plane'
  if (any(field(:,:1,:) /= me) .or. any(field(:,3:,:) /= me)) error stop 'the rest'
  call MPI_Allreduce(MPI_IN_PLACE, field(:,:,7), 20, MPI_REAL, MPI_SUM, MPI_COMM_WORLD)
  if (any(field(:,0,7) /= np * (np - 1) / 2)) error stop 'the sum'
  if (any(field(:,2,7) /= np * plane(:,3))) error stop 'the sum of the planes'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
