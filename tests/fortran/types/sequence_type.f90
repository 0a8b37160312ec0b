! ranks: 2
! A SEQUENCE type as a structure, and an array of it.
program sequence_type
  use mpi
  implicit none
  type particle
    sequence
    double precision :: position(3)
    real :: mass
    integer :: kind_of
    character(len=4) :: name
    logical :: alive
  end type
  type(particle) :: p(5), q(5)
  integer :: ierr, me, raw, of_particle, i
  integer(MPI_ADDRESS_KIND) :: base, next, places(5)
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, me, ierr)
  call MPI_Get_address(p(1), base, ierr)
  call MPI_Get_address(p(1)%position, places(1), ierr)
  call MPI_Get_address(p(1)%mass, places(2), ierr)
  call MPI_Get_address(p(1)%kind_of, places(3), ierr)
  call MPI_Get_address(p(1)%name, places(4), ierr)
  call MPI_Get_address(p(1)%alive, places(5), ierr)
  call MPI_Get_address(p(2), next, ierr)
  places = places - base
  call MPI_Type_create_struct(5, [3, 1, 1, 4, 1], places, [MPI_DOUBLE_PRECISION, MPI_REAL, &
                              MPI_INTEGER, MPI_CHARACTER, MPI_LOGICAL], raw, ierr)
  call MPI_Type_create_resized(raw, 0_MPI_ADDRESS_KIND, next - base, of_particle, ierr)
  call MPI_Type_commit(of_particle, ierr)
  do i = 1, 5
    p(i) = particle([i * 1d0, i * 2d0, i * 3d0], i * 0.5, 10 * i, &
                    'p' // char(48 + i), mod(i, 2) == 0)
    q(i) = particle([0d0, 0d0, 0d0], 0., 0, '', .false.)
  end do
  call MPI_Sendrecv(p, 5, of_particle, 1 - me, 1, q, 5, of_particle, 1 - me, 1, MPI_COMM_WORLD, &
                    MPI_STATUS_IGNORE, ierr)
  do i = 1, 5
    if (any(q(i)%position /= p(i)%position) .or. q(i)%mass /= p(i)%mass) error stop 'the reals'
    if (q(i)%kind_of /= p(i)%kind_of .or. q(i)%name /= p(i)%name) error stop 'integer and name'
    if (q(i)%alive .neqv. p(i)%alive) error stop 'the logical'
  end do
  call MPI_Type_free(of_particle, ierr)
  call MPI_Type_free(raw, ierr)
  call MPI_Finalize(ierr)
  if (me == 0) print '(a)', 'ok'
end program
