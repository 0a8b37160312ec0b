! ranks: 1 2
! Components of arrays of derived types are sections: velocities of particles.
program components
  use mpi_f08
  implicit none
  type particle
    real(kind(1d0)) :: x(3), v(3)
    integer :: id
    logical :: alive
  end type
  type(particle) :: p(6)
  integer :: me, np, i, ids(6)
  real(kind(1d0)) :: total(6)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, me)
  call MPI_Comm_size(MPI_COMM_WORLD, np)
  do i = 1, 6
    p(i) = particle([0d0, 1d0, 2d0], [1d0, 2d0, 3d0] * i, 10 * me + i, me == 0)
  end do
  call MPI_Bcast(p%id, 6, MPI_INTEGER, np - 1, MPI_COMM_WORLD)
  if (any(p%id /= [(10 * (np - 1) + i, i=1, 6)])) error stop 'the numbers'
  call MPI_Allreduce(p%v(2), total, 6, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
  if (any(total /= [(2d0 * i * np, i=1, 6)])) error stop 'the sums'
  call MPI_Allreduce(MPI_IN_PLACE, p%alive, 6, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD)
  if (.not. all(p%alive)) error stop 'the logicals'
  call MPI_Sendrecv(p(2:6:2)%id, 3, MPI_INTEGER, me, 1, ids, 3, MPI_INTEGER, me, 1, &
                    MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  if (any(ids(:3) /= 10 * (np - 1) + [2, 4, 6])) error stop 'every second number'
  if (any([(any(p(i)%x /= [0d0, 1d0, 2d0]), i=1, 6)])) error stop 'the places'
  call MPI_Finalize()
  if (me == 0) print '(a)', 'ok'
end program
